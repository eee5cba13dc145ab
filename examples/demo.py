"""Train, tune and plot one data set: what `make demo` shows first.

    python examples/demo.py [FOLDER]

The breast cancer data of scikit-learn, half for training. The folder receives the plots.
"""

import sys
import time
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from optimargin import ODMClassifier, ODMClassifierCV
from optimargin.plotting import (
    DecisionBoundaryDisplay,
    MarginDistributionDisplay,
    ReliabilityDisplay,
    SelectionDisplay,
)

GRID = {"C": 2.0 ** np.arange(-5, 16, 5), "gamma": 2.0 ** np.arange(-11, 0, 2)}


def shown(value):
    """Return a parameter as text; gamma may have one value per feature."""
    if np.ndim(value) == 0:
        return f"{value:.3g}"
    return f"{np.min(value):.2g} to {np.max(value):.2g}, one per feature"


def main(folder):
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.5, stratify=y, random_state=0
    )
    print(f"Breast cancer: {len(y)} samples, {X.shape[1]} features; half for training.\n")
    classifiers = {
        "ODMClassifier(), one fit": ODMClassifier(),
        "ODMClassifierCV(), tunes itself": ODMClassifierCV(),
        f"SVC, grid of {len(GRID['C']) * len(GRID['gamma'])} points": GridSearchCV(SVC(), GRID),
    }
    models = []
    for name, classifier in classifiers.items():
        start = time.perf_counter()
        models.append(make_pipeline(StandardScaler(), classifier).fit(X_train, y_train))
        seconds = time.perf_counter() - start
        print(f"{name:32s} accuracy {models[-1].score(X_test, y_test):.3f}  {seconds:6.2f} s")
    error = np.mean([1 - model.score(X_test, y_test) for model in models])
    by_chance = 2 * np.sqrt(error * (1 - error) / len(y_test))
    print(f"With {len(y_test)} test samples, differences below {by_chance:.2f} mean little.")
    tuned = models[1]
    chosen = [f"{key} {shown(value)}" for key, value in tuned[-1].best_params_.items()]
    print(f"\nchosen: {', '.join(chosen)}")
    print(f"accuracy expected from the training half alone: {tuned[-1].held_out_score_:.3f}")

    figure, axes = plt.subplots(2, 2, figsize=(11, 9), layout="constrained")
    SelectionDisplay.from_estimator(tuned, params=("C1", "gamma"), ax=axes[0, 0])
    axes[0, 0].set_title("What the search looked at")
    MarginDistributionDisplay.from_estimator(
        tuned, X_test, y_test, style="histogram", ax=axes[0, 1]
    )
    axes[0, 1].set_title("Margins of the test half")
    ReliabilityDisplay.from_estimator(tuned, X_test, y_test, ax=axes[1, 0])
    axes[1, 0].set_title("Probabilities")
    plane = make_pipeline(StandardScaler(), PCA(2), StandardScaler()).fit(X_train)
    flat = plane.transform(X_train)
    boundary = ODMClassifier().fit(flat, y_train)
    DecisionBoundaryDisplay.from_estimator(boundary, flat, y_train, ax=axes[1, 1])
    axes[1, 1].set_title("The band, in the plane of two principal components")
    axes[1, 1].set(xlabel="first component", ylabel="second component")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "plots.png", dpi=110)
    print(f"\nplots: {folder / 'plots.png'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
