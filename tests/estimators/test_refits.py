"""What a refit, a stream and a file keep and what they forget."""

import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold

from optimargin import LinearODMClassifier, LinearODMClassifierCV, ODMClassifier
from optimargin.chunks import ArrayChunks
from optimargin.io import load_model, save_model
from tests.cases import two_classes

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

X, Y = two_classes(60, 3)


class WithTrailingUnderscore(LinearODMClassifier):
    """A parameter whose name looks like that of a fitted attribute."""

    def __init__(self, lambda_=1.0, *, C1=None, tol=1e-6):
        super().__init__(C1, tol=tol)
        self.lambda_ = lambda_


def test_a_refit_keeps_parameters_whatever_their_names():
    model = WithTrailingUnderscore(2.0).fit(X, Y).fit(X, Y)
    assert clone(model).get_params()["lambda_"] == 2.0


def test_a_model_of_landmarks_from_chunks_survives_a_file(tmp_path):
    model = ODMClassifier(approximation="nystrom", n_components=10, random_state=0)
    model.fit_chunks(ArrayChunks(X, Y, chunk_rows=20))
    save_model(model, tmp_path / "model.skops")
    scores = load_model(tmp_path / "model.skops").decision_function(X)
    np.testing.assert_array_equal(scores, model.decision_function(X))


def test_a_stream_follows_a_penalty_that_was_changed():
    model = LinearODMClassifier(C2=3.0).partial_fit(X, Y, classes=[-1, 1])
    assert model.C2_ == 3.0
    assert model.set_params(C2=7.0).partial_fit(X, Y).C2_ == 7.0


def test_class_weights_may_name_some_classes_while_a_split_lacks_one():
    y = np.repeat([0, 1, 0, 1, 2], 12)
    grid = {"C1s": [8.0], "C2s": [2.0], "Ds": [0.1]}
    weights = {0: 2.0, 2: 3.0}
    model = LinearODMClassifierCV(**grid, cv=KFold(5), class_weight=weights).fit(X, y)
    full = LinearODMClassifierCV(**grid, cv=KFold(5), class_weight={**weights, 1: 1.0}).fit(X, y)
    assert model.best_score_ == full.best_score_


def test_threads_of_a_fit_to_chunks_end_when_one_cannot_start(monkeypatch):
    started = []

    class Unwilling(threading.Thread):
        def start(self):
            if len(started) == 2:
                raise RuntimeError("can't start new thread")
            started.append(self)
            super().start()

    monkeypatch.setattr("concurrent.futures.thread.threading.Thread", Unwilling)
    y = np.digitize(X[:, 0], [0.0, 0.5, 1.0])
    with pytest.raises(RuntimeError, match="new thread"):
        LinearODMClassifier().fit_chunks(ArrayChunks(X, y, chunk_rows=20))
    assert not any(thread.is_alive() for thread in started)
