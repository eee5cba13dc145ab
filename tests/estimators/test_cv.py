"""The estimators that choose their own parameters."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.datasets import load_iris, make_classification
from sklearn.metrics import accuracy_score, get_scorer, make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold

from optimargin import (
    LinearODMClassifier,
    LinearODMClassifierCV,
    LinearODMRegressorCV,
    ODMClassifier,
    ODMClassifierCV,
    ODMRegressorCV,
)
from optimargin.objectives import ODM
from optimargin.selection.criteria import smooth_loss
from optimargin.selection.data import SelectionData
from optimargin.selection.loss import HeldOutLoss

pytestmark = pytest.mark.numbers

GRID = {"C1s": [1.0, 16.0, 256.0], "C2s": [1.0, 16.0], "Ds": [0.3, 0.0]}
PARAM_GRID = {"C1": [1.0, 16.0, 256.0], "C2": [1.0, 16.0], "D": [0.3, 0.0]}


def make_data(n_samples=80, random_state=0):
    return make_classification(
        n_samples=n_samples, n_features=6, n_informative=3, flip_y=0.1, random_state=random_state
    )


@pytest.mark.parametrize(
    ("selector", "estimator", "gammas", "class_weight", "n_classes"),
    [
        (ODMClassifierCV, ODMClassifier, [0.02, 0.2], None, 3),
        (ODMClassifierCV, ODMClassifier, [0.02, 0.2], "balanced", 2),
        (LinearODMClassifierCV, LinearODMClassifier, None, "balanced", 3),
        (LinearODMClassifierCV, LinearODMClassifier, None, None, 2),
    ],
)
def test_exact_folds_equal_grid_search(selector, estimator, gammas, class_weight, n_classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[150 - 50 * n_classes :], y[150 - 50 * n_classes :]
    cv = StratifiedKFold(4, shuffle=True, random_state=0)
    of_kernel = {} if gammas is None else {"gammas": gammas}
    weights = {"class_weight": class_weight, "multi_class": "ovr"}
    settings = {"cv": cv, "calibration": None, **weights}
    chosen = selector(**GRID, **of_kernel, **settings).fit(X, y)
    param_grid = PARAM_GRID | ({} if gammas is None else {"gamma": gammas})
    reference = GridSearchCV(estimator(**weights), param_grid, cv=cv).fit(X, y)
    assert chosen.cv_results_["params"] == reference.cv_results_["params"]
    for key in ("mean_test_score", "std_test_score", "split2_test_score", "rank_test_score"):
        np.testing.assert_allclose(
            chosen.cv_results_[key], reference.cv_results_[key], atol=1e-12, err_msg=key
        )
    found = {name: getattr(chosen, f"{name}_") for name in reference.best_params_}
    assert found == chosen.best_params_ == reference.best_params_
    assert chosen.held_out_score_ == pytest.approx(reference.best_score_)
    np.testing.assert_allclose(
        chosen.decision_function(X), reference.decision_function(X), atol=1e-9
    )


@pytest.mark.parametrize("scoring", ["roc_auc", "f1", "balanced_accuracy", "smooth"])
def test_leave_one_out_scores_are_those_of_the_closed_form(scoring):
    X, y = make_data()
    model = ODMClassifierCV(**GRID, gammas=[0.1], scoring=scoring).fit(X, y)
    for p, point in enumerate(model.cv_results_["params"]):
        decision = ODMClassifier(**point, tol=1e-12).fit(X, y).loo_decision_function()
        if scoring == "smooth":
            expected = 1 - smooth_loss(decision[:, None], y, np.full(80, 1 / 80))[0]
        else:
            values = decision if scoring == "roc_auc" else (decision > 0).astype(int)
            expected = get_scorer(scoring)._score_func(y, values)
        assert model.cv_results_["mean_test_score"][p] == pytest.approx(expected, abs=1e-6)
    assert model.best_score_ == model.cv_results_["mean_test_score"].max()


@pytest.mark.parametrize("selector", [ODMClassifierCV, LinearODMClassifierCV])
@pytest.mark.parametrize("splits", [None, 3])
def test_gradient_is_that_of_the_loss(selector, splits):
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(0).uniform(size=150)
    weight[:3] = 0.0
    data = SelectionData(ODM, X, y, weight, kernel=selector()._kernel_choice(), fit_intercept=True)
    if splits is not None:
        splits = list(StratifiedKFold(splits).split(X, y))
    loss = HeldOutLoss(data, splits, np.random.RandomState(0))
    low, high = loss.bounds.T
    step = 1e-6
    for share in (0.35, 0.62):
        x = low + share * (high - low)
        gradient = loss(x)[1]
        numeric = [
            (loss(x + step * e)[0].loss - loss(x - step * e)[0].loss) / (2 * step)
            for e in np.eye(len(x))
        ]
        np.testing.assert_allclose(gradient, numeric, atol=1e-6)


def test_smooth_loss_has_the_right_derivative_and_no_scale():
    rng = np.random.default_rng(0)
    for n_problems, n_classes in ((1, 2), (3, 3)):
        decision = rng.normal(size=(30, n_problems))
        encoded = rng.integers(n_classes, size=30)
        weight = rng.uniform(size=30)
        weight /= weight.sum()
        value, slope = smooth_loss(decision, encoded, weight)
        assert smooth_loss(7 * decision, encoded, weight)[0] == pytest.approx(value)
        direction = rng.normal(size=decision.shape)
        step = 1e-6
        ahead = smooth_loss(decision + step * direction, encoded, weight)[0]
        behind = smooth_loss(decision - step * direction, encoded, weight)[0]
        assert (ahead - behind) / (2 * step) == pytest.approx((slope * direction).sum(), abs=1e-7)
    assert smooth_loss(np.zeros((4, 1)), np.array([0, 1, 0, 1]), np.full(4, 0.25))[0] == 0.5


@pytest.mark.parametrize("selector", [ODMClassifierCV, LinearODMClassifierCV])
@pytest.mark.parametrize("cv", [None, 3])
def test_search_is_deterministic_within_budget_and_finds_a_good_model(selector, cv):
    X, y = make_data(120)
    first = selector(max_evals=30, cv=cv).fit(X, y)
    second = selector(max_evals=30, cv=cv).fit(X, y)
    assert first.cv_results_["params"] == second.cv_results_["params"]
    assert len(first.cv_results_["params"]) <= 31  # and the rounded choice
    assert first.best_score_ >= first.cv_results_["mean_test_score"].max() - 1e-3
    assert first.score(X, y) > 0.7
    for name in ("C1_", "C2_", "D_"):
        assert getattr(first, name) == first.cv_results_["params"][first.best_index_][name[:-1]]


def test_search_chooses_by_the_given_scorer():
    X, y = make_data(120)
    model = ODMClassifierCV(max_evals=20, scoring="roc_auc").fit(X, y)
    scores = model.cv_results_["mean_test_score"]
    assert model.best_score_ >= scores.max() - 0.02
    assert (scores <= 1).all()


def test_search_samples_large_data_and_refits_to_all():
    X, y = make_data(400)
    order = np.argsort(X[:, 0])
    model = ODMClassifierCV(max_evals=8, max_samples=100, scoring="accuracy")
    model.fit(X[order], y[order])
    assert model.support_.max() > 350
    # Scores of decision values with other samples' labels would be near one half.
    assert model.best_score_ > 0.75


@pytest.mark.parametrize("kernel", ["linear", "poly", "precomputed"])
def test_search_without_width_for_other_kernels(kernel):
    X, y = make_data()
    data = X @ X.T if kernel == "precomputed" else X
    model = ODMClassifierCV(kernel=kernel, max_evals=10, max_samples=60).fit(data, y)
    assert model.score(data, y) > 0.7
    assert hasattr(model, "gamma_") == (kernel == "poly")
    assert hasattr(model, "coef_") == (kernel == "linear")


def test_fitted_attributes_are_those_of_the_refitted_estimator():
    X, y = make_data()
    model = ODMClassifierCV(**GRID, widths=[1.0], calibration=None).fit(X, y)
    point = {name: getattr(model, f"{name}_") for name in ("C1", "C2", "D", "gamma")}
    reference = ODMClassifier(**point).fit(X, y)
    for name, value in vars(reference).items():
        if name.endswith("_"):
            np.testing.assert_array_equal(getattr(model, name), value, err_msg=name)
    np.testing.assert_array_equal(model.predict(X), reference.predict(X))
    np.testing.assert_array_equal(model.loo_decision_function(), reference.loo_decision_function())
    assert model.loo_error_bound() == reference.loo_error_bound()
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    frame = pd.DataFrame(model.cv_results_)
    assert len(frame) == 12


def test_unfitted_model_has_no_coefficients():
    with pytest.raises(AttributeError, match="after fit"):
        _ = ODMClassifierCV(kernel="linear").coef_


def test_weight_equals_repetition_on_fixed_splits():
    X, y = make_data(60)
    counts = np.random.default_rng(0).integers(1, 4, size=60)
    repeated = np.repeat(np.arange(60), counts)
    fold = np.arange(60) % 3
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    fold = fold[repeated]
    long_splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    for grid in ({}, GRID | {"widths": [1.0]}):
        weighted = ODMClassifierCV(cv=splits, **grid).fit(X, y, sample_weight=counts)
        longer = ODMClassifierCV(cv=long_splits, **grid).fit(X[repeated], y[repeated])
        if grid:
            expected = [
                np.average(
                    ODMClassifier(**point, tol=1e-12)
                    .fit(X[train], y[train], sample_weight=counts[train])
                    .predict(X[test])
                    == y[test],
                    weights=counts[test],
                )
                for point in weighted.cv_results_["params"]
                for train, test in splits[:1]
            ]
            np.testing.assert_allclose(
                weighted.cv_results_["split0_test_score"], expected, atol=1e-12
            )
        else:
            assert pytest.approx((longer.C1_, longer.C2_, longer.D_)) == (
                weighted.C1_,
                weighted.C2_,
                weighted.D_,
            )
        np.testing.assert_allclose(
            weighted.cv_results_["mean_test_score"],
            longer.cv_results_["mean_test_score"],
            atol=1e-6,
        )


def test_groups_reach_the_splitter():
    X, y = make_data()
    groups = np.arange(80) // 10
    cv = GroupKFold(4)
    model = ODMClassifierCV(**GRID, gammas=[0.1], cv=cv).fit(X, y, groups=groups)
    reference = GridSearchCV(ODMClassifier(gamma=0.1), PARAM_GRID, cv=cv).fit(X, y, groups=groups)
    np.testing.assert_allclose(
        model.cv_results_["mean_test_score"], reference.cv_results_["mean_test_score"]
    )
    with config_context(enable_metadata_routing=True):
        routed = ODMClassifierCV(**GRID, gammas=[0.1], cv=cv).fit(X, y, groups=groups)
    np.testing.assert_array_equal(
        model.cv_results_["mean_test_score"], routed.cv_results_["mean_test_score"]
    )


def test_groups_without_a_splitter_for_them_warn():
    X, y = make_data()
    with pytest.warns(UserWarning, match="groups.*ignored without cv"):
        ODMClassifierCV(max_evals=2).fit(X, y, groups=np.arange(80))


def test_weights_are_routed_to_fit_and_scorer():
    X, y = make_data()
    weight = np.random.default_rng(0).uniform(size=80)
    with config_context(enable_metadata_routing=True):
        scorer = make_scorer(accuracy_score).set_score_request(sample_weight=True)
        model = ODMClassifierCV(**GRID, gammas=[0.1], scoring=scorer)
        model.set_fit_request(sample_weight=True).fit(X, y, sample_weight=weight)
        unweighted = make_scorer(accuracy_score).set_score_request(sample_weight=False)
        plain = ODMClassifierCV(**GRID, gammas=[0.1], scoring=unweighted)
        plain.fit(X, y, sample_weight=weight)
    point = model.cv_results_["params"][0]
    decision = ODMClassifier(**point, tol=1e-12).fit(X, y, weight).loo_decision_function()
    right = (decision > 0) == y
    expected = np.average(right, weights=weight)
    assert model.cv_results_["mean_test_score"][0] == pytest.approx(expected)
    assert plain.cv_results_["mean_test_score"][0] == pytest.approx(right.mean())


def test_unknown_fit_arguments_are_refused_without_routing():
    X, y = make_data()
    with pytest.raises(TypeError, match="unexpected arguments"):
        ODMClassifierCV().fit(X, y, colour="red")


def failing(y_true, y_pred):
    raise RuntimeError("no such luck")


@pytest.mark.parametrize("grid", [GRID, {"max_evals": 5}])
@pytest.mark.parametrize(
    ("scoring", "kind", "message"),
    [
        (make_scorer(failing), RuntimeError, "no such luck"),
        ("neg_brier_score", AttributeError, "predict_proba"),
    ],
)
def test_errors_of_scorers_are_not_changed_and_notes_name_the_point(grid, scoring, kind, message):
    X, y = make_data()
    with pytest.raises(kind, match=message) as raised:
        ODMClassifierCV(**grid, scoring=scoring).fit(X, y)
    notes = " ".join(raised.value.__notes__)
    assert re.search(r"must need no more than decision_function.* At C1=.*C2=.*D=", notes)


@pytest.mark.parametrize("grid", [GRID, {"max_evals": 5}])
def test_scorers_that_return_no_number_name_the_point(grid):
    X, y = make_data()
    scoring = make_scorer(lambda y_true, y_pred: np.nan)
    with pytest.raises(ValueError, match=r"At C1=.*C2=.*D=.*returned nan"):
        ODMClassifierCV(**grid, scoring=scoring).fit(X, y)


@pytest.mark.parametrize("grid", [GRID | {"cv": 3}, {}])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupt_keeps_what_was_computed(grid, n_jobs):
    X, y = make_data()
    calls = []

    def interrupting(estimator, X, y):
        calls.append(1)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return float(len(calls))

    model = ODMClassifierCV(**grid, scoring=interrupting, n_jobs=n_jobs)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    kept = model.cv_results_
    if grid:
        scores = np.array([kept[f"split{s}_test_score"] for s in range(3)])
        assert np.isfinite(scores).sum() >= 8
    else:
        assert np.isfinite(kept["mean_test_score"]).sum() == 8
        assert model.best_score_ == 8.0
        assert kept["params"][7]["C1"] == model.C1_
    with pytest.raises(Exception, match="not fitted"):
        model.predict(X)


def test_progress_tells_the_time_left(capsys):
    X, y = make_data()
    ODMClassifierCV(**GRID, gammas=[0.1], verbose=1).fit(X, y)
    written = capsys.readouterr().err
    assert "12 of 12 fits" in written
    assert "to go" in written
    ODMClassifierCV(max_evals=5).fit(X, y)
    assert capsys.readouterr().err == ""


def test_threads_give_the_same_scores():
    X, y = make_data()
    one = ODMClassifierCV(**GRID, cv=3).fit(X, y)
    two = ODMClassifierCV(**GRID, cv=3, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"]
    )


def test_folds_of_one_class_are_an_error():
    X, y = make_data()
    order = np.argsort(y)
    splits = [(order[:30], order[30:])]
    with pytest.raises(ValueError, match="split 0 have one class only"):
        ODMClassifierCV(cv=splits).fit(X, y)


def test_all_zero_scoring_weights_are_an_error():
    X, y = make_data()
    weight = np.ones(80)
    weight[60:] = 0.0
    splits = [(np.arange(60), np.arange(60, 80))]
    for grid in ({}, GRID):
        with pytest.raises(ValueError, match="zero weight"):
            ODMClassifierCV(cv=splits, **grid).fit(X, y, sample_weight=weight)


@pytest.mark.parametrize("scoring", [None, "accuracy", "balanced_accuracy"])
def test_the_accuracy_is_told_whatever_chose(scoring):
    X, y = make_data()
    model = LinearODMClassifierCV(max_evals=6, scoring=scoring).fit(X, y)
    assert 0.5 < model.held_out_score_ <= 1
    if scoring == "accuracy":
        assert model.held_out_score_ == model.best_score_
    assert model.best_params_ == model.cv_results_["params"][model.best_index_]


def test_the_accuracy_of_a_grid_is_that_of_leave_one_out():
    X, y = make_data()
    model = LinearODMClassifierCV(**GRID, scoring="balanced_accuracy", calibration=None).fit(X, y)
    expected = np.mean((model.loo_decision_function() > 0) == y)
    assert model.held_out_score_ == pytest.approx(expected)
    assert model.held_out_score_ != model.best_score_


def test_regressors_tell_r_squared():
    from sklearn.metrics import r2_score

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, 2.0, 0.5] + rng.normal(size=60)
    model = LinearODMRegressorCV(C1s=[1.0, 60.0], C2s=None).fit(X, y)
    assert model.held_out_score_ == pytest.approx(r2_score(y, model.loo_prediction()), abs=1e-6)


@pytest.mark.parametrize("make", [ODMClassifierCV, ODMRegressorCV])
def test_the_chosen_model_may_be_one_of_landmarks(make):
    X, y = make_classification(300, 6, random_state=0)
    model = make(approximation="nystrom", n_components=40).fit(X, y)
    assert len(model.best_estimator_.support_) == 40
    exact = make().fit(X, y)
    assert model.best_params_["C1"] == exact.best_params_["C1"]  # the search is the same
    assert model.score(X, y) > exact.score(X, y) - 0.1


def test_what_cannot_be_fitted_is_said_before_the_search(monkeypatch):
    monkeypatch.setattr(ODMClassifierCV, "_search", None)
    X, y = make_classification(30, 4, random_state=0)
    with pytest.raises(ValueError, match="positive semi-definite"):
        ODMClassifierCV(kernel="sigmoid", approximation="nystrom").fit(X, y)
    monkeypatch.setattr("optimargin.training.plan._EXACT_UP_TO", 29)
    with pytest.raises(ValueError, match="Set approximation='nystrom'"):
        ODMClassifierCV().fit(X, y)
    monkeypatch.undo()
    monkeypatch.setattr("optimargin.training.plan._EXACT_UP_TO", 29)
    ODMClassifierCV(max_evals=5).fit(X, y, np.arange(30) > 0)  # samples that count are fewer


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("settings", [GRID, {"max_evals": 24}])
def test_ties_share_a_rank_and_the_chosen_point_is_the_smoothest_of_the_first(settings, seed):
    y = np.arange(60) % 2
    X = np.random.default_rng(0).normal(size=(60, 5)) + 4.0 * y[:, None]
    noise = np.random.default_rng(seed)

    def rounded_accuracy(y_true, y_pred):
        return accuracy_score(y_true, y_pred) * (1 + 1e-12 * noise.uniform(-1, 1))

    model = LinearODMClassifierCV(**settings, scoring=make_scorer(rounded_accuracy)).fit(X, y)
    table = model.cv_results_
    first = np.flatnonzero(table["rank_test_score"] == 1)
    assert first.size > 1
    assert model.best_index_ in first
    assert table["param_C1"][first].min() == model.C1_
    assert model.best_score_ == pytest.approx(table["mean_test_score"].max(), rel=1e-9)
