"""Fits on a cluster of real processes equal those on one machine, whatever the cluster does."""

import os
import pickle
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from optimargin import (
    LinearODMClassifier,
    LinearODMRegressor,
    ODMClassifier,
    ODMRegressor,
    OneClassODM,
)
from optimargin.chunks import ArrayChunks, Chunks
from tests.cases import two_classes

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
from optimargin.dask import (  # noqa: E402
    DaskLinearODMClassifier,
    DaskLinearODMRegressor,
    DaskODMClassifier,
    DaskODMRegressor,
    DaskOneClassODM,
)
from optimargin.dask._chunks import DaskChunks  # noqa: E402

# Any free port: the one that dask looks for may be taken.
LOCAL = {"threads_per_worker": 1, "dashboard_address": ":0"}


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=2, **LOCAL) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def three_classes(n_samples=120):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 3)) + 1.0
    y = np.digitize(X[:, 0] - X[:, 1] + rng.normal(size=n_samples) / 2, [-0.7, 0.7])
    return X, y


def blocks(cuts, n_samples):
    bounds = [0, *sorted(cuts), n_samples]
    return tuple(b - a for a, b in pairwise(bounds))


def unknown(array):
    """Return the array with chunk sizes that dask does not know."""
    rows = tuple([np.nan] * array.numblocks[0])
    return da.Array(array.dask, array.name, (rows, *array.chunks[1:]), meta=array._meta)


# Many more cuts are in test_chunks.py, where a round costs less.
@pytest.mark.parametrize(
    ("cuts", "label_cuts", "sparse", "weighted", "hidden"),
    [
        ([], [60], False, False, False),
        ([0, 7, 7, 120], [], True, True, False),
        ([40, 41], [], False, True, True),
        ([30, 90], [], True, False, True),
    ],
)
def test_any_chunking_gives_the_local_objective(client, cuts, label_cuts, sparse, weighted, hidden):
    X, y = two_classes(120, 3)
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    weight = np.random.default_rng(1).uniform(0.5, 2, 120) if weighted else None
    expected = LinearODMClassifier().fit(X, y, weight)
    rows = blocks(cuts, 120)
    dX = da.from_array(X, chunks=(rows, (2, 1)))
    if sparse:
        dX = dX.rechunk({1: -1}).map_blocks(sp.csr_matrix)
    dy = da.from_array(y, chunks=(rows if hidden else blocks(label_cuts, 120),))
    dw = None if weight is None else da.from_array(weight, chunks=(rows,))
    if hidden:
        dX, dy = unknown(dX.rechunk({1: -1}) if not sparse else dX), unknown(dy)
    model = DaskLinearODMClassifier(tol=1e-10).fit(dX, dy, dw)
    np.testing.assert_allclose(model.objective_, expected.objective_, rtol=1e-8)
    local = model.to_local()
    assert isinstance(local, LinearODMClassifier)
    np.testing.assert_allclose(local.coef_, expected.coef_, atol=1e-6)
    np.testing.assert_array_equal(model.predict(dX).compute(), local.predict(X))
    np.testing.assert_allclose(
        model.decision_function(dX).compute(), local.decision_function(X), atol=1e-12
    )


