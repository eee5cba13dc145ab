"""
Tune an ODM in seconds
======================

An ODM has three parameters and a kernel width. Trying them all by cross-validation takes
thousands of fits. This is not necessary: the loss is piecewise quadratic, so one fit already gives
the prediction for each sample as if that sample had been left out.
"""

# %%
# The data
# --------
# Breast cancer, half of it for training, features scaled to [0, 1].
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from optimargin import ODMClassifier, ODMClassifierCV

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=0.5, random_state=0)
scaler = MinMaxScaler().fit(X_train)
X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)


def timed(model):
    start = time.perf_counter()
    model.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    print(
        f"{type(model).__name__:15s} {seconds:6.2f} s, accuracy {model.score(X_test, y_test):.3f}"
    )
    return model


# %%
# Without a grid
# --------------
# By default ``ODMClassifierCV`` searches continuously for the smallest held-out loss, with
# exact gradients. For comparison: a grid search over 25 points for an SVM.
tuned = timed(ODMClassifierCV())
print(f"C1={tuned.C1_:.3g}, C2={tuned.C2_:.3g}, D={tuned.D_:.2f}, gamma={tuned.gamma_:.3g}")

svm = timed(
    GridSearchCV(SVC(), {"C": 2.0 ** np.arange(-5, 16, 5), "gamma": 2.0 ** np.arange(-6, 3, 2)})
)

# %%
# With a grid
# -----------
# Leave-one-out errors of 11 x 11 values of C1 and C2, at D = 0.2 and the mean distance as
# width: 121 models and 121 x 284 predictions for samples left out.
grid = timed(ODMClassifierCV(C1s="paper", Ds=[0.2], widths=[1.0]))

errors = 1 - grid.cv_results_["mean_test_score"].reshape(11, 11)
fig, ax = plt.subplots(figsize=(5.5, 4.5), layout="constrained")
image = ax.imshow(100 * errors, origin="lower", cmap="viridis_r", norm="log")
ticks = np.arange(0, 11, 2)
ax.set_xticks(ticks, [f"$2^{{{k}}}$" for k in ticks])
ax.set_yticks(ticks, [f"$2^{{{k}}}$" for k in ticks])
ax.set(xlabel="C2", ylabel="C1", title="Leave-one-out error")
ax.plot(np.log2(grid.C2_), np.log2(grid.C1_), "r*", markersize=14, label="chosen")
ax.legend(loc="upper left", bbox_to_anchor=(0, -0.13), frameon=False)
fig.colorbar(image, label="error, %", format="%g", ticks=[2, 3, 4, 6, 10, 20, 40])
plt.show()

# %%
# How good the closed form is
# ---------------------------
# It holds the active set fixed. ``exact=True`` follows the samples that enter or leave it, and
# gives the same values as refits. Below the error are three bounds on it: the paper's, its
# corrected form and the tighter count. They are meant for models without an intercept.
model = ODMClassifier(C1=64, C2=16, D=0.2, fit_intercept=False).fit(X_train, y_train)
for name, exact in (("closed form", False), ("exact", True)):
    error = np.mean((model.loo_decision_function(exact=exact) > 0) != y_train)
    print(f"leave-one-out error, {name:12s} {error:.4f}")
for kind in ("count", "valid", "printed"):
    print(f"bound, {kind:8s} {model.loo_error_bound(kind=kind):.4f}")
