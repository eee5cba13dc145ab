"""
Solvers, and how fast they get there
====================================

All solvers reach the same model; they differ in how fast they get there. Every fit ends with a
certified duality gap, which bounds the distance from the optimum. Here it is plotted against time.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification

from optimargin import LinearODMClassifier
from optimargin.plotting import ConvergenceDisplay

X, y = make_classification(4000, 30, n_informative=10, flip_y=0.1, random_state=0)

_, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
LinearODMClassifier(max_iter=1000).fit(X, y)  # the first fit of a process also loads libraries
for solver, max_iter in (("newton", 20), ("newton_cg", 20), ("dcd", 100), ("svrg", 60)):
    display = ConvergenceDisplay.from_estimator(
        LinearODMClassifier(solver=solver, random_state=0), X, y, max_iter=max_iter, ax=ax
    )
    print(f"{solver:10s} gap {display.gaps[-1]:.1e} after {display.seconds[-1]:.3f} s")
ax.set_title("4000 samples, 30 features")
plt.show()
