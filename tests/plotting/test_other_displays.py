"""Plots of boundaries, selections and convergence: what is drawn is what was computed."""

from itertools import count

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from optimargin import (
    LinearODMClassifier,
    ODMClassifier,
    ODMClassifierCV,
    ODMRegressor,
    OneClassODM,
)
from optimargin.plotting import (
    ConvergenceDisplay,
    DecisionBoundaryDisplay,
    IntervalDisplay,
    NoveltyDisplay,
    ReliabilityDisplay,
    SelectionDisplay,
)

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def moons():
    return make_moons(60, noise=0.2, random_state=0)


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def pixels(display):
    display.figure_.canvas.draw()
    return np.asarray(display.figure_.canvas.buffer_rgba())[..., :3].astype(int)


def test_boundary_shows_decision_values_and_the_band(moons):
    X, y = moons
    model = ODMClassifier(D=0.25).fit(X, y)
    display = DecisionBoundaryDisplay.from_estimator(model, X, y, grid_resolution=20)
    grid = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    np.testing.assert_array_equal(display.response.ravel(), model.decision_function(grid))
    assert legend(display) == [
        "boundary",
        "margin 0.75",
        "margin 1.25",
        "0",
        "1",
        "support vectors",
    ]
    assert (grid.min(axis=0) < X.min(axis=0)).all()
    assert (grid.max(axis=0) > X.max(axis=0)).all()


def test_both_regions_are_coloured_differently(moons):
    X, y = moons
    image = pixels(DecisionBoundaryDisplay.from_estimator(ODMClassifier().fit(X, y), X))
    colours, counts = np.unique(image.reshape(-1, 3), axis=0, return_counts=True)
    large = colours[counts > 0.08 * counts.sum()]
    assert len(large) >= 3  # white, and one for each class
    luminance = large @ [0.3, 0.59, 0.11]
    assert (luminance > 180).all()  # pale enough to print on


def test_boundary_of_several_classes_frames_and_pipelines():
    X, y = make_blobs(60, centers=3, random_state=0)
    frame = pd.DataFrame(X, columns=["long", "wide"])
    model = make_pipeline(StandardScaler(), LinearODMClassifier()).fit(frame, y)
    display = DecisionBoundaryDisplay.from_estimator(model, frame, y, grid_resolution=15)
    assert set(np.unique(display.response)) == {0, 1, 2}
    assert legend(display) == ["0", "1", "2"]
    assert display.ax_.get_xlabel() == "long"


def test_svm_gets_its_margin_line(moons):
    display = DecisionBoundaryDisplay.from_estimator(SVC().fit(*moons), *moons, grid_resolution=10)
    assert legend(display)[:2] == ["boundary", "margin 1"]


def test_boundary_refuses_what_is_no_plane(moons):
    X, y = moons
    model = ODMClassifier().fit(np.c_[X, X], y)
    with pytest.raises(ValueError, match="exactly two features"):
        DecisionBoundaryDisplay.from_estimator(model, np.c_[X, X])
    with pytest.raises(ValueError, match="grid_resolution=1"):
        DecisionBoundaryDisplay.from_estimator(ODMClassifier().fit(X, y), X, grid_resolution=1)


def test_grid_becomes_a_map_of_the_best_cells(moons):
    search = ODMClassifierCV(C1s=[1, 8, 64], C2s=[1, 8], Ds=[0.1, 0.2], widths=[1.0]).fit(*moons)
    display = SelectionDisplay.from_estimator(search)
    image = np.asarray(display.surface_.get_array())
    assert image.shape == (2, 3)
    assert image.min() == pytest.approx(1 - search.best_score_)
    assert display.names == ("C1", "C2")
    assert legend(display) == [f"chosen: {1 - search.best_score_:.4f}"]


def test_search_without_a_grid_becomes_points(moons):
    search = ODMClassifierCV(max_evals=6).fit(*moons)
    display = SelectionDisplay.from_estimator(search, params=("C1", "gamma"))
    assert len(display.surface_.get_offsets()) == len(search.cv_results_["params"])
    assert display.ax_.get_xlabel() == "C1"
    with pytest.raises(ValueError, match="must name two numerical parameters out of C1"):
        SelectionDisplay.from_estimator(search, params=("C1", "height"))


def test_grid_search_of_scikit_learn_is_drawn(moons):
    grid = {"C": [1, 10], "gamma": [0.1, 1.0], "kernel": ["rbf"]}
    display = SelectionDisplay.from_estimator(GridSearchCV(SVC(), grid, cv=3).fit(*moons))
    assert display.names == ("C", "gamma")


def test_convergence_ends_at_the_tolerance_and_compares_solvers(moons):
    first = ConvergenceDisplay.from_estimator(ODMClassifier(solver="newton"), *moons)
    second = ConvergenceDisplay.from_estimator(
        ODMClassifier(solver="dcd"), *moons, tol=1e-4, ax=first.ax_
    )
    assert first.gaps[-1] <= 1e-10
    assert (first.seconds > 0).all()
    assert (np.diff(second.gaps) <= 1e-12).mean() > 0.5
    assert legend(second) == ["newton", "dcd"]
    assert first.line_.get_color() != second.line_.get_color()


