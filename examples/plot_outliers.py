"""
Gross errors in the targets
===========================

Squared losses follow targets that are far off. Leave-one-out residuals, which cost next to nothing
here, tell which these are: ``outliers="trim"`` leaves them out and tunes again.
"""

import matplotlib.pyplot as plt
import numpy as np

from optimargin import ODMRegressorCV
from optimargin.plotting import RegressionDisplay, plot_curves

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, size=(150, 1))
clean = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=150)
y = clean.copy()
wrong = rng.choice(150, 8, replace=False)
y[wrong] += rng.choice([-1, 1], 8) * rng.uniform(3, 6, size=8)

plain = ODMRegressorCV().fit(X, y)
trimmed = ODMRegressorCV(outliers="trim").fit(X, y)
print("wrong:  ", sorted(wrong.tolist()))
print("trimmed:", trimmed.outliers_.tolist())

# %%
# The trimmed model is close to what the clean targets say.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
plot_curves([plain, trimmed], X, y, names=["all samples", "trimmed"], ax=left)
RegressionDisplay.from_predictions(
    clean, trimmed.predict(X), style="residuals", name="trimmed, clean targets", ax=right
)
plt.show()
