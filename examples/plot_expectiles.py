"""
Expectiles: more than the mean
==============================

With different penalties below and above, a regression predicts an expectile instead of the mean.
Several of them show how the spread of the targets changes with the features.
"""

import matplotlib.pyplot as plt
import numpy as np

from optimargin import ODMRegressorCV
from optimargin.plotting import plot_curves

rng = np.random.default_rng(0)
X = rng.uniform(0, 6, size=(400, 1))
spread = 0.1 + 0.15 * X[:, 0]
y = np.sin(1.5 * X[:, 0]) + spread * rng.normal(size=400)

# %%
# Each expectile is tuned by its own held-out loss; no grid is needed. The noise grows to the
# right, and so does the distance between the curves.

models = [ODMRegressorCV(expectile=t).fit(X, y) for t in (0.05, 0.5, 0.95)]
plot_curves(models, X, y)
plt.show()

# %%
# At the optimum, residuals above and below balance in the ratio of the penalties.

for model in models:
    residual = y - model.predict(X)
    below, above = np.maximum(residual, 0).sum(), np.maximum(-residual, 0).sum()
    print(f"expectile {model.expectile}: {above / (below + above):.6f}")