def test_selection_looks_into_pipelines_and_says_what_is_missing(moons):
    search = ODMClassifierCV(max_evals=4)
    pipeline = make_pipeline(StandardScaler(), search)
    with pytest.raises(NotFittedError):
        SelectionDisplay.from_estimator(pipeline)
    pipeline.fit(*moons)
    display = SelectionDisplay.from_estimator(pipeline)
    assert display.best == pipeline[-1].best_index_
    with pytest.raises(TypeError, match="ODMClassifier made no search"):
        SelectionDisplay.from_estimator(ODMClassifier().fit(*moons))
    with pytest.raises(TypeError, match="StandardScaler made no search"):
        SelectionDisplay.from_estimator(make_pipeline(StandardScaler()).fit(*moons))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_times_are_those_of_iterations_within_one_fit(n_classes, monkeypatch):
    X, y = make_blobs(90, centers=n_classes, cluster_std=4, random_state=0)
    clock = count()  # every look at the clock takes a second
    monkeypatch.setattr("optimargin.estimators._callbacks.perf_counter", lambda: next(clock))
    monkeypatch.setattr("optimargin.plotting._convergence.time.perf_counter", lambda: next(clock))
    model = LinearODMClassifier(solver="dcd", random_state=0)
    display = ConvergenceDisplay.from_estimator(model, X, y, max_iter=6, tol=1e-15)
    n_problems = 1 if n_classes == 2 else n_classes
    # One look before the fit, one when a problem begins, one per iteration of each problem.
    assert display.seconds.tolist() == [1 + n_problems * k for k in (1, 2, 3, 4, 6)]
    for limit, gap in zip((1, 2, 3, 4, 6), display.gaps, strict=True):
        with pytest.warns(ConvergenceWarning):
            model.set_params(max_iter=limit, tol=1e-15).fit(X, y)
        assert gap == np.max(model.dual_gap_)


def test_novelty_is_drawn_as_computed(moons):
    X, _ = moons
    model = OneClassODM(false_alarm_rate=0.1).fit(X)
    display = NoveltyDisplay.from_estimator(model, X, grid_resolution=30, levels=(0.1, 0.5))
    grid = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    np.testing.assert_array_equal(display.p_values.ravel(), model.p_values(grid))
    np.testing.assert_array_equal(display.response.ravel(), model.decision_function(grid))
    assert display.surface_.levels.tolist() == [0.0, 0.1, 0.5, 1.0]
    assert legend(display)[:3] == ["threshold, false-alarm rate 0.1", "p-values", "normal"]
    frame = pd.DataFrame(X, columns=["width", "length"])
    named = NoveltyDisplay.from_estimator(OneClassODM().fit(frame), frame, grid_resolution=5)
    assert named.ax_.get_xlabel() == "width"


def test_odd_rows_are_drawn_with_their_numbers(moons):
    X = np.vstack([moons[0], [[5.0, 5.0], [-4.0, 3.0]]])
    detector = OneClassODM(false_alarm_rate=0.03, novelty=False).fit(X)
    display = NoveltyDisplay.from_estimator(detector, X)
    odd = np.flatnonzero(detector.held_out_scores_ < detector.offset_)
    np.testing.assert_array_equal(np.flatnonzero(display.labels == -1), odd)
    assert {int(text.get_text()) for text in display.ax_.texts} == set(odd)
    assert {len(X) - 2, len(X) - 1} <= set(odd)
    assert legend(display) == ["normal", "outlier"]
    assert display.p_values is None
    with pytest.raises(ValueError, match=f"the {len(X)} samples of the fit are drawn"):
        NoveltyDisplay.from_estimator(detector, X[:-1])


def test_what_cannot_be_drawn_of_novelty_is_named(moons):
    X, y = moons
    model = OneClassODM().fit(X)
    with pytest.raises(TypeError, match="SVC has no p-values"):
        NoveltyDisplay.from_estimator(SVC().fit(X, y), X)
    with pytest.raises(ValueError, match=r"levels=.*increase"):
        NoveltyDisplay.from_estimator(model, X, levels=(0.5, 0.1))
    with pytest.raises(ValueError, match="exactly two features"):
        NoveltyDisplay.from_estimator(model, X[:, :1])


def test_reliability_of_probabilities_beside_scores(moons):
    X, y = moons
    model = ODMClassifier(calibration="sigmoid").fit(X, y)
    display = ReliabilityDisplay.from_estimator(model, X, y, n_bins=5)
    p = np.sort(model.predict_proba(X)[:, 1])
    np.testing.assert_allclose(display.predicted[0], p[: len(y) // 5].mean())
    assert legend(display) == ["perfect", "ODMClassifier", "ODMClassifier, scores as they are"]
    again = ReliabilityDisplay.from_estimator(model, X, y, name="again", ax=display.ax_)
    assert again.line_.get_color() != display.line_.get_color()
    assert legend(again).count("perfect") == 1
    with pytest.raises(ValueError, match="n_bins=0"):
        ReliabilityDisplay.from_estimator(model, X, y, n_bins=0)


def test_reliability_of_several_classes():
    X, y = make_blobs(90, centers=3, cluster_std=3, random_state=0)
    model = LinearODMClassifier(calibration="temperature").fit(X, y)
    display = ReliabilityDisplay.from_estimator(model, X, y, n_bins=3)
    np.testing.assert_allclose(display.observed.mean(), model.score(X, y))


def test_intervals_along_a_feature_and_by_width():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["long", "wide"])
    y = frame["long"].to_numpy() + 0.1 * rng.normal(size=60)
    model = ODMRegressor().fit(frame, y)
    along = IntervalDisplay.from_estimator(model, frame, y, feature="long", confidence_level=0.8)
    assert (np.diff(along.x) >= 0).all()
    assert along.ax_.get_xlabel() == "long"
    assert legend(along)[:2] == ["80% interval", "prediction"]
    np.testing.assert_array_equal(
        IntervalDisplay.from_estimator(model, frame, feature=0).x, along.x
    )
    by_width = IntervalDisplay.from_estimator(model, frame, y)
    assert (np.diff(np.ptp(by_width.intervals, axis=1)) >= -1e-12).all()
    assert not by_width.points.any()
    with pytest.raises(ValueError, match="one number"):
        IntervalDisplay.from_estimator(model, frame, confidence_level=[0.5, 0.8])
