"""Searches choose the same where scores are rounded in another way.

Every score that a search looks at is multiplied by one plus some noise, far more than the rounding
of any processor. Points of a grid, forms of the loss, widths per feature or not, and numbers of
landmarks stay what they are; numbers that are searched for move by next to nothing.
"""

from contextlib import contextmanager
from functools import cache, partial

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, make_moons

from optimargin import (
    LDMClassifierCV,
    LinearODMClassifierCV,
    LinearODMRegressorCV,
    ODMClassifier,
    ODMClassifierCV,
    ODMRegressorCV,
)
from optimargin._ties import TOLERANCE
from optimargin.selection.criteria import Criterion
from optimargin.tasks import Task
from tests.reference.reference_fits import CASES, distance_of_points, run_case
from tests.selection.test_penalty import words
from tests.selection.test_relevance import noisy_moons

NOISE = 1e-9  # relative
MOVED = 1e-3  # of the binary logarithm of a parameter
_SCORES = ("score", "score_and_slope", "score_path")


def _classes(of):
    yield of
    for kind in of.__subclasses__():
        yield from _classes(kind)


@contextmanager
def noisy_scores(seed):
    """Add noise to what criteria say, and to the errors that decide about landmarks."""
    rng = np.random.default_rng(seed)
    inside = []

    def noisy(score):
        return score * (1 + NOISE * rng.uniform(-1, 1))

    def wrapped(name, method):
        def scored(*given):
            inside.append(name)
            try:
                found = method(*given)
                found = list(found) if name == "score_path" else found
            finally:
                inside.pop()
            if inside:  # asked by another criterion, whose scores are noisy
                return found
            if name == "score_and_slope":
                return noisy(found[0]), found[1]
            return noisy(found) if name == "score" else [noisy(score) for score in found]

        return scored

    with pytest.MonkeyPatch.context() as patch:
        for kind in set(_classes(Criterion)):
            for name in {*_SCORES} & {*vars(kind)}:
                patch.setattr(kind, name, wrapped(name, vars(kind)[name]))
        for kind in set(_classes(Task)):
            if "held_out_error" in vars(kind):
                plain = kind.held_out_error
                changed = staticmethod(lambda *given, plain=plain: noisy(plain(*given)))
                patch.setattr(kind, "held_out_error", changed)
        yield


def saturated():
    """Return two classes so far apart that most penalties score alike."""
    y = np.arange(60) % 2
    return np.random.default_rng(0).normal(size=(60, 20)) + 8.0 * y[:, None], y


def diabetes():
    """Return numbers to predict."""
    X, y = load_diabetes(return_X_y=True)
    return X[:150], y[:150]


def of_many_words():
    """Return wide sparse rows of two classes."""
    X, score = words(2500)
    return X, score > 0


# Searches that the stored ones lack.
MORE = {
    "widths": (ODMClassifierCV(relevance=True), noisy_moons),
    "no widths": (ODMClassifierCV(), partial(noisy_moons, 150, 0)),
    "many samples": (ODMClassifierCV(relevance=False), partial(noisy_moons, 700, 2)),
    "saturated": (ODMClassifierCV(), saturated),
    "saturated, area": (ODMClassifierCV(scoring="roc_auc"), saturated),
    "saturated, linear": (LinearODMClassifierCV(), saturated),
    "saturated, hinge": (LDMClassifierCV(), saturated),
    "saturated, grid": (ODMClassifierCV(C1s="paper", C2s=[1], Ds=[0, 0.5], widths=[1]), saturated),
    "regression": (ODMRegressorCV(), diabetes),
    "regression, linear": (LinearODMRegressorCV(scoring="r2"), diabetes),
    "penalty of all samples": (LinearODMClassifierCV(max_evals=10), of_many_words),
    "landmarks": (
        ODMClassifier(gamma=30.0, approximation="nystrom", random_state=0),
        partial(make_moons, 1000, noise=0.2, random_state=0),
    ),
}
STORED = [name for name, case in CASES.items() if case.kind in ("choice", "search")]
SHORT = [
    "odm_cv/grid/loo",
    "odm_cv/grid/cv5/roc_auc",
    "ldm_cv/grid",
    "odm_cv/search/rbf/roc_auc",
    "linear_odm_cv/search/iris",
    "linear_ldm_cv/search/cv3/wide",
    "saturated",
    "saturated, hinge",
    "landmarks",
]


def _chosen(name):
    """Return what a search chose and its score; of a fit the number of landmarks."""
    if name in CASES:
        found = run_case(name)
        return found["params"], float(found["best_score"])
    model, data = MORE[name]
    model.fit(*data())
    if name == "landmarks":
        return {"n_components": model.support_.size}, np.nan
    return model.best_params_, model.best_score_


_chosen_without_noise = cache(_chosen)


def check(name, seed):
    """Raise an AssertionError where noise changes what is chosen."""
    expected, score = _chosen_without_noise(name)
    with noisy_scores(seed):
        found, noisy_score = _chosen(name)
    assert {*found} == {*expected}
    moved = distance_of_points(expected, found)
    is_as_good = np.isfinite(moved) and abs(noisy_score - score) < TOLERANCE * abs(score)
    is_searched = name not in CASES or CASES[name].kind == "search"
    assert moved < MOVED or (is_searched and is_as_good), (found, expected)


@pytest.mark.parametrize("name", SHORT)
def test_noise_changes_no_choice(name):
    check(name, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*STORED, *MORE])
def test_noise_of_many_kinds_changes_no_choice(name):
    for seed in range(20):
        check(name, seed)
