"""A kernel defined here works in every estimator, with landmarks, chunks, tuning and files."""

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.metrics.pairwise import euclidean_distances

from optimargin import LDMClassifier, LDMClassifierCV, ODMClassifier, ODMClassifierCV
from optimargin.chunks import ArrayChunks
from optimargin.io import load_model, save_model
from optimargin.kernels import KERNELS, RadialKernel
from tests.cases import two_classes

pytestmark = [pytest.mark.quick, pytest.mark.numbers]


# [kernel]
@dataclass(frozen=True)
class CauchyKernel(RadialKernel):
    """``k(x, z) = 1 / (1 + gamma |x - z|^2)``."""

    name = "cauchy"

    def profile(self, squares):
        return 1 / (1 + squares)

    def profile_slope(self, squares):
        return -1 / (1 + squares) ** 2


# [end]
X, Y = two_classes(90, 3)


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(KERNELS, "cauchy", CauchyKernel)


def written_out(A, B):
    return 1 / (1 + 0.4 * euclidean_distances(A, B, squared=True))


PENALTIES = {"C1": 32.0, "C2": 8.0, "D": 0.1}


@pytest.mark.parametrize("solver", ["newton", "newton_cg", "dcd"])
def test_it_equals_the_same_kernel_given_as_a_function(solver):
    named = ODMClassifier(**PENALTIES, kernel="cauchy", gamma=0.4, solver=solver, tol=1e-10)
    given = ODMClassifier(**PENALTIES, kernel=written_out, solver="newton")
    scores = named.fit(X, Y).decision_function(X)
    np.testing.assert_allclose(scores, given.fit(X, Y).decision_function(X), atol=1e-4)


def test_it_works_in_the_other_machine():
    named = LDMClassifier(kernel="cauchy", gamma=0.4).fit(X, Y)
    given = LDMClassifier(kernel=written_out).fit(X, Y)
    np.testing.assert_allclose(named.decision_function(X), given.decision_function(X), atol=1e-6)


def test_all_samples_as_landmarks_give_the_exact_model():
    exact = ODMClassifier(**PENALTIES, kernel="cauchy", gamma=0.4).fit(X, Y)
    low_rank = ODMClassifier(
        **PENALTIES, kernel="cauchy", gamma=0.4, approximation="nystrom", n_components=90
    )
    scores = exact.decision_function(X)
    np.testing.assert_allclose(low_rank.fit(X, Y).decision_function(X), scores, atol=1e-4)
    chunks = ArrayChunks(X, Y, chunk_rows=40)
    np.testing.assert_allclose(low_rank.fit_chunks(chunks).decision_function(X), scores, atol=1e-4)


def test_exact_leave_one_out_equals_refits():
    model = ODMClassifier(**PENALTIES, kernel="cauchy", gamma=0.4).fit(X, Y)
    left_out = model.loo_decision_function(exact=True)
    share = 89 / 90
    for i in range(0, 90, 13):
        rest = np.arange(90) != i
        refit = ODMClassifier(32 * share, 8 * share, 0.1, kernel="cauchy", gamma=0.4)
        expected = refit.fit(X[rest], Y[rest]).decision_function(X[[i]])[0]
        assert left_out[i] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("make", [ODMClassifierCV, LDMClassifierCV])
def test_its_width_is_tuned(make):
    model = make(kernel="cauchy", max_evals=8, random_state=0).fit(X, Y)
    assert len(np.unique(model.cv_results_["param_gamma"])) > 3
    assert model.best_estimator_._kernel == CauchyKernel(model.gamma_)


def test_it_survives_a_model_file(tmp_path):
    model = ODMClassifier(kernel="cauchy").fit(X, Y)
    save_model(model, tmp_path / "model.skops")
    scores = load_model(tmp_path / "model.skops").decision_function(X)
    np.testing.assert_array_equal(scores, model.decision_function(X))


def test_without_an_onnx_form_it_is_refused_in_words():
    to_onnx = pytest.importorskip("optimargin.onnx").to_onnx
    with pytest.raises(ValueError, match="'cauchy', which has no ONNX form"):
        to_onnx(ODMClassifier(kernel="cauchy").fit(X, Y))
