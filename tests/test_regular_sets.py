"""The paper's regular data sets at the corners of its parameter grid.

They are looked for in the folder that OPTIMARGIN_DATA names, and skipped where there is none.
"""

import itertools
import warnings

import numpy as np
import pytest

from optimargin import LinearODMClassifier, ODMClassifier
from tests import regular_sets

NAMES = regular_sets.NAMES
CORNERS = list(itertools.product([1.0, 1024.0], [1.0, 1024.0], [0.0, 0.5]))
WIDTHS = [0.25, 0.5, 1.0, 2.0, 4.0]  # in units of the mean distance

pytestmark = regular_sets.needed


def models(name, fit_intercept):
    """Yield the linear model and five RBF models at every corner."""
    distance = regular_sets.mean_distance(name)
    for C1, C2, D in CORNERS:
        options = {"C1": C1, "C2": C2, "D": D, "fit_intercept": fit_intercept, "tol": 1e-8}
        options["random_state"] = 0
        yield LinearODMClassifier(**options)
        for width in WIDTHS:
            yield ODMClassifier(gamma=1 / (2 * (width * distance) ** 2), **options)


def check_certificates(name, fit_intercept):
    X, y = regular_sets.load(name)
    steps = []
    for model in models(name, fit_intercept):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(X, y)
        assert model.dual_gap_ <= 1e-8, model
        assert np.isfinite(model.decision_function(X)).all()
        steps.append(model.n_iter_)
    assert max(steps) <= 25
    assert np.mean(np.array(steps) <= 10) >= 0.95


with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])


@with_and_without_intercept
@pytest.mark.parametrize("name", NAMES[:6])
def test_small_sets_are_solved_and_certified_at_every_corner(name, fit_intercept):
    check_certificates(name, fit_intercept)


@pytest.mark.slow
@with_and_without_intercept
@pytest.mark.parametrize("name", NAMES[6:])
def test_regular_sets_are_solved_and_certified_at_every_corner(name, fit_intercept):
    check_certificates(name, fit_intercept)


def test_all_regular_sets_are_found():
    assert all((regular_sets.FOLDER / f"{name}.csv").is_file() for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_regular_sets_are_read_as_two_classes_in_the_unit_cube(name):
    X, y = regular_sets.load(name)
    assert len(X) == len(y)
    assert np.unique(y).size == 2
    assert X.min() >= 0
    assert X.max() <= 1
