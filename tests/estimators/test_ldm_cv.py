"""The large margin distribution machines that choose their own parameters."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold

from optimargin import (
    LDMClassifier,
    LDMClassifierCV,
    LinearLDMClassifier,
    LinearLDMClassifierCV,
)
from optimargin.designs import FeatureDesign, LinearGramDesign
from optimargin.designs.gram import centred_products
from optimargin.held_out.engine import LinearData
from optimargin.held_out.ldm import LDMRefitter
from optimargin.held_out.refitter import GramTest
from optimargin.kernels import KernelChoice
from optimargin.objectives import LDM
from optimargin.selection.grid import Grid
from optimargin.solvers import InteriorPoint, ldm_dcd
from optimargin.training.plan import plan_search_samples
from tests.cases import labels_target

pytestmark = pytest.mark.numbers

PARAM_GRID = {"C": [1.0, 100.0], "lambda1": [0.1, 10.0], "lambda2": [0.0, 0.5]}
OF_KERNEL = {LDMClassifierCV: {"widths": [1.0]}}
GRID = {f"{name}s": values for name, values in PARAM_GRID.items()}


def make_data(n_samples=60, n_features=6):
    return make_classification(
        n_samples=n_samples, n_features=n_features, n_informative=3, flip_y=0.1, random_state=0
    )


def by_point(results):
    points = [tuple(sorted(point.items())) for point in results["params"]]
    return dict(zip(points, results["mean_test_score"], strict=True))


@pytest.mark.parametrize(
    ("selector", "estimator", "gammas", "class_weight", "n_classes"),
    [
        (LDMClassifierCV, LDMClassifier, [0.02, 0.2], None, 3),
        (LDMClassifierCV, LDMClassifier, [0.02, 0.2], "balanced", 2),
        (LinearLDMClassifierCV, LinearLDMClassifier, None, "balanced", 3),
        (LinearLDMClassifierCV, LinearLDMClassifier, None, None, 2),
    ],
)
def test_folds_equal_grid_search(selector, estimator, gammas, class_weight, n_classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[150 - 50 * n_classes :: 2], y[150 - 50 * n_classes :: 2]
    of_kernel = {} if gammas is None else {"gammas": gammas}
    chosen = selector(**GRID, **of_kernel, class_weight=class_weight).fit(X, y)
    param_grid = PARAM_GRID | ({} if gammas is None else {"gamma": gammas})
    reference = GridSearchCV(estimator(class_weight=class_weight), param_grid).fit(X, y)
    found, expected = by_point(chosen.cv_results_), by_point(reference.cv_results_)
    assert found.keys() == expected.keys()
    for point, score in expected.items():
        assert found[point] == pytest.approx(score, abs=1e-12), point
    assert chosen.best_score_ == pytest.approx(reference.best_score_)
    np.testing.assert_array_equal(
        chosen.predict(X), estimator(**chosen.best_estimator_.get_params()).fit(X, y).predict(X)
    )
    for name in param_grid:
        assert getattr(chosen, f"{name}_") == getattr(chosen.best_estimator_, name)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("wide", [False, True])
def test_sample_and_feature_space_agree(fit_intercept, wide):
    X, y = make_data(40, 60 if wide else 6)
    targets = [labels_target(2.0 * y[:30] - 1)]
    center = X[:30].mean(axis=0) if fit_intercept else None
    data = LinearData(X[:30], center, X[30:])
    samples = LDMRefitter(
        LinearGramDesign(data.X, center),
        targets,
        fit_intercept,
        GramTest(centred_products(data.X_test, data.X, center)),
    )
    features = LDMRefitter(
        FeatureDesign(data.X, center),
        targets,
        fit_intercept,
        FeatureDesign(data.X_test, center),
        InteriorPoint(tol=1e-9, max_iter=1000),
    )
    for point in (LDM(0.1, 0.0, 10.0), LDM(4.0, 0.2, 100.0), LDM(4.0, 0.2, 1.0)):
        in_samples, in_features = samples.solve(point), features.solve(point)
        np.testing.assert_allclose(in_samples.objective, in_features.objective, rtol=1e-7)
        np.testing.assert_allclose(
            in_samples.predict_test().decision, in_features.predict_test().decision, atol=1e-4
        )
        assert in_samples.dual_gap.max() <= 1e-9


@pytest.mark.parametrize("selector", [LDMClassifierCV, LinearLDMClassifierCV])
def test_search_is_deterministic_within_budget_and_finds_a_good_model(selector):
    X, y = make_data(80)
    first = selector(max_evals=20).fit(X, y)
    second = selector(max_evals=20, cv=StratifiedKFold(5)).fit(X, y)
    assert first.cv_results_["params"] == second.cv_results_["params"]
    assert len(first.cv_results_["params"]) <= 21  # and the rounded choice
    assert first.best_score_ >= first.cv_results_["mean_test_score"].max() - 1e-2
    assert first.score(X, y) > 0.7
    assert first.loo_error_bound() > 0


def test_search_samples_large_data_and_scores_the_right_samples():
    X, y = make_data(300)
    order = np.argsort(X[:, 0])
    model = LDMClassifierCV(max_evals=6, max_samples=80, scoring="accuracy")
    model.fit(X[order], y[order])
    # Scores of decision values with other samples' labels would be near one half.
    assert model.best_score_ > 0.75
    assert model.support_.max() > 280


def test_ties_go_to_the_smoothest_model():
    values = {"lambda1": [0.1, 1.0], "lambda2": [1.0, 0.0], "C": [10.0, 1.0]}
    grid = Grid(LDM, values, [1.0, 0.1])
    best = grid.points[grid.smoothest_best(np.ones(len(grid)))]
    assert best == {"lambda1": 1.0, "lambda2": 0.0, "C": 1.0, "gamma": 0.1}


def test_paper_grid_has_735_points():
    X, y = make_data(20)
    model = LDMClassifierCV(Cs="paper", cv=2)
    assert len(model.fit(X, y).cv_results_["params"]) == 735


def test_fold_without_a_class_never_predicts_it():
    X, y = load_iris(return_X_y=True)
    X, y = X[::5], y[::5]
    splits = [(np.flatnonzero(y != 2), np.flatnonzero(y == 2)), (np.arange(30), np.arange(30))]
    for selector in (LDMClassifierCV, LinearLDMClassifierCV):
        results = selector(**GRID | OF_KERNEL.get(selector, {}), cv=splits).fit(X, y).cv_results_
        assert results["split0_test_score"].max() == 0.0
        assert results["split1_test_score"].max() > 0.9


def test_groups_reach_the_splitter():
    X, y = make_data()
    groups = np.arange(60) // 10
    cv = GroupKFold(3)
    model = LinearLDMClassifierCV(**GRID, cv=cv).fit(X, y, groups=groups)
    reference = GridSearchCV(LinearLDMClassifier(), PARAM_GRID, cv=cv).fit(X, y, groups=groups)
    assert by_point(model.cv_results_) == pytest.approx(by_point(reference.cv_results_))


@pytest.mark.parametrize("grid", [GRID, {"max_evals": 5}])
def test_failing_scorers_name_the_point(grid):
    X, y = make_data()
    scoring = make_scorer(lambda y_true, y_pred: np.nan)
    with pytest.raises(ValueError, match=r"At lambda1=.*lambda2=.*C=.*: The scorer .*nan"):
        LDMClassifierCV(**grid, scoring=scoring).fit(X, y)


def test_unbounded_points_are_named():
    X, y = make_data()
    rare = np.flatnonzero(y == 1)[:8]
    rows = np.sort(np.concatenate([np.flatnonzero(y == 0), rare]))
    model = LDMClassifierCV(Cs=[0.1], lambda1s=[0], lambda2s=[10], widths=[1])
    with pytest.raises(ValueError, match=r"lambda1=0 and an intercept, lambda2=10"):
        model.fit(X[rows], y[rows])


@pytest.mark.parametrize("kind", ["constant", "noise"])
def test_a_face_is_not_tried_again_and_again(kind, monkeypatch):
    rng = np.random.default_rng(0)
    X = np.ones((60, 3)) if kind == "constant" else rng.normal(size=(60, 3))
    calls = {"solve": 0, "face": 0}

    def counted(owner, name, what):
        function = getattr(owner, name)

        def call(*args, **kwargs):
            calls[what] += 1
            return function(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    counted(ldm_dcd.LDMDualCD, "solve_system", "solve")
    counted(ldm_dcd, "finish_on_face", "face")
    LDMClassifierCV(max_evals=10).fit(X, rng.permutation(np.repeat([0, 1, 2], 20)))
    assert calls["solve"] <= calls["face"] <= 6 * calls["solve"]


def test_searches_of_many_classes_look_at_fewer_samples():
    X = np.zeros((2000, 2))
    sizes = [plan_search_samples(LDM, X, [2000] * k, KernelChoice("rbf").kind) for k in (1, 3, 10)]
    assert [int(size) for size in sizes] == [736, 510, 341]
