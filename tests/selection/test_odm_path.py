"""Every point of a path against a cold fit."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification

from optimargin import LinearODMClassifier, ODMClassifier, ldm_path, odm_path
from optimargin.designs import FeatureDesign
from optimargin.held_out.engine import LinearData, make_refitter
from optimargin.held_out.refitter import NewtonRefitter
from optimargin.objectives import ODM
from optimargin.selection.grid import PAPER_WIDTHS, Grid
from optimargin.solvers import Newton
from tests.cases import labels_target, make_problem

pytestmark = pytest.mark.numbers

SMALL = {"C1s": [1.0, 32.0, 1024.0], "C2s": [0.0, 4.0, 512.0], "Ds": [0.0, 0.3, 0.5]}


def make_data(n_classes=2, n_features=6, n_samples=60):
    return make_classification(
        n_samples=n_samples,
        n_features=n_features,
        n_informative=4,
        n_redundant=0,
        n_classes=n_classes,
        flip_y=0.1,
        random_state=1,
    )


def check_against_cold_fits(path, estimator, X, y, **fit_params):
    for p, point in enumerate(path.params):
        model = estimator(point).fit(X, y, **fit_params)
        np.testing.assert_allclose(path.objective[p], model.objective_, rtol=1e-9)
        scores = model.loo_decision_function().reshape(len(y), -1)
        np.testing.assert_allclose(path.loo_decision[p], scores, atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_rbf_path_equals_cold_fits(n_classes, fit_intercept):
    X, y = make_data(n_classes)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    path = odm_path(
        X, y, **SMALL, gammas=[0.05, 0.5], fit_intercept=fit_intercept, sample_weight=weight
    )
    assert len(path.params) == 54
    check_against_cold_fits(
        path,
        lambda point: ODMClassifier(
            **point, fit_intercept=fit_intercept, tol=1e-12, multi_class="ovr"
        ),
        X,
        y,
        sample_weight=weight,
    )


@pytest.mark.parametrize("n_features", [6, 90])
@pytest.mark.parametrize("sparse", [True, False])
def test_linear_path_equals_cold_fits(n_features, sparse):
    X, y = make_data(n_features=n_features)
    X = sp.csr_matrix(np.where(np.abs(X) < 0.3, 0.0, X)) if sparse else X
    path = odm_path(X, y, **SMALL, kernel="linear", class_weight="balanced")

    def make(point):
        return LinearODMClassifier(**point, class_weight="balanced", tol=1e-12)

    check_against_cold_fits(path, make, X, y)
    model = make(path.params[-1]).fit(X, y)
    np.testing.assert_allclose(path.coef[-1], model.coef_, atol=1e-7)
    np.testing.assert_allclose(path.intercept[-1], model.intercept_, atol=1e-7)


@pytest.mark.parametrize("kernel", ["poly", "sigmoid"])
def test_other_kernels_equal_cold_fits(kernel):
    X, y = make_data()
    parameters = {"kernel": kernel, "coef0": 1.0 if kernel == "poly" else -1.0}
    grid = {"C1s": [4.0, 64.0], "C2s": [16.0], "Ds": [0.2], "gammas": [0.02, 0.2]}
    path = odm_path(X, y, **grid, **parameters)
    for p, point in enumerate(path.params):
        model = ODMClassifier(**point, **parameters, tol=1e-12)
        if kernel == "sigmoid":
            with pytest.warns(UserWarning, match="positive semi-definite"):
                model.fit(X, y)
        else:
            model.fit(X, y)
        np.testing.assert_allclose(path.objective[p], model.objective_, rtol=1e-9)


def test_precomputed_equals_rbf():
    X, y = make_data()
    grid = {"C1s": [4.0, 64.0], "C2s": [16.0], "Ds": [0.2]}
    rbf = odm_path(X, y, **grid, gammas=[0.1])
    K = ODMClassifier(gamma=0.1).fit(X, y)._kernel(X)
    precomputed = odm_path(K, y, **grid, kernel="precomputed")
    np.testing.assert_allclose(rbf.coef, precomputed.coef, atol=1e-9)
    assert "gamma" not in precomputed.params[0]


def test_threads_change_nothing():
    X, y = make_data()
    serial = odm_path(X, y, **SMALL, widths=[0.5, 1])
    threads = odm_path(X, y, **SMALL, widths=[0.5, 1], n_jobs=2)
    np.testing.assert_allclose(serial.objective, threads.objective, rtol=1e-12)
    np.testing.assert_allclose(serial.loo_decision, threads.loo_decision, atol=1e-8)


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(4, 60), st.integers(1, 8)),
    n_problems=st.integers(1, 3),
    fit_intercept=st.booleans(),
    scale=st.sampled_from([1e-3, 1.0, 30.0]),
    outlier=st.sampled_from([1.0, 1.0, 1e4]),
)
@example(0, (4, 3), 1, True, 30.0, 1e4)
@settings(max_examples=40)
def test_a_path_of_linear_models_is_that_over_their_features(
    seed, shape, n_problems, fit_intercept, scale, outlier
):
    rng = np.random.default_rng(seed)
    X, X_test = scale * rng.normal(size=(2, *shape))
    X[0] *= outlier
    signs = np.where(rng.normal(size=(n_problems, shape[0])) > 0, 1.0, -1.0)
    signs[:, :2] = -1.0, 1.0
    weight = rng.uniform(0.5, 2, shape[0])
    center = X.mean(axis=0) if fit_intercept else None
    # D = 0: with a band, every intercept that keeps all samples in it is a solution.
    points = np.column_stack([2.0 ** rng.integers(0, 11, size=(8, 2)), np.zeros(8)])
    points[3, 1] = 0.0
    if not fit_intercept:
        points[:, 2] = rng.uniform(0, 0.8, size=8)
    targets = [labels_target(y, weight) for y in signs]
    objectives = [ODM(*point) for point in points]
    made = make_refitter(LinearData(X, center, X_test), ODM, targets, fit_intercept)
    test = FeatureDesign(X_test, center)
    features = NewtonRefitter(FeatureDesign(X, center), targets, fit_intercept, test)
    # Rows that differ by many orders leave fewer digits.
    digits = 1e-9 if outlier == 1.0 else 1e-5
    np.testing.assert_allclose(
        made.predict_path(objectives),
        features.predict_path(objectives),
        rtol=digits,
        atol=digits,
    )


@pytest.mark.parametrize("length", [1e7, 1e8, 1e9])
@pytest.mark.parametrize("seed", range(5))
def test_a_row_that_is_longer_by_many_orders_spoils_no_solution(seed, length):
    # Changes of a matrix by such a row leave little of the others in it.
    rng = np.random.default_rng(seed)
    X = 10 * rng.normal(size=(6, 3))
    X[0] *= length
    y = np.where(np.arange(6) % 2 == 0, 1.0, -1.0)
    refitter = make_refitter(LinearData(X, None, X), ODM, [labels_target(y)], False)
    for point in (ODM(8192.0, 4.0, 0.0), ODM(4.0, 8192.0, 0.0), ODM(64.0, 64.0, 0.2)):
        problem = make_problem(point.loss(), FeatureDesign(X), y, fit_intercept=False)
        best = Newton(tol=1e-9, max_iter=1000).solve(problem)
        found = problem.objective_at(refitter.solve(point).coef[0], 0.0)
        assert found <= best.objective * (1 + 1e-3)  # as many digits as rounding leaves


def test_widths_are_multiples_of_the_mean_distance():
    X, y = make_data()
    path = odm_path(X, y, C1s=[1], C2s=[1], Ds=[0], widths=[1], loo=False)
    assert path.loo_decision is None
    reference = ODMClassifier(gamma="mean_distance").fit(X, y)
    assert path.params[0]["gamma"] == pytest.approx(reference.gamma_)


def test_paper_grid_has_3630_points():
    assert len(Grid(ODM, ODM.paper, 1 / PAPER_WIDTHS**2)) == 3630


def test_walk_visits_every_point_once_and_moves_one_parameter_at_a_time():
    grid = Grid(ODM, {"C1": [1, 2, 4], "C2": [1, 2], "D": [0.0, 0.1, 0.2]}, None)
    along = grid.walk(np.arange(3))
    visited = np.concatenate(along)
    assert sorted(visited) == list(range(len(grid)))
    steps = np.abs(np.diff(np.unravel_index(visited, (3, 2, 3)), axis=1)).sum(axis=0)
    assert (steps == 1).all()
    assert [{grid.points[number]["C1"] for number in part} for part in along] == [{1}, {2}, {4}]


def test_ties_go_to_the_smoothest_model():
    grid = Grid(ODM, {"C1": [4.0, 1.0], "C2": [2.0, 1.0], "D": [0.0, 0.5]}, [1.0, 0.1])
    best = grid.points[grid.smoothest_best(np.ones(len(grid)))]
    assert best == {"C1": 1.0, "C2": 1.0, "D": 0.5, "gamma": 0.1}
    scores = np.full(len(grid), np.nan)
    scores[3] = 0.5
    assert grid.smoothest_best(scores) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"C1s": [0.0]}, "C1s"),
        ({"C2s": [-1.0]}, "C2s"),
        ({"Ds": [1.0]}, "Ds"),
        ({"Ds": []}, "Ds"),
        ({"gammas": [1.0], "widths": [1.0]}, "give one of them"),
        ({"gammas": "paper"}, "widths"),
        ({"gammas": [1.0], "kernel": "linear"}, "no gamma"),
        ({"widths": [1.0], "kernel": "linear"}, "no gamma"),
        ({"widths": [1.0], "kernel": "poly"}, "rbf"),
        ({"sample_weight": np.arange(60.0)}, "positive"),
    ],
)
def test_bad_grids_are_named(arguments, message):
    X, y = make_data()
    with pytest.raises(ValueError, match=message):
        odm_path(X, y, **arguments)


def test_one_class_is_an_error():
    X, _ = make_data()
    with pytest.raises(ValueError, match="one class"):
        odm_path(X, np.zeros(60))


@pytest.mark.parametrize("path", [odm_path, ldm_path])
def test_sparse_rows_with_columns_they_do_not_have_are_refused(path):
    X, y = make_data()
    spoilt = sp.csr_array(X)
    spoilt.indices = spoilt.indices.copy()
    spoilt.indices[0] = 100
    with pytest.raises(ValueError, match="6 columns with indices from"):
        path(spoilt, y)
