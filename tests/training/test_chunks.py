"""Fits to data in chunks give the model of all rows at once, from every kind of file."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

from optimargin import LinearODMClassifier, ODMClassifier
from optimargin.chunks import ArrayChunks, Chunks, NpyChunks, ParquetChunks, SvmlightChunks
from tests.cases import two_classes

pytestmark = pytest.mark.numbers


class ListedChunks(Chunks):
    """Rows cut at given places; equal places make empty chunks."""

    def __init__(self, X, y, weight, cuts):
        self.bounds = [0, *sorted(cuts), len(y)]
        self.arrays = X, y, weight

    def __len__(self):
        return len(self.bounds) - 1

    def load(self, k):
        part = slice(self.bounds[k], self.bounds[k + 1])
        return tuple(None if A is None else A[part] for A in self.arrays)


def three_classes(n_samples=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 4)) + 2.0
    y = np.digitize(X[:, 0] - X[:, 1] + rng.normal(size=n_samples) / 2, [-0.7, 0.7])
    return X, np.array(["low", "mid", "top"])[y]


@settings(max_examples=40)
@given(
    cuts=st.lists(st.integers(0, 150), max_size=12),
    sparse=st.booleans(),
    weighted=st.booleans(),
    single=st.booleans(),
    fit_intercept=st.booleans(),
    balanced=st.booleans(),
)
def test_any_cutting_gives_the_same_objective(
    cuts, sparse, weighted, single, fit_intercept, balanced
):
    X, y = three_classes()
    X = X.astype(np.float32) if single else X
    X = sp.csr_array(np.where(X > 1.5, X, 0)) if sparse else X
    weight = np.random.default_rng(1).integers(0, 4, len(y)).astype(float) if weighted else None
    model = LinearODMClassifier(
        fit_intercept=fit_intercept,
        class_weight="balanced" if balanced else None,
        multi_class="ovr",
        tol=1e-10,
    )
    whole = model.fit(X, y, weight).objective_
    model.fit_chunks(ListedChunks(X, y, weight, cuts))
    np.testing.assert_allclose(model.objective_, whole, rtol=1e-8)
    assert model.coef_.shape == (3, 4)
    assert model.coef_.dtype == X.dtype


def test_large_data_begin_at_the_solution_of_a_sample_and_take_few_passes():
    X, y = two_classes(30_000, 8)

    class Counted(ArrayChunks):
        n_passes = 0

        def reduce(self, *arguments):
            self.n_passes += 1
            return super().reduce(*arguments)

        gather = Chunks.gather

    chunks = Counted(X, y, chunk_rows=7000)
    model = LinearODMClassifier().fit_chunks(chunks)
    assert chunks.n_passes <= 6
    assert model.n_iter_ <= 4
    expected = LinearODMClassifier().fit(X, y)
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-8)
    assert model.score(X, y) == pytest.approx(expected.score(X, y), abs=1e-3)


@pytest.mark.parametrize("solver", ["newton", "newton_cg"])
def test_both_solvers_reach_the_same_model(solver):
    X, y = two_classes(200, 30)
    model = LinearODMClassifier(solver=solver, tol=1e-9).fit_chunks(ArrayChunks(X, y))
    assert model.solver_ == solver
    expected = LinearODMClassifier().fit(X, y).objective_
    assert model.objective_ == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_landmarks_that_span_everything_give_the_exact_kernel_model(kernel):
    X, y = two_classes(90, 2)
    weight = np.random.default_rng(0).uniform(0.5, 2, 90)
    exact = ODMClassifier(kernel=kernel, coef0=1.0).fit(X, y, weight)
    model = ODMClassifier(kernel=kernel, coef0=1.0, approximation="nystrom", n_components=90)
    model.fit_chunks(ArrayChunks(X, y, weight, chunk_rows=17))
    assert model.objective_ == pytest.approx(exact.objective_, rel=1e-5)
    assert (model.predict(X) == exact.predict(X)).mean() > 0.97
    if kernel != "linear":
        assert model.gamma_ == pytest.approx(exact.gamma_)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_gamma_scale_is_that_of_all_rows_with_class_weights(sparse):
    X, y = three_classes()
    X = sp.csr_array(np.where(X > 2, X, 0)) if sparse else X
    model = ODMClassifier(class_weight="balanced", approximation="nystrom", n_components=20)
    gamma = model.fit(X, y).gamma_
    assert model.fit_chunks(ArrayChunks(X, y, chunk_rows=40)).gamma_ == pytest.approx(gamma)


@pytest.fixture
def files(tmp_path):
    """The same rows as .npy, svmlight and Parquet files; return readers of each."""
    X, y = three_classes(200)
    y = np.searchsorted(["low", "mid", "top"], y).astype(float)
    weight = np.random.default_rng(0).uniform(1, 2, 200)
    for name, array in {"X": X, "y": y, "weight": weight}.items():
        np.save(tmp_path / f"{name}.npy", array)
    dump_svmlight_file(X, y, str(tmp_path / "rows.svm"), zero_based=False)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=y, weight=weight)
    (tmp_path / "parts").mkdir()
    frame[:120].to_parquet(tmp_path / "parts" / "0.parquet", row_group_size=50)
    frame[120:].to_parquet(tmp_path / "parts" / "1.parquet", row_group_size=50)
    readers = {
        "npy": NpyChunks(tmp_path / "X.npy", tmp_path / "y.npy", chunk_rows=64),
        "npy-weighted": NpyChunks(
            tmp_path / "X.npy", tmp_path / "y.npy", tmp_path / "weight.npy", chunk_rows=64
        ),
        "svmlight": SvmlightChunks(tmp_path / "rows.svm", 4, chunk_bytes=3000),
        "parquet": ParquetChunks(tmp_path / "parts", "kind", columns=list("abcd")),
        "parquet-weighted": ParquetChunks(tmp_path / "parts", "kind", "weight"),
    }
    return X, y, weight, readers


@pytest.mark.parametrize("kind", ["npy", "npy-weighted", "svmlight", "parquet", "parquet-weighted"])
def test_every_kind_of_file_gives_the_model_of_its_rows(files, kind):
    X, y, weight, readers = files
    chunks = readers[kind]
    assert len(chunks) > 1
    rows = [chunks.load(k) for k in range(len(chunks))]
    assert sum(part[0].shape[0] for part in rows) == 200
    model = LinearODMClassifier(tol=1e-10).fit_chunks(chunks)
    expected = LinearODMClassifier(multi_class="ovr")
    expected.fit(X, y, weight if "weighted" in kind else None)
    # Numbers in a text file are rounded.
    rtol = 1e-4 if kind == "svmlight" else 1e-8
    np.testing.assert_allclose(model.objective_, expected.objective_, rtol=rtol)
    if kind.startswith("parquet"):
        np.testing.assert_array_equal(model.feature_names_in_, list("abcd"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y, w: X.__setitem__((70, 1), np.nan), "Chunk 2.*NaN"),
        (lambda X, y, w: X.__setitem__((70, 1), 1e200), "Chunk 2.*scale the features"),
        (lambda X, y, w: w.__setitem__(70, -1.0), "Chunk 2.*sample_weight"),
        (lambda X, y, w: y.__setitem__(slice(None), 1.0), "one class only"),
        (lambda X, y, w: w.__setitem__(slice(None), 0.0), "zero for every sample"),
    ],
)
def test_bad_values_are_named_with_their_chunk(change, message):
    X, y = two_classes(100, 3)
    weight = np.ones(100)
    change(X, y, weight)
    with pytest.raises(ValueError, match=message):
        LinearODMClassifier().fit_chunks(ArrayChunks(X, y, weight, chunk_rows=30))


def test_bad_chunks_are_refused():
    X, y = two_classes(20, 3)
    with pytest.raises(ValueError, match="different numbers of rows"):
        ArrayChunks(X, y[:5])
    with pytest.raises(ValueError, match="chunk_rows must be a positive"):
        ArrayChunks(X, y, chunk_rows=0)
    with pytest.raises(ValueError, match="empty"):
        LinearODMClassifier().fit_chunks(ArrayChunks(X[:0], y[:0]))
    with pytest.raises(ValueError, match="empty"):
        LinearODMClassifier().fit_chunks(ListedChunks(X[:0], y[:0], None, [0]))
    with pytest.raises(ValueError, match="solver='dcd' does not work on chunks"):
        LinearODMClassifier(solver="dcd").fit_chunks(ArrayChunks(X, y))
    with pytest.raises(ValueError, match="approximation='nystrom'"):
        ODMClassifier().fit_chunks(ArrayChunks(X, y))
    low_rank = ODMClassifier(approximation="nystrom", n_components=5)
    with pytest.raises(ValueError, match="mean_distance"):
        low_rank.set_params(gamma="mean_distance").fit_chunks(ArrayChunks(X, y))
    with pytest.raises(ValueError, match="positive semi-definite"):
        low_rank.set_params(gamma=1.0, kernel="sigmoid").fit_chunks(ArrayChunks(X, y))

    class Ragged(ArrayChunks):
        def load(self, k):
            X, y, weight = super().load(k)
            return X[:, : 3 - k], y, weight

    with pytest.raises(ValueError, match="different numbers of features"):
        LinearODMClassifier().fit_chunks(Ragged(X, y, chunk_rows=10))


def test_missing_files_and_columns_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        NpyChunks(tmp_path / "nothing.npy", tmp_path / "y.npy")
    np.save(tmp_path / "y.npy", np.zeros(3))
    with pytest.raises(ValueError, match="two dimensions"):
        NpyChunks(tmp_path / "y.npy", tmp_path / "y.npy")
    pd.DataFrame({"a": [1.0]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="no column 'kind'"):
        ParquetChunks(tmp_path / "a.parquet", "kind")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"no \.parquet file"):
        ParquetChunks(tmp_path / "empty", "kind")


_OUT_OF_CORE = """
import sys
import numpy as np
from optimargin import LinearODMClassifier
from optimargin.chunks import NpyChunks

