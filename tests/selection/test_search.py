"""The search without a grid: its bounds, and how it takes the best of its points."""

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_moons
from sklearn.metrics import balanced_accuracy_score

from optimargin import LDMClassifierCV, LinearODMClassifierCV, ODMClassifierCV
from optimargin._ties import exceeds
from optimargin.kernels import KernelChoice
from optimargin.objectives import ODM
from optimargin.selection.criteria import Accuracy, SmoothAccuracy
from optimargin.selection.data import SelectionData
from optimargin.selection.loss import HeldOutLoss
from optimargin.selection.search import N_FINALISTS, finalists, looks_and_middle, stages_of_search
from optimargin.selection.stages import Clock, Findings, Judged, Stage, work_off

pytestmark = pytest.mark.numbers


def held_out_loss(X, y, kernel="rbf", **options):
    data = SelectionData(
        ODM, X, y, None, kernel=KernelChoice(kernel), fit_intercept=True, **options
    )
    return HeldOutLoss(data, None, np.random.RandomState(0))


def record(x, loss, score=np.nan):
    """Return the record of a point of the ODM or of no objective."""
    names = dict(zip(("C1", "C2", "D", "gamma"), x, strict=False))
    return Judged(np.array(x), names, loss, None, None, score)


def stage_of(loss, max_evals=100):
    return Stage(loss, Clock(), None, max_evals)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("n_samples", [50, 400])
def test_bounds_of_penalties_are_per_sample_and_free_of_units(kernel, n_samples):
    X, y = make_classification(n_samples, random_state=0)
    unit = n_samples / (X.var(axis=0).sum() if kernel == "linear" else 1.0)
    for scale in (1.0, 100.0):
        loss = held_out_loss(scale * X, y, kernel)
        largest = loss.parameters(loss.bounds[:, 1])["C1"]
        by_units = scale**2 if kernel == "linear" else 1.0
        assert largest == pytest.approx(2.0**11 * unit / by_units)


def test_spread_points_lie_where_the_objective_says():
    X, y = make_moons(60, noise=0.2, random_state=0)
    model = ODMClassifierCV(max_evals=9).fit(X, y)
    first = model.cv_results_["param_C1"][:2] / 60
    low, high = 2.0 ** ODM.spread[0]
    assert ((first >= low) & (first <= high)).all()


@pytest.mark.parametrize("make", [ODMClassifierCV, LinearODMClassifierCV])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_finalists_are_judged_by_fits_without_each_fold(make, n_classes):
    X, y = make_classification(
        90, 6, n_informative=4, n_classes=n_classes, flip_y=0.2, random_state=0
    )
    model = make(max_evals=12, random_state=0).fit(X, y)
    table = model.cv_results_
    finalists = np.flatnonzero(table["is_finalist"])
    n_points = len(table["params"])
    assert n_points <= 12
    assert finalists.tolist() == list(range(n_points - finalists.size, n_points))
    assert 1 <= finalists.size <= N_FINALISTS
    assert model.best_index_ in finalists
    assert not exceeds(table["mean_test_score"][finalists], model.best_score_).any()
    assert table["rank_test_score"][model.best_index_] == 1
    # The same folds, each left out by a fit of its own.
    loss = held_out_loss(X, y, "rbf" if make is ODMClassifierCV else "linear")
    judge = loss.judge([loss.bounds[:, 0]])
    assert len(judge.parts) == 16
    for part in judge.parts[1:]:
        train = np.setdiff1d(np.arange(90), part.rows)
        tuned = make._tuned(tol=1e-12, multi_class="ovr", **table["params"][finalists[0]])
        left_out = tuned.fit(X[train], y[train])
        found = part.held_out(
            ODM(left_out.C1, left_out.C2, left_out.D),
            None if make is LinearODMClassifierCV else left_out.gamma,
            gradient=False,
        ).decision
        expected = left_out.decision_function(X[part.rows]).reshape(found.shape)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_judge_mends_a_pessimistic_closed_form():
    # A checkerboard: at a large penalty, samples left out change the active set.
    X = np.random.default_rng(0).random((150, 2))
    loss = held_out_loss(X, np.floor(6 * X).sum(axis=1).astype(int) % 2)
    x = np.array([6.0, -2.0, 0.2, -2.0])
    frozen, exact = (f(x, gradient=False)[0].loss for f in (loss, loss.judge([x])))
    assert frozen - exact > 0.015  # half of what the exact fits alone say


