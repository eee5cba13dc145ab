"""A path equals cold fits."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from optimargin import LDMClassifier, ldm_path
from tests.cases import two_classes

pytestmark = [pytest.mark.quick, pytest.mark.numbers]


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_every_point_of_a_path_equals_a_cold_fit(kernel, fit_intercept):
    X, y = two_classes(60)
    weight = np.random.default_rng(0).integers(1, 4, size=60)
    path = ldm_path(
        X,
        y,
        Cs=[1, 100],
        lambda1s=[0, 0.1, 10],
        lambda2s=[0, 0.5],
        kernel=kernel,
        fit_intercept=fit_intercept,
        sample_weight=weight,
    )
    assert len(path.params) == 12
    assert path.dual_gap.max() <= 1e-6
    for k, params in enumerate(path.params):
        model = LDMClassifier(**params, kernel=kernel, fit_intercept=fit_intercept)
        model.fit(X, y, weight)
        assert path.objective[k, 0] == pytest.approx(model.objective_, rel=1e-7)


def test_several_classes_have_a_column_each():
    X, _ = two_classes(45)
    path = ldm_path(X, np.repeat([0, 1, 2], 15), Cs=[10], lambda1s=[1], lambda2s=[1])
    assert path.objective.shape == (1, 3)
    assert path.coef.shape == (1, 3, 45)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"Cs": [0]}, "Cs has values"),
        ({"Cs": [np.inf]}, "Cs has values"),
        ({"lambda1s": []}, "lambda1s must be a list"),
        ({"lambda2s": "all"}, "lambda2s='all' is unknown"),
        ({"sample_weight": np.arange(60.0)}, "sample_weight must be positive"),
        ({"tol": 0.0}, "'tol' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
    ],
)
def test_bad_arguments_are_named(bad, message):
    X, y = two_classes(60)
    with pytest.raises(ValueError, match=message):
        ldm_path(X, y, **bad)


def test_points_that_did_not_converge_are_named():
    X, y = two_classes(60)
    with pytest.warns(ConvergenceWarning, match="at 1 of 1 points.*lambda1=0.1"):
        ldm_path(X, y, kernel="linear", Cs=[100], lambda1s=[0.1], lambda2s=[0.5], max_iter=1)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="one class only"):
        ldm_path(np.ones((4, 1)), np.ones(4))
