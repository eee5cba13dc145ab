"""Labels that look alike are told apart, and numbers are numbers."""

import numpy as np
import pandas as pd
import pytest

from optimargin.io import DataFileError, Layout, read_data

PAIRS = [
    ("007", "7"),
    ("1e3", "1000"),
    ("1.0", "1"),
    ("-0", "0"),
    ("+3", "3"),
    ("9007199254740993", "9007199254740992"),
    ("123456789012345678901", "123456789012345678902"),
]


@pytest.fixture
def table(tmp_path):
    """Write a table with a column of labels, and return its path."""

    def table(labels, separator=","):
        path = tmp_path / "rows.csv"
        rows = [f'{k}{separator}{k % 3}{separator}"{y}"\n' for k, y in enumerate(labels)]
        path.write_text(f"a{separator}b{separator}y\n" + "".join(rows))
        return path

    return table


@pytest.mark.parametrize("how", [None, "classes"])
@pytest.mark.parametrize("pair", PAIRS)
def test_labels_that_are_written_differently_are_different_classes(pair, how, table):
    data = read_data(table([*pair, *pair]), layout=Layout(labels=how))
    assert np.unique(data.y).size == 2
    assert data.y[0] == data.y[2] != data.y[1]
    assert [str(label) for label in data.y] == [*pair, *pair]
    if data.y.dtype.kind == "U":
        remarked = " ".join(data.remarks)
        assert all(repr(label) in remarked for label in pair) == (len(pair[0]) < 20)


def test_decimals_are_text_where_they_are_classes_and_numbers_otherwise(table):
    path = table(["1.5", "1.50", "2"])
    np.testing.assert_array_equal(read_data(path).y, [1.5, 1.5, 2])
    as_classes = read_data(path, layout=Layout(labels="classes"))
    assert as_classes.y.tolist() == ["1.5", "1.50", "2"]


def test_measurements_that_are_written_differently_are_the_same_number(table):
    labels = ["7", "07", "1e3", "1000.0", *map(str, range(30))]
    for how in (None, "numbers"):
        y = read_data(table(labels), layout=Layout(labels=how)).y
        assert y.dtype.kind == "i"
        np.testing.assert_array_equal(y, np.array(labels, dtype=float))
    assert read_data(table(labels), layout=Layout(labels="text")).y.tolist() == labels


def test_decimal_commas_do_not_merge_classes(table):
    path = table(["1,0", "1", "2,0"], separator=";")
    data = read_data(path)
    assert data.y.tolist() == ["1,0", "1", "2,0"]
    assert data.remarks == ("labels '1' and '1,0' are one number, but two classes here",)
    assert read_data(path, layout=Layout(labels="numbers")).y.tolist() == [1, 1, 2]


def test_one_label_with_a_comma_stops_no_prediction(table):
    path = table(["1", "2", "1,000"])
    with pytest.raises(DataFileError, match="can be read in two ways"):
        read_data(path)
    for layout in (Layout(labels="classes"), Layout(feature_names=["a", "b"], label="y")):
        assert read_data(path, layout=layout).y.tolist() == ["1", "2", "1,000"]


def test_plain_labels_are_integers_as_ever(table):
    for labels, expected in (
        (["1", "-1"], [1, -1]),
        (["+1", "-1"], [1, -1]),
        (["1.0", "2.0"], [1, 2]),
        (["1e0", "2e0"], [1, 2]),
    ):
        y = read_data(table(labels)).y
        assert y.dtype.kind == "i"
        assert y.tolist() == expected


def test_labels_without_end_remain_text(table):
    labels = ["1e400", "1e500", "9" * 5000, "0" * 5000 + "1"]
    assert read_data(table(labels), layout=Layout(labels="classes")).y.tolist() == labels


def test_a_missing_label_changes_no_other(table):
    layout = Layout(feature_names=["a", "b"], label="y", n_features=2)
    assert read_data(table(["1", "", "2"]), layout=layout).y.tolist() == [1, None, 2]
    as_text = Layout(feature_names=["a", "b"], label="y", n_features=2, labels="text")
    assert read_data(table(["'=x", "", "07"]), layout=as_text).y.tolist() == ["=x", None, "07"]


def test_labels_of_svmlight_files_are_numbers_that_are_exact(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("+1 1:1\n01 1:2\n1e0 1:3\n-1 1:4\n9007199254740992 1:2\n1.5e300 1:1\n")
    np.testing.assert_array_equal(read_data(path).y, [1, 1, 1, -1, 2.0**53, 1.5e300])
    for label in ("9007199254740993", "-009007199254740993", "123456789012345678901"):
        path.write_text(f"1 1:1\n{label} 1:1\n")
        with pytest.raises(DataFileError, match=r"line 2, column 1: .* too many digits"):
            read_data(path)


def test_large_integers_and_decimals_of_parquet_are_kept(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    path = tmp_path / "rows.parquet"
    pd.DataFrame({"a": [1.0, 2.0], "y": [2**53 + 1, 2**53]}).to_parquet(path)
    assert read_data(path).y.tolist() == [2**53 + 1, 2**53]
    cells = pa.array(["1.50", "2.50"]).cast(pa.decimal128(5, 2))
    write_table(pa.table({"a": [1.0, 2.0], "y": cells}), path)
    assert read_data(path).y.tolist() == [1.5, 2.5]
