"""
The band around the boundary
============================

ODM pulls margins into the band between 1 - D and 1 + D. In two dimensions we can plot the band:
margins are 1 - D on the dashed line and 1 + D on the dotted line. Samples strictly between the two
are not penalised and are not support vectors, so a band makes the model sparser. Once no margin
exceeds 1 + D, a wider band only rescales the decision values.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from optimargin import ODMClassifier
from optimargin.plotting import DecisionBoundaryDisplay

X, y = make_moons(150, noise=0.2, random_state=0)

figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained", sharey=True)
for ax, D in zip(axes, (0.0, 0.1, 0.3), strict=False):
    model = ODMClassifier(D=D).fit(X, y)
    DecisionBoundaryDisplay.from_estimator(model, X, y, ax=ax)
    ax.set_title(f"D = {D}: {model.support_.size} of {len(y)} are support vectors")
plt.show()