# Most other tests have two.
@pytest.mark.parametrize(
    "n_workers", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 4))]
)
def test_the_number_of_workers_does_not_matter(n_workers):
    X, y = two_classes(400, 6)
    expected = LinearODMClassifier().fit(X, y).objective_
    with (
        distributed.LocalCluster(n_workers=n_workers, **LOCAL) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        model = DaskLinearODMClassifier(tol=1e-10, client=client)
        model.fit(da.from_array(X, chunks=(50, 6)), da.from_array(y, chunks=50))
    assert model.objective_ == pytest.approx(expected, rel=1e-8)


def test_dataframes_labels_of_text_and_predictions_by_blocks(client):
    X, y = two_classes(200, 3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=np.where(y > 0, "yes", "no"))
    lazy = dd.from_pandas(frame, npartitions=4)
    features, labels = lazy[["a", "b", "c"]], lazy["kind"].astype(object)
    model = DaskLinearODMClassifier(tol=1e-10).fit(features, labels)
    expected = LinearODMClassifier().fit(frame[["a", "b", "c"]], frame["kind"])
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-8)
    np.testing.assert_array_equal(model.feature_names_in_, ["a", "b", "c"])
    predicted = model.predict(features)
    assert isinstance(predicted, da.Array)
    np.testing.assert_array_equal(predicted.compute(), expected.predict(frame[["a", "b", "c"]]))
    assert model.score(features, labels) == pytest.approx(
        expected.score(frame[["a", "b", "c"]], frame["kind"])
    )
    assert model.score(features, labels, lazy["a"] ** 2) > 0.5
    with pytest.raises(ValueError, match="fitted with"):
        model.predict(lazy[["b", "a", "c"]])


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_landmarks_that_span_everything_give_the_exact_kernel_model(client, sparse):
    X, y = two_classes(120, 2)
    exact = ODMClassifier().fit(X, y)
    dX = da.from_array(X, chunks=(50, 2))
    dX = dX.map_blocks(sp.csr_matrix) if sparse else dX
    model = DaskODMClassifier(n_components=120).fit(dX, da.from_array(y, chunks=50))
    assert model.objective_ == pytest.approx(exact.objective_, rel=1e-5)
    assert model.gamma_ == pytest.approx(exact.gamma_)
    local = model.to_local()
    assert isinstance(local, ODMClassifier)
    assert (local.predict(X) == exact.predict(X)).mean() > 0.97
    np.testing.assert_array_equal(model.predict(dX).compute(), local.predict(X))


def test_many_features_use_products_with_the_hessian(client):
    X, y = two_classes(150, 30)
    model = DaskLinearODMClassifier(solver="newton_cg", tol=1e-9)
    model.fit(da.from_array(X, chunks=(70, 30)), da.from_array(y, chunks=70))
    assert model.solver_ == "newton_cg"
    expected = LinearODMClassifier().fit(X, y).objective_
    assert model.objective_ == pytest.approx(expected, rel=1e-8)


def test_dense_fits_take_at_most_ten_rounds(client):
    X, y = two_classes(40_000, 10)
    model = DaskLinearODMClassifier()
    model.fit(da.from_array(X, chunks=(10_000, 10)), da.from_array(y, chunks=10_000))
    assert model.n_rounds_ <= 10
    assert model.dual_gap_ <= 1e-6


def test_two_fits_at_once_on_one_cluster(client):
    X, y = three_classes()
    dX, dy = da.from_array(X, chunks=(30, 3)), da.from_array(y, chunks=30)

    def fit(C1):
        return DaskLinearODMClassifier(C1, tol=1e-10, client=client).fit(dX, dy).objective_

    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(fit, [8.0, 512.0]))
    for C1, objective in zip([8.0, 512.0], together, strict=True):
        np.testing.assert_allclose(
            objective, LinearODMClassifier(C1, multi_class="ovr").fit(X, y).objective_, rtol=1e-8
        )


def test_fits_in_a_row_leave_nothing_on_the_scheduler(client):
    X, y = two_classes(60, 3)
    dX, dy = da.from_array(X, chunks=(20, 3)), da.from_array(y, chunks=20)

    def tasks_left():
        for _ in range(50):  # releases travel to the scheduler after the fit
            left = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
            if left == 0:
                break
            time.sleep(0.1)
        return left

    before = tasks_left()
    for _ in range(6):
        DaskLinearODMClassifier().fit(dX, dy)
    assert tasks_left() <= before
    assert not client.futures


def slowly(array, seconds):
    """Return the array, each of whose blocks takes some time to compute."""

    def wait(block):  # local, so that it is sent by value: workers need not find this module
        time.sleep(seconds)
        return block

    return array.map_blocks(wait, dtype=float)


def killed_with_the_third_round(chunks_class, action):
    """Return the class with `action` begun, in a thread, as the third round begins."""

    class Disturbed(chunks_class):
        def _result(self, node):
            if self.n_rounds == 2:
                threading.Timer(0.1, action).start()
            return super()._result(node)

    return Disturbed


