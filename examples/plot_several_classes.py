"""
Several classes, and how sure a model is
========================================

Nothing changes with more than two classes: ``predict``, ``predict_proba`` and ``score`` work as in
scikit-learn. Here ten digits are told apart, half of them for training, with default parameters.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from optimargin import ODMClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, test_size=0.5, stratify=y, random_state=0
)
model = ODMClassifier(calibration="sigmoid").fit(X_train, y_train)
print(f"ODMClassifier {model.score(X_test, y_test):.3f}")
print(f"SVC           {SVC().fit(X_train, y_train).score(X_test, y_test):.3f}")

# %%
# Which digits are confused
# -------------------------
_, ax = plt.subplots(figsize=(5.2, 4.6), layout="constrained")
ConfusionMatrixDisplay.from_estimator(model, X_test, y_test, ax=ax, cmap="Blues", colorbar=False)
plt.show()

# %%
# The doubtful ones
# -----------------
# Ten test digits with the smallest probability of the class that was predicted.
probability = model.predict_proba(X_test)
doubtful = probability.max(axis=1).argsort()[:10]

figure, axes = plt.subplots(2, 5, figsize=(7, 3.4), layout="constrained")
for ax, i in zip(axes.flat, doubtful, strict=True):
    first, second = model.classes_[probability[i].argsort()[:-3:-1]]
    ax.imshow(X_test[i].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{first} or {second}? It is {y_test[i]}", fontsize=9)
    ax.set_axis_off()
plt.show()

# %%
# Sure predictions are right more often: the share of errors among the more and the less certain
# half of the digits.
wrong = model.predict(X_test) != y_test
order = probability.max(axis=1).argsort()
less, more = np.array_split(wrong[order], 2)
print(f"errors: {more.mean():.1%} of the certain half, {less.mean():.1%} of the other")
