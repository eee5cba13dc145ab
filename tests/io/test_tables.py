"""Tables as people have them: separators, decimal marks, missing cells, text, ids, dates."""

import numpy as np
import pytest

from optimargin.io import DataFileError, Layout, read_data

pytestmark = pytest.mark.quick

ORDINARY = Layout(allow_missing=True, allow_text=True)


@pytest.fixture
def read(tmp_path):
    def read(text, layout=ORDINARY, name="data"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_data(path, layout=layout)

    return read


def with_separator(mark):
    return "\n".join(
        mark.join(row) for row in (["a", "b", "y"], ["1", "2", "no"], ["3", "4", "yes"])
    )


@pytest.mark.parametrize("mark", [",", ";", "\t", "|", " ", "   "])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_separators_are_detected(mark, start, read):
    data = read(start + with_separator(mark), Layout())
    np.testing.assert_array_equal(data.X, [[1, 2], [3, 4]])
    assert data.feature_names == ["a", "b"]
    assert data.y.tolist() == ["no", "yes"]


def test_blanks_separate_quoted_cells_and_line_up(read):
    data = read('a    name      y\n1   "Jo Do"   u\n\n22  "A B"     v\n')
    assert data.X[:, 1].tolist() == ["Jo Do", "A B"]
    with pytest.raises(DataFileError, match=r"line 3.*expected 3 cells, found 2"):
        read("a b y\n1 2 u\n1 v\n2 2 v\n3 3 u\n")


def test_a_semicolon_beats_decimal_commas_without_a_header(read):
    data = read("5,1;3,5;1,25\n4,9;3,0;2,5\n", Layout(label=3))
    np.testing.assert_array_equal(data.X, [[5.1, 3.5], [4.9, 3.0]])
    assert data.y.tolist() == [1.25, 2.5]
    assert data.remarks == ("commas are decimal marks in '1', '2', '3'",)


@pytest.mark.parametrize(
    ("cells", "decimal", "values"),
    [
        (["5,8", "-1,25", "3"], None, [5.8, -1.25, 3]),
        (["1.234,5", "2.000,25", "7,5"], None, [1234.5, 2000.25, 7.5]),
        (["1,234.5", "2,000", "7.25"], None, [1234.5, 2000, 7.25]),
        (["1,234", "2,000", "9"], ",", [1.234, 2.0, 9]),
        (["1,234", "2,000", "9"], ".", [1234, 2000, 9]),
        (["1,5e3", "2", ",5"], None, [1500, 2, 0.5]),
    ],
)
def test_decimal_commas_and_grouped_thousands(cells, decimal, values, read):
    rows = "".join(f'"{cell}"\t{k % 2}\n' for k, cell in enumerate(cells))
    data = read("a\ty\n" + rows, Layout(decimal=decimal))
    np.testing.assert_array_equal(data.X[:, 0], values)


def test_commas_that_can_mean_two_things_are_asked_about(read):
    with pytest.raises(
        DataFileError, match=r"line 2, column 1 \('a'\): '1,234' can be read in two"
    ):
        read("a\ty\n1,234\t0\n2,345\t1\n")
    # Where semicolons separate, commas are decimal marks.
    assert read("a;y\n1,234;0\n2,345;1\n").X.tolist() == [[1.234], [2.345]]


@pytest.mark.parametrize("cell", ["", "NA", "NaN", "nan", "null", "?", "N/A", " ", '""', "."])
def test_missing_cells_are_nan_where_they_are_allowed(cell, read):
    text = f"a,b,y\n1,u,0\n{cell},{cell},1\n3,v,0\n"
    data = read(text)
    assert data.kinds == ["number", "category"]
    assert np.isnan(data.X[1, 0])
    assert np.isnan(data.X[1, 1])
    with pytest.raises(DataFileError, match=r"line 3, column 1 \('a'\): the value is missing"):
        read(f"a,y\n1,0\n{cell},1\n", Layout())


def test_own_marks_of_missing_values(read):
    data = read(
        "a,b,y\n-999,u,0\n2,none,1\n3,v,0\n",
        Layout(allow_missing=True, allow_text=True, missing=("-999", "none")),
    )
    assert np.isnan(data.X[0, 0])
    assert np.isnan(data.X[1, 1])


def test_rows_without_label_are_left_out_of_training_and_kept_for_prediction(read):
    text = "a,y\n1,u\n2,\n3,v\n"
    data = read(text)
    assert data.y.tolist() == ["u", "v"]
    assert data.X.ravel().tolist() == [1, 3]
    assert data.remarks == ("1 row has no label and is left out",)
    known = Layout(label="y", feature_names=["a"], n_features=1, kinds=["number"])
    assert read(text, known).y.tolist() == ["u", None, "v"]
    assert read("a,y\n1,\n2,\n", known).y is None
    with pytest.raises(DataFileError, match=r"line 3.*the label is missing"):
        read(text, Layout())


def people(n=30):
    rng = np.random.default_rng(0)
    rows = [",PersonId,name,town,joined,age,y"]
    for k in range(n):
        town = ("Oslo", "Bergen")[k % 2]
        rows.append(
            f'{k},{100 + k},"Doe, {k}",{town},2020-01-{k % 28 + 1:02d},{rng.random()},{k % 2}'
        )
    return "\n".join(rows)


def test_indices_ids_names_and_dates_are_left_out_and_told(read):
    data = read(people())
    assert data.feature_names == ["town", "age"]
    assert data.left_out == {
        "column 1": "numbers the rows",
        "PersonId": "is an id: all values differ",
        "name": "has 30 different texts in 30 rows: ids, free text?",
        "joined": "holds dates or times",
    }
    assert data.ids["PersonId"][:2] == [100, 101]
    assert data.ids["name"][:2] == ["Doe, 0", "Doe, 1"]


def test_what_is_left_out_can_be_kept(read):
    data = read(people(), Layout(allow_text=True, keep=("PersonId", "name")))
    assert data.feature_names == ["PersonId", "name", "town", "age"]


@pytest.mark.parametrize("index", [range(8), range(1, 9), [2, 5, 6, 9, 11, 20, 21, 40]])
def test_an_unnamed_index_is_no_feature_in_any_mode(index, read):
    rows = "".join(f"\n{i},{k * 0.5},{k % 2}" for k, i in enumerate(index))
    data = read(",a,y" + rows, Layout())
    assert data.feature_names == ["a"]
    assert data.left_out == {"column 1": "numbers the rows"}
    # A named one is a feature like any other.
    assert read("day,a,y" + rows, Layout()).feature_names == ["day", "a"]


def test_row_names_as_r_writes_them(read):
    data = read('"a" "y"\n"1" 0.5 "u"\n"2" 0.25 "v"\n')
    assert data.feature_names == ["a"]


def test_the_column_of_labels_is_known_by_a_usual_name(read):
    assert read("Class,a,b\nu,1,2\nv,3,4\n").label_name == "Class"
    assert read("a,b,kind\n1,2,u\n3,4,v\n").label_name == "kind"
    assert (
        read("y,a,label\n1,2,u\n3,4,v\n").label_name == "label"
    )  # two such names: the last column


@pytest.mark.parametrize(
    ("text", "has_names"),
    [
        ("p,x,s\ne,x,t\np,b,s\ne,x,t\n", False),
        ("kind,size,colour\nbig,x,red\nsmall,y,red\n", True),
        ("1,2,u\n3,4,v\n", False),
    ],
)
def test_a_first_row_that_looks_like_the_others_is_no_header(text, has_names, read):
    data = read(text)
    assert (data.feature_names is not None) == has_names


def test_one_bad_cell_of_a_column_of_numbers_is_an_error(read):
    rows = "".join(f"{k},{k % 2}\n" for k in range(20))
    with pytest.raises(
        DataFileError, match=r"line 22, column 1 \('a'\): 'x, or so' is not a number"
    ):
        read("a,y\n" + rows + '"x, or so",1\n')
    with pytest.raises(DataFileError, match=r"line 22.*'inf' is not finite"):
        read("a,y\n" + rows + "inf,1\n")
    with pytest.raises(DataFileError, match=r"line 22.*'1e999' is too large"):
        read("a,y\n" + rows + "1e999,1\n")


def test_a_date_is_called_a_date(read):
    with pytest.raises(DataFileError, match=r"line 2, column 1 \('a'\): '2024-03-01' is a date"):
        read("a,y\n2024-03-01,0\n2024-03-02,1\n", Layout())


def test_a_model_decides_what_columns_are(read):
    known = Layout(
        label="y",
        feature_names=["code", "size"],
        n_features=2,
        kinds=["category", "number"],
        allow_missing=True,
        allow_text=True,
    )
    data = read("size;code\n1,5;01\n?;new\n", known)
    assert data.X[:, 0].tolist() == ["01", "new"]
    assert data.X[0, 1] == 1.5
    assert np.isnan(data.X[1, 1])
    with pytest.raises(
        DataFileError, match=r"line 2.*'big' is not a number, which the model needs"
    ):
        read("size,code\nbig,01\n3,02\n", known)
    with pytest.raises(DataFileError, match="no column 'code', which the model needs"):
        read("size,y\n1,2\n", known)


def test_ids_are_returned_as_written(read):
    layout = Layout(feature_names=["a"], n_features=1, kinds=["number"], ids=("id", "a"))
    data = read("id,a\n007,1.50\n,2\n", layout)
    assert data.ids == {"id": ["007", ""], "a": ["1.50", "2"]}
    with pytest.raises(DataFileError, match="no column 'key' for --ids"):
        read("id,a\n1,2\n", Layout(feature_names=["a"], n_features=1, ids=("key",)))


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252", "utf-8-sig"])
def test_other_encodings(encoding, read):
    data = read("größe,ort,y\n1,Köln,0\n2,Zürich,1\n3,Köln,0\n".encode(encoding))
    assert data.feature_names == ["größe", "ort"]
    assert data.X[0, 1] == "Köln"
    assert bool(data.remarks) == (encoding == "cp1252")


def test_line_ends_in_a_quoted_header_are_counted(read):
    with pytest.raises(DataFileError, match=r"line 4"):
        read('"a\nb",y\n1,0\nx,1\n', Layout())


def test_times_of_day_are_no_svmlight(read):
    data = read("when\ta\ty\n10:30\t1\t0\n11:45\t2\t1\n")
    assert data.format == "csv"
    assert data.left_out == {"when": "holds dates or times"}


def test_parquet_follows_the_same_rules(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "id": np.arange(10) + 5,
            "a": [1.5, None, *range(8)],
            "town": ["Oslo", "Bergen", None, *["Oslo"] * 7],
            "when": pd.date_range("2020-01-01", periods=10),
            "y": ["u", "v"] * 5,
        }
    )
    frame.to_parquet(tmp_path / "data")
    data = read_data(tmp_path / "data", layout=ORDINARY)
    assert data.feature_names == ["a", "town"]
    assert set(data.left_out) == {"id", "when"}
    assert np.isnan(data.X[1, 0])
    assert np.isnan(data.X[2, 1])
    with pytest.raises(DataFileError, match="the value is missing"):
        read_data(tmp_path / "data", layout=Layout(drop=("town", "when")))