def test_a_worker_killed_and_another_joining_do_not_change_the_answer(monkeypatch):
    X, y = two_classes(300, 4)
    expected = LinearODMClassifier().fit(X, y).objective_
    with (
        distributed.LocalCluster(n_workers=2, **LOCAL) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        dX = slowly(da.from_array(X, chunks=(50, 4)), 0.1)
        (dX,) = client.persist([dX])  # so that the worker holds data when it dies
        assert not any(future.exception(timeout=60) for future in distributed.futures_of(dX))
        pids = client.run(os.getpid)
        killed = []

        def disturb():
            victim = next(iter(pids.values()))
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)
            cluster.scale(3)

        disturbed = killed_with_the_third_round(DaskChunks, disturb)
        monkeypatch.setattr("optimargin.dask._base.DaskChunks", disturbed)
        model = DaskLinearODMClassifier(tol=1e-10, client=client)
        model.fit(dX, da.from_array(y, chunks=50))
        assert killed
        assert not set(killed) & set(client.run(os.getpid).values())
    assert model.objective_ == pytest.approx(expected, rel=1e-8)


def test_a_cluster_without_workers_is_an_error_and_no_hang(monkeypatch):
    X, y = two_classes(200, 4)
    with (
        distributed.LocalCluster(n_workers=1, **LOCAL) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        disturbed = killed_with_the_third_round(DaskChunks, lambda: cluster.scale(0))
        monkeypatch.setattr("optimargin.dask._base.DaskChunks", disturbed)
        dX = slowly(da.from_array(X, chunks=(50, 4)), 0.3)
        model = DaskLinearODMClassifier(tol=1e-10, client=client, worker_timeout=2.0)
        begin = time.monotonic()
        with pytest.raises(RuntimeError, match="no worker for 2 seconds"):
            model.fit(dX, da.from_array(y, chunks=50))
        assert time.monotonic() - begin < 60


@pytest.mark.slow
def test_data_larger_than_the_memory_of_a_worker():
    with (
        distributed.LocalCluster(n_workers=1, memory_limit="500MiB", **LOCAL) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        state = da.random.RandomState(0)
        X = state.normal(size=(2_000_000, 40), chunks=(50_000, 40))
        y = (X[:, 0] + X[:, 1] > 0).astype(int)
        model = DaskLinearODMClassifier(client=client).fit(X, y)
    assert X.nbytes > 600e6
    assert model.dual_gap_ <= 1e-6


def test_bad_input_is_named(client):
    X, y = two_classes(60, 3)
    dX, dy = da.from_array(X, chunks=(20, 3)), da.from_array(y, chunks=20)
    model = DaskLinearODMClassifier()
    with pytest.raises(TypeError, match="X must be a Dask array"):
        model.fit(X, dy)
    with pytest.raises(ValueError, match="y must have 1 dimension;"):
        model.fit(dX, dX)
    with pytest.raises(ValueError, match="X has 60 rows and y has 40"):
        model.fit(dX, dy[:40])
    with pytest.raises(ValueError, match="unknown sizes"):
        model.fit(unknown(dX), dy.rechunk(30))
    with pytest.raises(ValueError, match=r"Chunk [12].*inconsistent"):
        model.fit(unknown(dX), unknown(dy.rechunk(((20, 10, 30),))))
    X[33, 1] = np.inf
    with pytest.raises(ValueError, match=r"Chunk 1.*infinity"):
        model.fit(da.from_array(X, chunks=(20, 3)), dy)
    with pytest.raises(ValueError, match="C1"):
        DaskLinearODMClassifier(C1=-1.0).fit(dX, dy)
    with pytest.raises(ValueError, match="n_components"):
        DaskODMClassifier(n_components=0).fit(dX, dy)


def test_without_a_client_the_error_says_so(monkeypatch):
    def nobody():
        raise ValueError

    monkeypatch.setattr("optimargin.dask._base.default_client", nobody)
    X, y = two_classes(10, 2)
    with pytest.raises(ValueError, match="no Dask client"):
        DaskLinearODMClassifier().fit(da.from_array(X), da.from_array(y))


def test_a_fitted_estimator_can_be_saved_without_its_client(client):
    X, y = two_classes(60, 3)
    dX, dy = da.from_array(X, chunks=(20, 3)), da.from_array(y, chunks=20)
    model = DaskLinearODMClassifier(client=client).fit(dX, dy)
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.client is None
    np.testing.assert_array_equal(loaded.predict(dX).compute(), model.to_local().predict(X))


@pytest.mark.parametrize("n_targets", [1, 2])
def test_regressors_find_the_local_models(client, n_targets):
    X, _ = three_classes()
    y = np.column_stack([X[:, 0] + np.sin(3 * X[:, 1]), 1e3 * X[:, 2] ** 2])[:, :n_targets]
    y = y[:, 0] if n_targets == 1 else y
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=120)
    rows = da.from_array(X, chunks=(50, 3))
    targets = da.from_array(y, chunks=(40, *y.shape[1:]))
    weights = da.from_array(weight, chunks=50)
    linear = {"C1": 200.0, "C2": 50.0, "epsilon": 0.1, "tol": 1e-12}
    found = DaskLinearODMRegressor(**linear, client=client).fit(rows, targets, weights)
    local = LinearODMRegressor(**linear).fit(X, y, weight)
    np.testing.assert_allclose(found.predict(rows).compute(), local.predict(X), rtol=1e-7)
    assert found.score(rows, targets, weights) == pytest.approx(local.score(X, y, weight))
    assert found.to_local().predict(X).shape == y.shape
    kernel = DaskODMRegressor(n_components=120, random_state=0, client=client)
    kernel.fit(rows, targets)
    exact = ODMRegressor().fit(X, y)
    np.testing.assert_allclose(kernel.gamma_, exact.gamma_, rtol=1e-10)
    predicted = kernel.predict(rows).compute()
    np.testing.assert_allclose(predicted, exact.predict(X), atol=1e-2 * np.ptp(y))


def test_numbers_that_are_no_numbers_are_refused_with_their_chunk(client):
    X, _ = three_classes()
    y = X[:, 0].copy()
    y[70] = np.nan
    with pytest.raises(ValueError, match=r"Chunk 1: .*y contains NaN"):
        DaskLinearODMRegressor(client=client).fit(
            da.from_array(X, chunks=(50, 3)), da.from_array(y, chunks=50)
        )


@pytest.mark.parametrize("hidden", [False, True])
def test_novelty_detection_is_that_of_chunks(client, hidden):
    X = two_classes(300, 3)[0]
    weight = np.arange(300) % 3
    dX, dw = da.from_array(X, chunks=((100, 0, 200), 3)), da.from_array(weight, chunks=150)
    if hidden:
        dX, dw = unknown(dX), unknown(dw.rechunk(((100, 0, 200),)))
    settings = {"n_components": 30, "random_state": 0}
    model = DaskOneClassODM(client=client, **settings).fit(dX, sample_weight=dw)
    parts = [(X[a:b], None, weight[a:b]) for a, b in ((0, 100), (100, 100), (100, 300))]

    class Parts(Chunks):
        def __len__(self):
            return 3

        def load(self, k):
            return parts[k]

    local = OneClassODM(approximation="nystrom", **settings).fit_chunks(Parts())
    np.testing.assert_allclose(model.offset_, local.offset_, rtol=1e-6)
    for method in ("score_samples", "decision_function", "p_values", "predict"):
        found = getattr(model, method)(dX).compute()
        np.testing.assert_allclose(found, getattr(local, method)(X), atol=0.011)
    np.testing.assert_allclose(model.to_local().score_samples(X), local.score_samples(X), atol=1e-6)


def test_odd_rows_of_blocks_are_those_of_chunks(client):
    X = two_classes(300, 3)[0]
    X[::100] *= 8.0
    settings = {"n_components": 30, "random_state": 0, "novelty": False}
    model = DaskOneClassODM(client=client, **settings)
    labels = model.fit_predict(da.from_array(X, chunks=(100, 3)))
    local = OneClassODM(approximation="nystrom", **settings)
    local.fit_chunks(ArrayChunks(X, chunk_rows=100))
    np.testing.assert_allclose(model.held_out_scores_, local.held_out_scores_, atol=1e-6)
    np.testing.assert_array_equal(labels == -1, local.held_out_scores_ < local.offset_)
    assert (labels[::100] == -1).all()
    assert not hasattr(model, "predict")
    assert not hasattr(model.to_local(), "predict")
    with pytest.raises(AttributeError, match=r"DaskOneClassODM judges .* Set novelty=False"):
        model.set_params(novelty=True).fit_predict(X)
