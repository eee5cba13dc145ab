"""
Imbalanced classes
==================

When one class is rare, errors on it add least to the loss, so the model makes most errors there.
``class_weight="balanced"`` gives both classes the same total weight. As weights are normalised, the
parameters keep their meaning.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import balanced_accuracy_score, recall_score
from sklearn.model_selection import train_test_split

from optimargin import ODMClassifier
from optimargin.plotting import DecisionBoundaryDisplay

X, y = make_classification(
    800,
    2,
    n_redundant=0,
    n_clusters_per_class=1,
    weights=[0.93],
    class_sep=0.9,
    flip_y=0,
    random_state=3,
)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
print(f"{np.mean(y):.0%} of the samples are in class 1")

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharey=True)
for ax, class_weight in zip(axes, (None, "balanced"), strict=False):
    model = ODMClassifier(class_weight=class_weight).fit(X_train, y_train)
    predicted = model.predict(X_test)
    DecisionBoundaryDisplay.from_estimator(model, X_test, y_test, mark_support=False, ax=ax)
    recall = recall_score(y_test, predicted)
    balanced = balanced_accuracy_score(y_test, predicted)
    ax.set_title(f"class_weight={class_weight!r}\nrecall {recall:.2f}, balanced {balanced:.2f}")
plt.show()
