"""
Prediction intervals and sets
=============================

All models without one training sample each follow from one fit. They give intervals (jackknife+)
for regressors and sets of classes for classifiers.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from optimargin import ODMClassifier, ODMRegressor
from optimargin.plotting import IntervalDisplay

# %%
# There are no samples between 4 and 6. Intervals become a little wider there, but not wide enough:
# the coverage is promised for samples that come from where the training samples came from.
rng = np.random.default_rng(0)
X = np.concatenate([rng.uniform(0, 4, 60), rng.uniform(6, 10, 60)])[:, None]
y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=120)
X_test = np.linspace(0, 10, 200)[:, None]
y_test = np.sin(X_test[:, 0]) + 0.2 * rng.normal(size=200)

model = ODMRegressor(gamma=1.0).fit(X, y)
IntervalDisplay.from_estimator(model, X_test, y_test, feature=0)
plt.show()

# %%
# Sets of classes: one class where the model is sure, both where the moons meet.
X, y = make_moons(200, noise=0.3, random_state=0)
grid = np.stack(np.meshgrid(np.linspace(-2, 3, 80), np.linspace(-1.5, 2, 80)), axis=-1)
_, sets = ODMClassifier().fit(X, y).predict_set(grid.reshape(-1, 2))
kind = sets[..., 0] @ [1, 2]  # none, the first, the second, both

_, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
colors = ["white", "#9ECAE9", "#F5C09A", "#D0D0D0"]
ax.contourf(*grid.T, kind.reshape(80, 80).T, levels=[-0.5, 0.5, 1.5, 2.5, 3.5], colors=colors)
ax.scatter(*X[y == 0].T, s=12, color="#0072B2", marker="o", label="first class")
ax.scatter(*X[y == 1].T, s=12, color="#D55E00", marker="^", label="second class")
ax.set_title("Sets at 90 %: one class (blue, orange), both (grey), none (white)")
ax.legend()
plt.show()
