"""
Regression that tunes itself
============================

``ODMRegressorCV`` predicts numbers. It chooses penalty and kernel width by held-out errors that
follow from its fits in closed form. Defaults do not depend on the units of ``y``; those of ``SVR``
do.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from optimargin import ODMRegressorCV
from optimargin.plotting import RegressionDisplay

X, y = make_friedman1(600, n_features=8, noise=1.0, random_state=0)
y = 1000 * y  # in euros, say
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

# %%
# The noise has a standard deviation of 1000: no model can get below that.
grid = {"C": 10.0 ** np.arange(2, 6), "gamma": 2.0 ** np.arange(-6, -1), "epsilon": [100]}
models = {
    "RidgeCV": RidgeCV(),
    "SVR": SVR(),
    "SVR, 20 points": GridSearchCV(SVR(), grid),
    "ODMRegressorCV": ODMRegressorCV(),
}
for name, regressor in models.items():
    model = make_pipeline(StandardScaler(), regressor)
    start = time.perf_counter()
    model.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    error = np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))
    print(f"{name:15s} error {error:5.0f}, {seconds:6.2f} s")

# %%
# Predictions for the test samples, and their residuals.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
RegressionDisplay.from_estimator(model, X_test, y_test, ax=left)
RegressionDisplay.from_estimator(model, X_test, y_test, style="residuals", ax=right)
plt.show()