def test_a_point_of_a_larger_penalty_is_judged_as_well():
    X, y = make_moons(60, noise=0.2, random_state=0)
    loss = held_out_loss(X, y)
    points = np.zeros((6, 4))
    points[:, 0] = [1.0, -1.0, -3.0, -5.0, 4.0, 6.0]
    judged = [record(x, 0.0, score) for x, score in zip(points, np.arange(6, 0, -1), strict=True)]
    found = finalists(loss, judged)
    assert [x[0] for x in found] == [1.0, 4.0, -1.0]


@pytest.mark.parametrize("seed", range(3))
def test_points_of_equal_scores_are_ranked_by_their_penalties(seed):
    X, y = make_moons(60, noise=0.2, random_state=0)
    points = np.zeros((4, 4))
    points[:, 0] = [6.0, 1.0, 4.0, -1.0]
    losses = 0.2 * (1 + 1e-9 * np.random.default_rng(seed).uniform(-1, 1, 4))
    losses[3] = 0.3
    stage = stage_of(held_out_loss(X, y))
    stage.all = [record(x, loss) for x, loss in zip(points, losses, strict=True)]
    assert [each.x[0] for each in stage.ranked()] == [1.0, 4.0, 6.0, -1.0]


class Bounded:
    """A loss within bounds."""

    has_width = False

    def bounds_around(self, start):
        return self.bounds

    def roughness(self, point):
        return ()


class Plateau(Bounded):
    """A loss that takes few values, but for rounding."""

    has_gradient = False
    bounds = np.array([[0.0, 1.0], [-2.0, 3.0]])

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)

    def __call__(self, x, gradient):
        loss = (0.2 + 0.1 * (x[0] > 0.31)) * (1 + 1e-12 * self._rng.uniform(-1, 1))
        return record(x, loss), None


def test_simplices_do_not_depend_on_the_rounding_of_equal_losses():
    paths = []
    for seed in range(5):
        stage = stage_of(Plateau(seed))
        stage.descend(np.array([0.4, 0.5]), 30, np.full(2, np.nan))
        paths.append([each.x for each in stage.all])
    for path in paths[1:]:
        np.testing.assert_array_equal(path, paths[0])


class Slope(Bounded):
    """A loss whose gradient is a direction and little more."""

    has_gradient = True
    # Parts of which no sum is exact.
    bounds = np.array([[-0.7, 1.1], [0.1, 0.9]])

    def __init__(self, steepness):
        self.steepness = steepness

    def __call__(self, x, gradient):
        loss = 0.2 + self.steepness * (x @ [0.6, 0.8])
        return record(x, loss), self.steepness * np.array([0.6, 0.8])


def test_a_descent_does_not_begin_where_a_step_changes_nothing():
    for steepness, n_evaluations in ((1e-9, 1), (1e-2, 3)):
        stage = stage_of(Slope(steepness))
        stage.descend(np.array([0.2, 0.3]), 30, np.full(2, np.nan))
        assert len(stage.all) >= n_evaluations
        assert (len(stage.all) == 1) == (n_evaluations == 1)


@pytest.mark.parametrize("seed", range(20))
def test_the_start_of_a_descent_is_not_evaluated_again(seed):
    stage = stage_of(Slope(0.01))
    start = np.random.default_rng(seed).uniform(0.2, 0.8, 2)
    stage(start)
    stage.descend(start, 30, np.full(2, np.nan))
    apart = np.abs([each.x - start for each in stage.all[1:]]).max(axis=1)
    assert (apart > 1e-6).all()


def test_folds_that_hold_a_whole_class_are_left_to_the_closed_form():
    X, y = make_moons(40, noise=0.2, random_state=0)
    loss = held_out_loss(np.vstack([X, [[3.0, 3.0]]]), np.append(y, 2))
    assert loss.judge([loss.bounds[:, 0]]) is loss


def test_many_samples_are_left_to_the_closed_form():
    X, y = make_moons(501, noise=0.2, random_state=0)
    loss = held_out_loss(X, y)
    assert loss.judge([loss.bounds[:, 0]]) is loss


