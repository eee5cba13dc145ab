"""
Probabilities
=============

An ODM computes scores, not probabilities. scikit-learn's ``CalibratedClassifierCV`` turns
scores into probabilities by cross-validation, and with ``ensemble=False`` the result is one model.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import train_test_split

from optimargin import LinearODMClassifier

X, y = make_classification(6000, 20, n_informative=6, class_sep=0.6, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

_, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
for method in ("sigmoid", "isotonic"):
    model = CalibratedClassifierCV(LinearODMClassifier(), method=method, ensemble=False)
    probability = model.fit(X_train, y_train).predict_proba(X_test)[:, 1]
    name = f"{method}, Brier score {brier_score_loss(y_test, probability):.3f}"
    CalibrationDisplay.from_predictions(y_test, probability, n_bins=10, ax=ax, name=name)
ax.set_title("Held-out calibration")
plt.show()
