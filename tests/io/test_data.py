"""Readers return what a file says, or say where it goes wrong."""

import bz2
import errno
import gzip
import io as io_module
import lzma
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import issparse
from sklearn.datasets import load_svmlight_file

from optimargin.io import DataFileError, Dataset, Layout, read_data, write_data
from tests.io.mutations import SVMLIGHT, TABLE, mutate

pytestmark = pytest.mark.quick

finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.fixture
def write(tmp_path):
    def write(text, name="data"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def dense(X):
    return X.toarray() if issparse(X) else X


def test_svmlight_is_read_as_scikit_learn_reads_it(write):
    data = read_data(write(SVMLIGHT))
    X, y = load_svmlight_file(io_module.BytesIO(SVMLIGHT))
    assert data.format == "svmlight"
    np.testing.assert_array_equal(dense(data.X), X.toarray())
    np.testing.assert_array_equal(data.y, y)
    assert data.y.dtype.kind == "i"


@given(st.lists(finite, min_size=1, max_size=20))
def test_numbers_are_read_exactly(values):
    from optimargin._core._text import parse_svmlight, parse_table

    line = " ".join(f"{j}:{value!r}" for j, value in enumerate(values, 1))
    np.testing.assert_array_equal(parse_svmlight(f"1 {line}".encode())[3], values)
    row = ",".join(map(repr, values)).encode()
    numbers, *_ = parse_table(row, ord(","), len(values), b"n" * len(values), 0, 1)
    np.testing.assert_array_equal(numbers[0], values)


@pytest.mark.parametrize(
    "text",
    [
        "0.1",
        "123456789012345678901234567890",
        "1e22",
        "1e23",
        "9007199254740993",
        "4.9e-324",
        "2.2250738585072011e-308",
        "0.000000000000000000000000000000000001",
        "+1.",
        ".5",
        "1E+05",
    ],
)
def test_hard_numbers_are_rounded_as_python_rounds_them(text):
    from optimargin._core._text import parse_svmlight

    assert parse_svmlight(b"1 1:" + text.encode())[3][0] == float(text)


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_compressed_files_are_told_by_their_content(module, write):
    plain, packed = write(TABLE, "plain"), write(module.compress(TABLE), "packed")
    np.testing.assert_array_equal(read_data(packed).X, read_data(plain).X)
    with pytest.raises(DataFileError, match="cut short"):
        read_data(write(module.compress(TABLE * 99)[:-30], "cut"))


def test_standard_input_is_read(monkeypatch):
    stdin = io_module.TextIOWrapper(io_module.BytesIO(SVMLIGHT))
    monkeypatch.setattr("sys.stdin", stdin)
    assert read_data("-").X.shape == (6, 7)


def test_mostly_empty_svmlight_stays_sparse(write):
    assert issparse(read_data(write("1 100:1\n-1 3:2\n")).X)
    assert not issparse(read_data(write("1 1:1 2:3\n-1 1:2\n")).X)


def test_table_with_header_quotes_and_text_labels(write):
    data = read_data(write(TABLE))
    assert data.format == "csv"
    assert data.feature_names == ["length", "width", "kind, or species"]
    assert data.label_name == "class"
    assert data.y.tolist()[:3] == ["setosa", "setosa", '"versi" color']
    np.testing.assert_array_equal(data.X[4], [6.3, 2.5, 7.0])


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_delimiters_and_line_ends(delimiter, end, write):
    rows = [["a", "b", "y"], ["1", "2", "0"], ["3", "4", "1"]]
    data = read_data(write(end.join(delimiter.join(row) for row in rows)))
    np.testing.assert_array_equal(data.X, [[1, 2], [3, 4]])
    assert data.y.tolist() == [0, 1]


def test_table_without_header(write):
    data = read_data(write("1,2,a\n3,4,b\n"))
    assert data.feature_names is None
    assert data.y.tolist() == ["a", "b"]
    forced = read_data(write("0,1,y\n1,2,a\n3,4,b\n"), layout=Layout(header=True))
    assert forced.feature_names == ["0", "1"]


def test_label_by_name_or_number_and_dropped_columns(write):
    path = write("id,y,a\n7,0,1.5\n8,1,2.5\n")
    for label in ("y", "2", 2):
        data = read_data(path, layout=Layout(label=label, drop=("id",)))
        np.testing.assert_array_equal(data.X, [[1.5], [2.5]])
        assert data.y.tolist() == [0, 1]


def test_columns_of_a_model_are_found_by_name(write):
    layout = Layout(feature_names=["b", "a"], label="y", n_features=2)
    data = read_data(write("extra,a,b\nx,1,2\n"), layout=layout)
    np.testing.assert_array_equal(data.X, [[2, 1]])
    assert data.y is None
    with pytest.raises(DataFileError, match="line 1: no column 'b', which the model needs"):
        read_data(write("a,c\n1,2\n"), layout=layout)


def test_parquet_round_trip(write, tmp_path):
    pytest.importorskip("pyarrow")
    table = read_data(write(TABLE))
    path = tmp_path / "data.parquet"
    write_data(Dataset(table.X, table.y, "parquet", table.feature_names, "class"), path)
    data = read_data(path)
    assert data.format == "parquet"
    np.testing.assert_array_equal(data.X, table.X)
    assert data.y.tolist() == table.y.tolist()


@pytest.mark.parametrize("text", [SVMLIGHT, TABLE])
@pytest.mark.parametrize("name", ["out", "out.gz", "out.xz"])
def test_what_is_written_is_read_back(text, name, write, tmp_path):
    data = read_data(write(text))
    write_data(data, tmp_path / name)
    again = read_data(tmp_path / name)
    np.testing.assert_array_equal(dense(again.X), dense(data.X))
    assert again.y.tolist() == data.y.tolist()
    assert again.feature_names == data.feature_names


def test_features_of_a_model_bound_svmlight(write):
    path = write("1 2:5 9:1\n-1 1:1\n")
    np.testing.assert_array_equal(
        dense(read_data(path, layout=Layout(n_features=3)).X), [[0, 5, 0], [1, 0, 0]]
    )
    zero = write("1 0:5\n-1 1:1\n", "zero")
    assert read_data(zero).zero_based
    with pytest.raises(DataFileError, match=r"line 1, column 3: .* numbered from 1"):
        read_data(zero, layout=Layout(zero_based=False))


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("1 1:2\n-1 3:x\n", "line 2, column 6", "expected a number after '3:', found 'x'"),
        ("1 1:2\n-1 3:1 3:2\n", "line 2, column 8", "increasing"),
        ("1 1:2\nfoo 1:1\n", "line 2, column 1", "as label"),
        ("1 1:2\n1 1:1e999\n", "line 2, column 5", "too large"),
        ("1 1:2\n1 1:nan\n", "line 2, column 5", "number"),
        ("1 1:2\n1 999999999:1\n", "line 2, column 3", "limit"),
        ("1 1:2\n1 1:\n", "line 2, column 5", "number"),
        ("a,y\n1,0\nx,1\n", "line 3, column 1 ('a')", "'x' is not a number"),
        ("a,y\n1,0\n,1\n", "line 3, column 1 ('a')", "the value is missing"),
        ("a,y\n1,0\n2\n", "line 3", "expected 2 cells, found 1"),
        ("a,y\n1,0\n2,1,1\n", "line 3", "expected 2 cells, found 3"),
        ('a,y\n1,0\n"2,1\n', "line 3, column 1 ('a')", "never closed"),
        ("a,y\n1,0\n2,\n", "line 3, column 2 ('y')", "label is missing"),
        ("a,a,y\n1,1,0\n", "line 1", "two columns"),
        ("y\n", "line 1", "--format"),
        ("", "line 1", "empty"),
        ("a,y\n", "line", "no samples"),
        ("1,0\n1e400,1\n", "line 2, column 1", "too large"),
    ],
)
def test_refusals_name_the_place(text, place, message, write):
    path = write(text)
    with pytest.raises(DataFileError) as caught:
        read_data(path)
    assert str(caught.value).startswith(f"{path}, {place}")
    assert message in str(caught.value)


