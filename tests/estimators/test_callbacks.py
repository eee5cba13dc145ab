"""Callbacks hear of every task of a fit, can end it early, and may fail without doing harm."""

import pickle
import warnings
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")

from optimargin import (
    LDMClassifier,
    LDMClassifierCV,
    LinearLDMClassifier,
    LinearODMClassifier,
    LinearODMClassifierCV,
    ODMClassifier,
    ODMClassifierCV,
)
from optimargin.chunks import ArrayChunks
from tests.cases import estimator_cases, two_classes

listening_estimators = pytest.mark.parametrize("case", estimator_cases("callbacks"))
SEARCH_TASKS = {"evaluation", "points"}


class Failure(Exception):
    """Raised by a callback."""


class Recorder:
    """Writes down what it hears, and stops or fails at one of the tasks of some name."""

    def __init__(self, name="", *, stop_at=None, fail_at=None, fail_when="end"):
        self.name, self.stop_at, self.fail_at, self.fail_when = name, stop_at, fail_at, fail_when
        self.events = []
        self.n_setups = self.n_teardowns = 0

    def setup(self, estimator, context):
        self.n_setups += 1

    def teardown(self, estimator, context):
        self.n_teardowns += 1

    def on_fit_task_begin(self, estimator, context):
        self._hear("begin", context)

    def on_fit_task_end(self, estimator, context):
        self._hear("end", context)
        return context.task_name == self.name and self.n_ended() == self.stop_at

    def n_ended(self):
        """Return how many of the tasks it looks for have ended."""
        return sum(when == "end" and path[-1][0] == self.name for when, path in self.events)

    def _hear(self, when, context):
        path = []
        while context is not None:
            path.insert(0, (context.task_name, context.task_id))
            context = context.parent
        self.events.append((when, tuple(path)))
        heard = [event for event in self.events if event[0] == when]
        if path[-1][0] == self.name and when == self.fail_when:
            n_heard = sum(p[-1][0] == self.name for _, p in heard)
            if n_heard == self.fail_at:
                raise Failure(f"{when} of {self.name} number {n_heard}")

    def names(self):
        """Return how many tasks of each name were begun."""
        return Counter(path[-1][0] for when, path in self.events if when == "begin")

    def check_balanced(self):
        """Check that every task begins once, ends once, and has its subtasks in between."""
        assert (self.n_setups, self.n_teardowns) == (1, 1)
        begun, ended = set(), set()
        for when, path in self.events:
            if when == "begin":
                assert path not in begun
                begun.add(path)
                assert len(path) == 1 or (path[:-1] in begun and path[:-1] not in ended)
            else:
                assert path in begun
                assert path not in ended
                ended.add(path)
        assert begun == ended


def data(n_classes=2):
    """Return overlapping classes on which every solver takes several iterations."""
    X, y = two_classes(120, 12, noise=2.0)
    return X, y if n_classes == 2 else np.argmax(X[:, :3], axis=1)


def hard(model):
    """Return the model with penalties and a tolerance that take many iterations."""
    model = clone(model).set_params(tol=1e-12)
    penalties = {"C1": 1e4, "C2": 1e3} if hasattr(model, "C1") else {"C": 1e3}
    return model.set_params(**penalties)


def data_for(case, n_classes):
    """Return rows and labels, or as many targets for a regressor as a classifier has outputs."""
    X, y = data(n_classes)
    if case.classifier:
        return X, y
    columns = [1] if n_classes == 2 else range(n_classes)
    labels = np.unique(y)
    return X, np.column_stack([(y == labels[k]) + 0.1 * X[:, k] for k in columns])


@listening_estimators
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_task_begins_and_ends_inside_its_parent(case, n_classes):
    X, y = data_for(case, n_classes)
    recorder = Recorder()
    model = clone(case.model).set_callbacks(recorder).fit(X, y)
    recorder.check_balanced()
    names = recorder.names()
    assert names["fit"] == 1
    if case.is_search:
        assert names.keys() <= {"fit"} | SEARCH_TASKS
        assert names["evaluation"] + names["points"] > 1
    else:
        assert names.keys() == {"fit", "problem", "iteration"}
        n_outputs = 3 if n_classes == 3 and case.several_classes else 1
        assert names["problem"] >= n_outputs
    silent = clone(case.model).fit(X, y)
    np.testing.assert_array_equal(case.outputs(model, X), case.outputs(silent, X))


