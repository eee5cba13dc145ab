"""Held-out values of indefinite kernels are those of the positive part that was solved with."""

import numpy as np
import pytest

from optimargin import LDMClassifier, ODMClassifier, ODMRegressor, OneClassODM
from optimargin.kernels import gram_matrix, make_kernel
from tests.cases import two_classes

SIGMOID = {"gamma": 0.4, "coef0": -0.5}
ASKED = {
    "classifier": (
        ODMClassifier(),
        ["loo_decision_function", "kfold_decision_function", "loo_error_bound"],
    ),
    "regressor": (ODMRegressor(C1=8.0, C2=2.0), ["loo_prediction", "kfold_prediction"]),
    "one-class": (OneClassODM(), ["loo_score_samples", "kfold_score_samples"]),
    "LDM": (LDMClassifier(), ["loo_error_bound"]),
}


@pytest.mark.filterwarnings("ignore:The sigmoid kernel matrix")
@pytest.mark.parametrize(("model", "methods"), ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_held_out_values_are_those_of_a_fit_to_the_positive_part(model, methods, dtype):
    X, y = two_classes(60)
    X = X.astype(np.float32).astype(dtype)
    gram = gram_matrix(make_kernel("sigmoid", **SIGMOID), X, np.ones(60))
    assert gram.negative_share > 0.1
    given = type(model)(**{**model.get_params(), "kernel": "sigmoid", **SIGMOID}).fit(X, y)
    part = type(model)(**{**model.get_params(), "kernel": "precomputed"}).fit(gram.K, y)
    digits = 1e-4 if dtype is np.float32 else 1e-8
    for method in methods:
        found, expected = getattr(given, method)(), getattr(part, method)()
        np.testing.assert_allclose(found, expected, atol=digits, err_msg=method)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_bound_of_an_ldm_in_single_precision_is_that_in_double(n_classes):
    X, _ = two_classes(60)
    X = X.astype(np.float32)
    y = np.digitize(X @ [1.0, -1.0, 0.5, 0.2], [-0.5, 0.5][: n_classes - 1])
    single, double = (LDMClassifier().fit(X.astype(dtype), y) for dtype in (np.float32, float))
    np.testing.assert_allclose(single.loo_error_bound(), double.loo_error_bound(), atol=1e-4)