def test_missing_file_and_unknown_format(tmp_path, write):
    with pytest.raises(DataFileError, match="No such file"):
        read_data(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="format='arff' is unknown"):
        read_data(write(TABLE), format="arff")


def test_missing_label_column_lists_the_columns(write):
    with pytest.raises(DataFileError, match="no column 'z' for the labels: columns are a, y"):
        read_data(write("a,y\n1,2\n"), layout=Layout(label="z"))


def _fuzz(n_cases, seed, path):
    """Read mutated files; return how many were accepted and how many refused."""
    rng = np.random.default_rng(seed)
    accepted = refused = 0
    for k in range(n_cases):
        text = mutate((SVMLIGHT, TABLE)[k % 2], rng)
        path.write_bytes(text)
        try:
            data = read_data(path)
        except DataFileError as error:
            refused += 1
            line = error.line
        else:
            accepted += 1
            line = 1
            X = data.X.data if issparse(data.X) else data.X
            assert np.isfinite(X).all(), text
            assert data.X.shape[0] == data.y.shape[0] > 0, text
        assert line is not None, text
        assert 1 <= line <= text.count(b"\n") + 2, text
    return accepted, refused


def test_mutated_files_are_read_or_refused_with_a_line(tmp_path):
    accepted, refused = _fuzz(500, 0, tmp_path / "data")
    assert min(accepted, refused) > 50