@listening_estimators
@pytest.mark.parametrize("fail_when", ["begin", "end"])
def test_a_callback_that_fails_leaves_the_model_as_it_was(case, fail_when):
    X, y = data_for(case, 3)
    name = "iteration"
    if case.is_search:
        name = "evaluation" if hasattr(case.model, "max_evals") and _no_grid(case) else "points"
    model = clone(case.model).fit(*two_classes(30, 12))
    before = dict(vars(model))
    fail_at = 2 if case.several_classes else 1  # one problem may end with its first iteration
    recorder = Recorder(name, fail_at=fail_at, fail_when=fail_when)
    with pytest.raises(Failure, match=f"{fail_when} of {name} number {fail_at}"):
        model.set_callbacks(recorder).fit(X, y)
    assert (recorder.n_setups, recorder.n_teardowns) == (1, 1)
    model.set_callbacks()
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[key] is before[key] for key in before)
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(case.outputs(restored, X), case.outputs(model, X))


def _no_grid(case):
    return all(getattr(case.model, name, None) is None for name in ("C1s", "Cs"))


@listening_estimators
def test_tasks_end_also_where_the_fit_fails(case, monkeypatch):
    X, y = data(3)
    model = clone(case.model)
    recorder = Recorder()

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    model.set_callbacks(recorder)
    if case.is_search:
        monkeypatch.setattr(type(model)._tuned, "_fit", interrupt)
    else:
        monkeypatch.setattr("optimargin.training.models.Fit.of", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    recorder.check_balanced()
    assert sum(recorder.names().values()) > 2


def test_iterations_end_also_where_a_solver_fails(monkeypatch):
    X, y = data(3)
    calls = []

    def fail(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 3:
            raise Failure
        return step(self, *args, **kwargs)

    from optimargin.problems import AdditiveProblem

    step = AdditiveProblem.step
    monkeypatch.setattr(AdditiveProblem, "step", fail)
    recorder = Recorder()
    with pytest.raises(Failure):
        hard(LinearODMClassifier()).set_callbacks(recorder).fit(X, y)
    recorder.check_balanced()
    assert recorder.names()["iteration"] == 3


SOLVERS = {
    "newton": LinearODMClassifier(solver="newton"),
    "newton_cg": LinearODMClassifier(solver="newton_cg"),
    "dcd": LinearODMClassifier(solver="dcd"),
    "svrg": LinearODMClassifier(solver="svrg"),
    "kernel newton": ODMClassifier(solver="newton"),
    "kernel newton_cg": ODMClassifier(solver="newton_cg"),
    "kernel dcd": ODMClassifier(solver="dcd"),
    "landmarks": ODMClassifier(approximation="nystrom", n_components=30, random_state=0),
    "LDM dcd": LDMClassifier(solver="dcd", gamma=0.01, random_state=0),
    "LDM interior_point": LDMClassifier(solver="interior_point"),
    "linear LDM dcd": LinearLDMClassifier(solver="dcd"),
    "linear LDM interior_point": LinearLDMClassifier(solver="interior_point"),
    "linear LDM svrg": LinearLDMClassifier(solver="svrg"),
}


def check_stopped(model, recorder, X, n_problems=1):
    recorder.check_balanced()
    assert np.isfinite(model.decision_function(X)).all()
    assert (np.asarray(model.dual_gap_) > 0).all()
    assert np.isfinite(model.dual_gap_).all()
    assert np.isfinite(model.objective_).all()
    assert recorder.names()["problem"] == n_problems


@pytest.mark.parametrize("stop_at", [1, 2])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("model", SOLVERS.values(), ids=SOLVERS)
def test_a_callback_ends_every_solver_after_any_iteration(model, make, stop_at):
    X, y = data()
    X = make(X)
    recorder = Recorder("iteration", stop_at=stop_at)
    model = hard(model).set_callbacks(recorder)
    with pytest.warns(ConvergenceWarning, match="above tol"):
        model.fit(X, y)
    check_stopped(model, recorder, X)
    assert recorder.names()["iteration"] == stop_at
    best = clone(model).set_params(solver="auto", tol=1e-9).fit(X, y).objective_
    size = max(abs(model.objective_), 1e-3)
    assert -1e-8 * size <= model.objective_ - best <= model.dual_gap_ * size * (1 + 1e-6)


def test_a_stop_after_the_hand_over_to_the_interior_point_method_ends_the_fit():
    X, y = data()
    recorder = Recorder("iteration", stop_at=52)  # descent takes fifty epochs
    model = hard(LinearLDMClassifier(solver="dcd")).set_callbacks(recorder)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    check_stopped(model, recorder, X)
    assert recorder.names()["iteration"] == 52


def test_a_stop_ends_the_problem_of_one_class_and_not_the_others():
    X, y = data(3)
    recorder = Recorder("iteration", stop_at=2)
    model = hard(LinearODMClassifier()).set_callbacks(recorder)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    check_stopped(model, recorder, X, n_problems=3)
    assert model.n_iter_[0] == 2
    assert (model.dual_gap_[1:] <= 1e-12).all()


def test_the_choice_of_the_number_of_landmarks_is_heard_and_ended():
    X, y = two_classes(300, 4, noise=2.0)
    recorder = Recorder("iteration", stop_at=1)
    model = ODMClassifier(approximation="nystrom", C1=1e4, C2=1e3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_callbacks(recorder).fit(X, y)
    recorder.check_balanced()
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "model",
    [
        LinearODMClassifier(random_state=0),
        ODMClassifier(D=0.2, approximation="nystrom", n_components=20, random_state=0),
    ],
    ids=["linear", "landmarks"],
)
def test_fits_to_chunks_are_heard_ended_and_may_fail(model, n_classes):
    X, y = data(n_classes)
    chunks = ArrayChunks(X, y, chunk_rows=37)
    n_problems = 1 if n_classes == 2 else n_classes
    recorder = Recorder()
    hard(model).set_params(tol=1e-8).set_callbacks(recorder).fit_chunks(chunks)
    recorder.check_balanced()
    assert recorder.names()["problem"] == n_problems
    recorder = Recorder("iteration", stop_at=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        stopped = hard(model).set_params(tol=1e-30).set_callbacks(recorder).fit_chunks(chunks)
    check_stopped(stopped, recorder, X, n_problems)
    assert np.min(stopped.n_iter_) == 1
    before = dict(vars(stopped))
    failing = Recorder("iteration", fail_at=1)
    with pytest.raises(Failure):
        stopped.set_callbacks(failing).fit_chunks(chunks)
    assert failing.n_teardowns == 1
    assert all(vars(stopped)[key] is before[key] for key in before if key != "_skl_callbacks")


@pytest.mark.parametrize("stop_at", [1, 3])
@pytest.mark.parametrize(
    "model",
    [ODMClassifierCV(), LinearODMClassifierCV(cv=3), LDMClassifierCV(cv=2)],
    ids=["closed form", "folds", "LDM"],
)
def test_a_search_that_is_ended_takes_the_best_point_seen(model, stop_at):
    X, y = data()
    recorder = Recorder("evaluation", stop_at=stop_at)
    model = clone(model).set_callbacks(recorder).fit(X, y)
    recorder.check_balanced()
    scores = model.cv_results_["mean_test_score"]
    assert scores.size == stop_at
    assert model.best_score_ == scores.max()
    assert model.best_estimator_.get_params()["tol"] == model.tol
    assert model.score(X, y) > 0.5


def test_a_search_that_is_ended_at_its_last_point_takes_that():
    X, y = data()
    heard = Recorder("evaluation")
    whole = ODMClassifierCV(max_evals=5).set_callbacks(heard).fit(X, y)
    recorder = Recorder("evaluation", stop_at=heard.n_ended())
    ended = ODMClassifierCV(max_evals=5).set_callbacks(recorder).fit(X, y)
    assert ended.best_index_ == whole.best_index_
    assert ended.best_params_ == whole.best_params_


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("cv", [None, 3])
def test_a_grid_that_is_ended_takes_the_best_point_scored(cv, n_jobs):
    X, y = data()
    widths = 2.0 ** np.arange(-4, 4)
    grid = {"C1s": [1, 4, 16, 64], "C2s": [4], "Ds": [0.2, 0.4], "widths": widths}
    recorder = Recorder("points", stop_at=1)
    model = ODMClassifierCV(**grid, cv=cv, n_jobs=n_jobs).set_callbacks(recorder).fit(X, y)
    recorder.check_balanced()
    scores = model.cv_results_["mean_test_score"]
    assert 0 < np.isfinite(scores).sum() < scores.size
    assert model.best_score_ == np.nanmax(scores)
    whole = ODMClassifierCV(**grid, cv=cv, n_jobs=n_jobs).fit(X, y).cv_results_["params"]
    assert model.cv_results_["params"] == whole
