"""Files in chunks: every row once, whatever the borders are, and errors that name the place."""

import gzip
import os

import numpy as np
import pytest
from scipy.sparse import vstack
from sklearn.datasets import load_svmlight_file

from optimargin import LinearODMClassifier
from optimargin.chunks import NpyChunks, ParquetChunks, SvmlightChunks
from optimargin.io import DataFileError, read_data

ROWS = [f"{k % 2} 1:{k + 1} 3:{k % 7 + 1}\n" for k in range(40)]
GAPS = {
    "blank lines": "\n\n \n\t\n\n",
    "a comment": "# a comment that is longer than most of the chunks here\n",
    "a long line": "1 " + " ".join(f"{j}:1" for j in range(1, 200)) + "\n",
    "carriage returns": "\r\n1 1:5\r\n",
}


@pytest.mark.parametrize("last", ["\n", ""])
@pytest.mark.parametrize("gap", GAPS)
def test_every_row_is_read_once_for_any_size_of_chunks(gap, last, tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("".join([*ROWS[:20], GAPS[gap], *ROWS[20:]]).rstrip("\n") + last, newline="")
    X, y = load_svmlight_file(str(path), n_features=200)
    for chunk_bytes in [*range(1, 60), 100, 500, 5000]:
        chunks = SvmlightChunks(path, 200, chunk_bytes=chunk_bytes)
        parts = [chunks.load(k) for k in range(len(chunks))]
        np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), y)
        np.testing.assert_array_equal(vstack([part[0] for part in parts]).toarray(), X.toarray())


def test_the_groups_of_rankings_are_not_used(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("3 qid:1 1:2\n1 qid:12# none\n2 qid:2 2:1\n")
    X, y, _ = SvmlightChunks(path, 2).load(0)
    np.testing.assert_array_equal(X.toarray(), [[2, 0], [0, 0], [0, 1]])
    np.testing.assert_array_equal(y, [3, 1, 2])
    np.testing.assert_array_equal(read_data(path).y, [3, 1, 2])


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("1 1:x", 5, "expected a number after '1:', found 'x'"),
        ("1 1:1 4:1", 7, "feature 4: features are numbered from 1 to 3"),
        ("1 0:1 2:1", 3, "feature 0: features are numbered from 1 to 3"),
        ("9007199254740993 1:1", 1, "would be read as 9007199254740992"),
    ],
)
def test_an_error_names_the_file_and_the_line(line, column, message, tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("".join([*ROWS, "\n# a note\n", line, "\n", *ROWS]))
    with pytest.raises(DataFileError) as caught:
        LinearODMClassifier().fit_chunks(SvmlightChunks(path, 3, chunk_bytes=50))
    assert str(caught.value).startswith(f"{path}, line 43, column {column}: ")
    assert message in str(caught.value)


def test_values_unfit_for_use_are_named_with_their_place(tmp_path):
    X, y = np.arange(200.0).reshape(100, 2), np.arange(100) % 2
    X[70, 1] = np.nan
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    with pytest.raises(ValueError, match=r"X\.npy, rows 61 to 90: Chunk 2: .*NaN"):
        LinearODMClassifier().fit_chunks(
            NpyChunks(tmp_path / "X.npy", tmp_path / "y.npy", chunk_rows=30)
        )
    (tmp_path / "rows.svm").write_text("".join([*ROWS, "1 1:1e200\n"]))
    with pytest.raises(ValueError, match=r"rows\.svm, lines from \d+ on: Chunk \d+: .*overflow"):
        LinearODMClassifier().fit_chunks(SvmlightChunks(tmp_path / "rows.svm", 3, chunk_bytes=50))


def test_a_file_that_becomes_shorter_is_an_error_and_no_crash(tmp_path):
    np.save(tmp_path / "X.npy", np.ones((1000, 3)))
    np.save(tmp_path / "y.npy", np.arange(1000) % 2)
    (tmp_path / "rows.svm").write_text("".join(ROWS))
    npy = NpyChunks(tmp_path / "X.npy", tmp_path / "y.npy", chunk_rows=100)
    text = SvmlightChunks(tmp_path / "rows.svm", 3)
    os.truncate(tmp_path / "X.npy", 12_000)
    os.truncate(tmp_path / "rows.svm", 100)
    for chunks, name in ((npy, "X.npy"), (text, "rows.svm")):
        with pytest.raises(DataFileError, match=rf"{name}: the file .* opened"):
            LinearODMClassifier().fit_chunks(chunks)
    with pytest.raises(DataFileError, match=r"X\.npy: not a complete \.npy file"):
        NpyChunks(tmp_path / "X.npy")


@pytest.mark.parametrize("dtype", [">f4", "f8", "i2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_part_of_a_file_is_that_part_of_the_array(order, dtype, tmp_path):
    X = np.asarray(np.arange(700).reshape(100, 7) % 97, dtype=dtype, order=order)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", np.array(["a", "bee"] * 50))
    chunks = NpyChunks(tmp_path / "X.npy", tmp_path / "y.npy", chunk_rows=30)
    for k in range(len(chunks)):
        part, y, _ = chunks.load(k)
        np.testing.assert_array_equal(part, X[30 * k : 30 * (k + 1)])
        assert y.tolist() == ["a", "bee"] * (len(part) // 2)


def test_compressed_text_is_refused_at_once(tmp_path):
    (tmp_path / "rows.svm.gz").write_bytes(gzip.compress("".join(ROWS).encode()))
    with pytest.raises(ValueError, match="compressed by gzip: expand it first"):
        SvmlightChunks(tmp_path / "rows.svm.gz", 3)


def test_damaged_pages_are_found_by_their_checksums(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    path = tmp_path / "rows.parquet"
    table = pa.table({"a": np.random.default_rng(0).normal(size=500), "y": np.arange(500) % 2})
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    write_table(table, path, **options)
    content = bytearray(path.read_bytes())
    content[2000] ^= 64
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=r"rows\.parquet: .*checksum"):
        LinearODMClassifier().fit_chunks(ParquetChunks(path, "y"))
    with pytest.raises(DataFileError, match=r"rows\.parquet: .*checksum"):
        read_data(path)


def test_all_parquet_files_must_have_the_columns(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    write_table(pa.table({"a": [1.0], "y": [0]}), tmp_path / "0.parquet")
    write_table(pa.table({"b": [1.0], "y": [1]}), tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=r"1\.parquet has no column 'a'"):
        ParquetChunks(tmp_path, "y")