def test_least_squares_are_left_to_the_closed_form():
    X, y = make_moons(60, noise=0.2, random_state=0)
    loss = held_out_loss(X, y)
    squares, band = np.zeros(4), np.array([0.0, -1.0, 0.2, 0.0])
    assert loss.judge([squares, squares]) is loss
    assert loss.judge([squares, band]) is not loss


@pytest.mark.parametrize("max_evals", [1, 2, 5])
def test_no_more_points_are_looked_at_than_asked_for(max_evals):
    X, y = make_moons(60, noise=0.2, random_state=0)
    model = ODMClassifierCV(max_evals=max_evals, relevance=False).fit(X, y)
    assert len(model.cv_results_["params"]) <= max_evals


def test_first_looks_are_cheap_and_not_listed():
    X, y = make_moons(600, noise=0.3, random_state=0)
    loss = held_out_loss(X, y)
    seen, looked = [], set()

    def at(self, x, gradient=True):
        if self is not loss:
            looked.add(self)
        seen.append((self is not loss, tuple(x)))
        return evaluate(self, x, gradient)

    evaluate = HeldOutLoss.__call__
    findings = Findings(SmoothAccuracy(), Accuracy(), ODM.roughness)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HeldOutLoss, "__call__", at)
        stages = stages_of_search(loss, 43, np.random.RandomState(0), findings, Clock())
        work_off(stages, 43)
    (looks,) = looked
    assert looks.data.n_samples < 600
    assert looks.data.mean_distance == loss.data.mean_distance
    found = findings.all
    n_looks = sum(is_look for is_look, _ in seen)
    assert 10 < n_looks < 25
    assert len(found) == len(seen) - n_looks
    # Looks are at least squares: C2 = C1, no band.
    assert {x[1:3] for is_look, x in seen if is_look} == {(0.0, 0.0)}
    # What is found is at least as good at all samples as what the looks say is best.
    assert min(e.loss for e in found) <= found[0].loss


@pytest.mark.parametrize(("n_samples", "n_looks"), [(2900, None), (3100, 3000)])
def test_first_looks_at_linear_models_are_at_enough_to_begin_close_to_the_end(n_samples, n_looks):
    X, y = make_classification(n_samples, 5, random_state=0)
    data = SelectionData(ODM, X, y, None, kernel=KernelChoice("linear"), fit_intercept=True)
    loss = HeldOutLoss(data, None, np.random.RandomState(0))
    looks, middle = looks_and_middle(loss, np.random.RandomState(0))
    assert (looks and looks.data.n_samples) == n_looks
    assert middle is None


def test_many_samples_of_several_classes_are_searched_at_least_squares():
    X, y = make_classification(900, 6, n_informative=4, n_classes=3, random_state=0)
    model = ODMClassifierCV(relevance=False).fit(X, y)
    assert model.C1_ == model.C2_
    assert model.D_ == 0
    assert model.held_out_score_ > 0.7


@pytest.mark.parametrize("make", [ODMClassifierCV, LinearODMClassifierCV])
def test_no_point_is_looked_at_after_the_time(make):
    X, y = make_moons(150, noise=0.3, random_state=0)
    model = make(max_time=1e-9).fit(X, y)
    n_points = len(model.cv_results_["params"])
    assert 1 <= n_points <= 4
    assert n_points < len(make().fit(X, y).cv_results_["params"])


def test_progress_and_results_tell_the_same_score(capsys):
    X, y = make_moons(150, noise=0.3, random_state=0)
    model = ODMClassifierCV(relevance=False, verbose=1).fit(X, y)
    *_, last, fit = capsys.readouterr().err.strip().splitlines()
    assert last.endswith(f"best objective {model.best_score_:.4f}")
    assert fit.startswith("The last fit is by")


@pytest.mark.parametrize("scoring", ["balanced_accuracy", "f1", "roc_auc", "neg_log_loss"])
def test_searches_follow_smooth_forms_of_scorers(scoring):
    X, y = make_classification(150, 5, weights=[0.85], flip_y=0.1, random_state=0)
    model = ODMClassifierCV(scoring=scoring, relevance=False).fit(X, y)
    plain = ODMClassifierCV(scoring=scoring, max_evals=1, relevance=False).fit(X, y)
    assert model.best_score_ > plain.best_score_


