"""
Probabilities
=============

An ODM computes scores. With ``calibration`` it also fits a map to probabilities, by leave-one-out
scores in closed form: one fit, where ``CalibratedClassifierCV`` takes six. The dotted lines show
what the scores would be worth as they are.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from optimargin import ODMClassifier
from optimargin.plotting import ReliabilityDisplay

X, y = make_classification(3000, 20, n_informative=6, class_sep=0.6, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.8, random_state=0)

_, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
for kind in ("sigmoid", "isotonic"):
    model = ODMClassifier(calibration=kind).fit(X_train, y_train)
    loss = log_loss(y_test, model.predict_proba(X_test))
    name = f"{kind}, log loss {loss:.3f}"
    ReliabilityDisplay.from_estimator(model, X_test, y_test, name=name, ax=ax)
plt.show()

# %%
# The most probable class is the predicted one, always.
assert (model.predict_proba(X_test).argmax(axis=1) == model.predict(X_test)).all()