@pytest.mark.slow
def test_ten_thousand_mutated_files(tmp_path):
    accepted, refused = _fuzz(10_000, 1, tmp_path / "data")
    assert min(accepted, refused) > 1000


def test_a_table_holds_no_formulas_and_reads_back_the_same(tmp_path):
    labels = np.array(["=1+1", "@sum", "-a", "+b", "plain", "'quoted"])
    (tmp_path / "rows.csv").write_text(
        "size,=cmd()\n" + "".join(f"{k},{y}\n" for k, y in enumerate(labels))
    )
    data = read_data(tmp_path / "rows.csv")
    write_data(data, tmp_path / "copy.csv")
    for line in (tmp_path / "copy.csv").read_text().splitlines():
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in line.split(","))
    np.testing.assert_array_equal(read_data(tmp_path / "copy.csv").y, data.y)


def test_a_table_of_one_column_needs_no_separator(write):
    data = read_data(write("size\n1\n2.5\n"), format="csv", layout=Layout(has_labels=False))
    assert data.feature_names == ["size"]
    np.testing.assert_array_equal(data.X, [[1.0], [2.5]])
    with pytest.raises(DataFileError):
        read_data(write(b" x\xff\xfe#\x00!"))


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_data_that_expand_without_end_are_refused(module, write, monkeypatch):
    monkeypatch.setattr("optimargin.io._files._MAX_BYTES", 10_000)
    path = write(module.compress(b"1 1:1\n" * 10**6))
    with pytest.raises(DataFileError, match="expand to more than 200 times"):
        read_data(path)


def test_a_link_stays_a_link_and_a_pipe_is_written_to(write, tmp_path):
    data = read_data(write("1 1:1\n2 1:2\n"))
    target, link, pipe = (tmp_path / name for name in ("target", "link", "pipe"))
    target.write_text("old")
    link.symlink_to(target)
    write_data(data, link)
    assert link.is_symlink()
    assert read_data(target).y.tolist() == [1, 2]
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_bytes)
        write_data(data, pipe)
    assert pipe.is_fifo()
    assert read.result() == target.read_bytes()


def test_a_file_that_cannot_be_written_is_named_and_left_as_it_was(write, tmp_path, monkeypatch):
    data, path = read_data(write("1 1:1\n2 1:2\n")), write("old", "out")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"No space left on device; nothing was written: .*out"):
        write_data(data, path)
    assert path.read_text() == "old"
    assert {file.name for file in tmp_path.iterdir()} == {"data", "out"}
