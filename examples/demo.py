"""ODM beside SVM on the breast cancer data that come with scikit-learn.

Twenty random half/half splits, features standardised by the training half, every classifier with
its default parameters: nothing is tuned. Prints one table and draws the held-out margins.
"""

import argparse
import time
import warnings
from dataclasses import dataclass, field

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from optimargin import LinearODMClassifier, ODMClassifier
from optimargin.margins import MarginDistribution, margin_distribution
from optimargin.plotting import MarginDistributionDisplay

CLASSIFIERS = [ODMClassifier(), SVC(), LinearODMClassifier(), LinearSVC()]
N_SPLITS = 20
INTRODUCTION = """\
Breast cancer: {} samples, {} features, {} random half/half splits, features standardised,
default parameters, nothing tuned, one thread.
"""
EXPLANATION = """
accuracy  held-out, mean ± standard deviation over the splits
margin    held-out, as the classifier scores it; std/mean does not depend on that scale
support   support vectors
ms        median time of a fit in milliseconds
gap       largest certified relative duality gap of all fits; '-' where none is certified
"""


@dataclass
class Record:
    """What one classifier did, one entry a split."""

    accuracy: list = field(default_factory=list)
    seconds: list = field(default_factory=list)
    n_support: list = field(default_factory=list)
    gap: list = field(default_factory=list)
    functional: list = field(default_factory=list)
    geometric: list = field(default_factory=list)


def n_support_vectors(est, X, y):
    """Count the training samples that the solution depends on."""
    if hasattr(est, "support_"):
        return est.support_.size
    # Linear models do not list them: they are the samples with a positive loss.
    margins = margin_distribution(est, X, y).margins
    D = getattr(est, "D", 0.0)
    outside = margins < 1 - D
    if getattr(est, "C2_", 0.0) > 0:
        outside |= margins > 1 + D
    return int(outside.sum())


def run(X, y):
    """Fit every classifier on every split."""
    records = [Record() for _ in CLASSIFIERS]
    for est in CLASSIFIERS:
        est.fit(X[::5], y[::5])  # the first fit of a process also loads libraries
    for train, test in StratifiedShuffleSplit(N_SPLITS, test_size=0.5, random_state=0).split(X, y):
        scaler = StandardScaler().fit(X[train])
        X_train, X_test = scaler.transform(X[train]), scaler.transform(X[test])
        for est, record in zip(CLASSIFIERS, records, strict=True):
            start = time.perf_counter()
            est.fit(X_train, y[train])
            record.seconds.append(time.perf_counter() - start)
            record.accuracy.append(est.score(X_test, y[test]))
            record.n_support.append(n_support_vectors(est, X_train, y[train]))
            record.gap.append(getattr(est, "dual_gap_", np.nan))
            for kind in ("functional", "geometric"):
                margins = margin_distribution(est, X_test, y[test], kind=kind).margins
                getattr(record, kind).append(margins)
    return records


def pooled(parts):
    """Return the distribution of the margins of all splits together."""
    margins = np.concatenate(parts)
    return MarginDistribution(margins, np.full(margins.size, 1 / margins.size))


def print_table(records):
    """Print one line a classifier."""
    head = ["", "accuracy", "margin mean", "variance", "std/mean", "support", "ms", "gap"]
    print(("{:<20}{:>15}" + "{:>12}" * 3 + "{:>9}{:>10}{:>9}").format(*head))
    for est, r in zip(CLASSIFIERS, records, strict=True):
        margins = pooled(r.functional)
        gap = "-" if np.isnan(r.gap[0]) else f"{max(r.gap):.0e}"
        print(
            f"{type(est).__name__:<20}"
            f"{np.mean(r.accuracy):>8.4f} ±{np.std(r.accuracy, ddof=1):.3f}"
            f"{margins.mean:>12.3f}{margins.variance:>12.3f}"
            f"{np.sqrt(margins.variance) / margins.mean:>12.2f}"
            f"{np.mean(r.n_support):>9.0f}{1e3 * np.median(r.seconds):>10.1f}{gap:>9}"
        )


def draw(records, path):
    """Draw the pooled margins: distances on the left, ODM's own scale on the right."""
    figure, axes = plt.subplots(2, 2, figsize=(11, 7.5), layout="constrained")
    pairs = list(zip(CLASSIFIERS, records, strict=True))
    for row, pair in zip(axes, (pairs[:2], pairs[2:]), strict=True):
        functional = [pooled(record.functional) for _, record in pair]
        low = min(np.quantile(d.margins, 0.005) for d in functional)
        high = max(np.quantile(d.margins, 0.99) for d in functional)
        for (est, record), distribution in zip(pair, functional, strict=True):
            name = type(est).__name__
            MarginDistributionDisplay(pooled(record.geometric), name=name, kind="geometric").plot(
                row[0]
            )
            MarginDistributionDisplay(distribution, name=name, D=getattr(est, "D", None)).plot(
                row[1], style="histogram", bins=np.linspace(low, high, 60)
            )
        row[1].set_xlim(low, high)
    axes[0, 0].set_title("RBF kernel, distance to the boundary")
    axes[0, 1].set_title("RBF kernel, decision values")
    axes[1, 0].set_title("Linear, distance to the boundary")
    axes[1, 1].set_title("Linear, decision values")
    figure.suptitle(f"Held-out margins on breast cancer data, {N_SPLITS} half/half splits")
    figure.savefig(path, dpi=90)


def main():
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="demo-margins.png", help="where the picture goes")
    path = parser.parse_args().output
    X, y = load_breast_cancer(return_X_y=True)
    print(INTRODUCTION.format(*X.shape, N_SPLITS))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        with threadpool_limits(1):  # as SVC and LinearSVC, which never use more
            records = run(X, y)
    print_table(records)
    print(EXPLANATION)
    stopped = sorted({str(w.message).split()[0] for w in caught})
    if stopped:
        print(f"{len(caught)} fits stopped before they converged ({', '.join(stopped)}).")
    draw(records, path)
    print(f"Picture of the held-out margins: {path}")


if __name__ == "__main__":
    main()
