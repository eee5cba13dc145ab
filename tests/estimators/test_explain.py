"""What a fit would be, told before it."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression

from optimargin import (
    LDMClassifier,
    LinearODMClassifier,
    LinearODMRegressor,
    ODMClassifier,
    ODMClassifierCV,
    OneClassODM,
    explain_plan,
)

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    "model",
    [
        ODMClassifier(),
        ODMClassifier(1e5),
        ODMClassifier(kernel="linear"),
        LinearODMClassifier(),
        LinearODMRegressor(),
        LDMClassifier(),
        OneClassODM(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("n_samples", [60, 400])
def test_the_fit_takes_the_solver_that_was_named(model, n_samples):
    X, y = make_moons(n_samples, noise=0.3, random_state=0)
    model = clone(model)
    told = explain_plan(model, X, y)
    assert not hasattr(model, "n_features_in_")
    assert told.chosen.solver == model.fit(X, y).solver_
    assert told.n_samples == n_samples
    assert 0 < told.chosen.seconds < 10
    assert told.chosen.n_bytes > 0
    assert told.chosen.solver in str(told)
    if told.runner_up is not None:
        assert repr(told.runner_up.solver) in str(told)


def test_reasons_are_given():
    X, y = make_moons(150, noise=0.3, random_state=0)
    assert "exact" in explain_plan(ODMClassifier(), X, y).reason
    assert "solver='bcd'" in explain_plan(ODMClassifier(solver="bcd"), X, y).reason
    landmarks = explain_plan(ODMClassifier(approximation="nystrom"), X, y)
    assert landmarks.chosen.design == "landmarks"
    assert "least time" in explain_plan(ODMClassifier(), *make_moons(2000)).reason


def test_pairs_of_classes_and_weights_are_seen():
    X, y = make_moons(1200, noise=0.3, random_state=0)
    labels = np.where(np.arange(1200) % 3, y, 2)
    told = explain_plan(ODMClassifier(), sp.csr_array(X), labels, np.arange(1200) % 2)
    assert 300 < told.n_samples < 500


def test_pairs_with_an_indefinite_kernel_are_those_of_all_samples():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(900, 5)), np.arange(900) % 3
    model = ODMClassifier(kernel="sigmoid", multi_class="ovo")
    plan = explain_plan(model, X, y)
    assert plan.n_samples == 900
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        assert plan.chosen.solver == model.fit(X, y).solver_


def test_no_time_is_told_where_none_is_estimated():
    X, y = make_moons(100, random_state=0)
    assert "nan" not in str(explain_plan(LinearODMClassifier(solver="svrg"), X, y))


def test_others_are_refused():
    X, y = make_moons(60)
    with pytest.raises(TypeError, match="LogisticRegression"):
        explain_plan(LogisticRegression(), X, y)
    with pytest.raises(TypeError, match="best_estimator_"):
        explain_plan(ODMClassifierCV(), X, y)


def test_a_search_says_how_its_last_fit_is_made(capsys):
    X, y = make_moons(100, noise=0.3, random_state=0)
    ODMClassifierCV(max_evals=10, verbose=1).fit(X, y)
    told = capsys.readouterr()
    assert "The last fit is by 'newton' on gram" in told.err
    assert not told.out