@pytest.mark.parametrize("scoring", ["balanced_accuracy", "neg_log_loss"])
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_smooth_forms_lead_to_good_models_of_several_classes(scoring, multi_class):
    X, y = make_classification(
        500, 8, n_informative=6, n_classes=4, weights=[0.6, 0.2, 0.1], random_state=1
    )
    settings = {"multi_class": multi_class, "relevance": False}
    guided, plain = (
        ODMClassifierCV(**settings, **more).fit(X[:300], y[:300])
        for more in ({"scoring": scoring}, {})
    )
    found, usual = (
        balanced_accuracy_score(y[300:], model.predict(X[300:])) for model in (guided, plain)
    )
    assert found > usual - 0.05


def rare_class(n_samples=700):
    X, y = make_classification(
        n_samples, 6, n_redundant=1, weights=[0.9], class_sep=0.7, flip_y=0.02, random_state=0
    )
    return X[:250], y[:250], X[250:], y[250:]


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("grid", [{}, {"C1s": [1e3], "C2s": [1e3], "Ds": [0.0]}])
def test_probabilities_do_not_move_the_threshold_where_scoring_is_against_it(calibration, grid):
    X, y, X_test, y_test = rare_class()
    settings = {"calibration": calibration, "relevance": False, "class_weight": "balanced", **grid}
    plain = ODMClassifierCV(**settings, scoring="roc_auc").fit(X, y)
    assert plain.calibration_["shift"] != 0  # what order samples are in does not tell
    model = ODMClassifierCV(**settings, scoring="accuracy").fit(X, y)
    assert model.calibration_["shift"] == 0
    assert model.score(X_test, y_test) > plain.score(X_test, y_test)
    probabilities = model.predict_proba(X_test)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), model.predict(X_test))


@pytest.mark.parametrize("made", [ODMClassifierCV, LinearODMClassifierCV, LDMClassifierCV])
def test_searches_count_class_weights_as_weights(made):
    X, y, *_ = rare_class()
    settings = {"max_evals": 12}
    weighted = made(**settings).fit(X[:120], y[:120], np.where(y[:120] == 1, 4.0, 1.0))
    of_classes = made(**settings, class_weight={0: 1.0, 1: 4.0}).fit(X[:120], y[:120])
    assert of_classes.best_score_ == pytest.approx(weighted.best_score_, rel=1e-6)
    for name, value in weighted.best_params_.items():
        assert of_classes.best_params_[name] == pytest.approx(value, rel=1e-6)


def test_kernels_without_a_width_are_searched_on_some_samples():
    X, y = make_moons(2100, noise=0.3, random_state=0)
    model = ODMClassifierCV(kernel="poly", max_evals=2).fit(X, y)
    assert model.best_estimator_.support_.max() > 2000
    data = SelectionData(ODM, X, y, None, kernel=KernelChoice("poly"), fit_intercept=True)
    assert data.searched(None, np.random.RandomState(0)).n_samples == 2000


def test_samples_drawn_have_weights_and_lack_no_class():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 5)), np.zeros(4000, dtype=int)
    y[:30], weight = 1, np.ones(4000)
    weight[2:30] = 0.0
    ODMClassifierCV(max_evals=5, relevance=False).fit(X, y, weight)
    data = SelectionData(ODM, X, y, weight, kernel=KernelChoice("rbf"), fit_intercept=True)
    drawn = data.sample(100, np.random.RandomState(0))
    assert drawn.n_samples == 100
    assert drawn.weight.all()
    assert set(drawn.y) == {0, 1}


def test_pairs_of_tiny_classes_are_searched():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(700, 4)), np.arange(700) % 2
    X[:, 0] += 2 * y
    y[:8] = np.arange(2, 10)
    model = ODMClassifierCV(multi_class="ovo", max_evals=25).fit(X, y)
    assert model.score(X, y) > 0.75


def test_the_score_of_widths_is_that_of_scoring():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    model = ODMClassifierCV(relevance=True, scoring="roc_auc").fit(X, X[:, 0] * X[:, 1] > 0)
    assert np.ndim(model.gamma_) == 1
    assert model.best_score_ > 0.9  # the smooth form is lower