X, y = sys.argv[1:]
model = LinearODMClassifier(tol=1e-10).fit_chunks(NpyChunks(X, y))
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(model.objective_, int(status["VmHWM"].split()[0]), int(status["RssAnon"].split()[0]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_data_larger_than_memory_are_fitted_exactly(tmp_path):
    rng = np.random.default_rng(0)
    n_rows, n_features = 400_000, 250
    X = np.lib.format.open_memmap(
        tmp_path / "X.npy", mode="w+", dtype=np.float64, shape=(n_rows, n_features)
    )
    direction = rng.normal(size=n_features) / np.sqrt(n_features)
    y = np.empty(n_rows)
    for first in range(0, n_rows, 50_000):
        part = slice(first, first + 50_000)
        X[part] = rng.normal(size=(50_000, n_features))
        y[part] = np.sign(X[part] @ direction + rng.normal(size=50_000) / 2)
    np.save(tmp_path / "y.npy", y)
    run = subprocess.run(
        [sys.executable, "-c", _OUT_OF_CORE, tmp_path / "X.npy", tmp_path / "y.npy"],
        capture_output=True,
        text=True,
        check=True,
    )
    objective, _, anonymous = run.stdout.split()
    assert X.nbytes > 3 * int(anonymous) * 1024
    expected = LinearODMClassifier().fit(np.asarray(X), y).objective_
    assert float(objective) == pytest.approx(expected, rel=1e-8)
