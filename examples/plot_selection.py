"""
Plot a search
=============

``SelectionDisplay`` draws the held-out error over two parameters. A grid becomes a map; each cell
shows the best over all other parameters. A search without a grid becomes the points it evaluated.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import MinMaxScaler

from optimargin import ODMClassifierCV
from optimargin.plotting import SelectionDisplay

X, y = load_breast_cancer(return_X_y=True)
X, y = MinMaxScaler().fit_transform(X)[::2], y[::2]

grid = ODMClassifierCV(C1s="paper", Ds=[0.2], widths=[1.0]).fit(X, y)
search = ODMClassifierCV().fit(X, y)

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
SelectionDisplay.from_estimator(grid, ax=left)
SelectionDisplay.from_estimator(search, params=("C1", "gamma"), ax=right)
left.set_title("Leave-one-out error of 121 models")
right.set_title(f"Smooth held-out error, {len(search.cv_results_['params'])} models")
plt.show()
