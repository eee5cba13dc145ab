"""The registry, the recipes against a mirror's files, and what happens when data are missing."""

import functools
import hashlib
import http.server
import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from optimargin_study.datasets import (
    CorruptDatasetError,
    DatasetUnavailableError,
    find_set,
    list_paper_datasets,
    load_paper_dataset,
)
from optimargin_study.datasets._load import _numbers
from optimargin_study.datasets._readers import read_table
from optimargin_study.datasets._recipes import RECIPES
from optimargin_study.datasets._registry import registry
from tests.regular_sets import FOLDER
from tests.regular_sets import needed as needs_mirror

pytestmark = pytest.mark.quick

ORIGINALS = {
    "australian": "full/credit-a",
    "breast": "full/breast-cancer",
    "german": "credit-g",
    "house": "full/vote",
    "house-votes": "full/vote",
    "vehicle": "vehicle",
}


@pytest.fixture
def mirror(monkeypatch):
    monkeypatch.setenv("OPTIMARGIN_DATA", str(FOLDER))


@pytest.fixture
def no_mirror(monkeypatch, tmp_path):
    monkeypatch.delenv("OPTIMARGIN_DATA", raising=False)
    monkeypatch.setenv("OPTIMARGIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_registry_has_the_sets_of_table_1():
    assert len(list_paper_datasets()) == 42
    assert len(list_paper_datasets("regular")) == 32
    assert len(list_paper_datasets("large")) == 10
    assert all(s.licence and (s.urls or s.page) for s in registry().values())


def test_alias_names_the_same_set():
    assert find_set("kdda2010") is find_set("kdd2010")


def test_unknown_set_is_refused_with_similar_names():
    with pytest.raises(ValueError, match="did you mean german"):
        load_paper_dataset("germann")
    with pytest.raises(TypeError, match="must be a string"):
        load_paper_dataset(3)
    with pytest.raises(ValueError, match="scale='small'"):
        list_paper_datasets("small")


def test_wdbc_needs_neither_mirror_nor_network(no_mirror):
    dataset = load_paper_dataset("wdbc")
    assert dataset.data.shape == (569, 30)
    assert set(dataset.target) == {"benign", "malignant"}


@needs_mirror
@pytest.mark.parametrize("name", list_paper_datasets("regular"))
def test_regular_set_of_the_mirror_has_the_registered_form(name, mirror):
    X, y = load_paper_dataset(name, return_X_y=True)
    assert X.shape == find_set(name).expected_shape
    assert np.isfinite(X).all()
    assert np.unique(y).size == 2


def test_categories_are_numbered_as_registered_else_in_natural_order():
    categories = find_set("credit-g").categories
    frame = pd.DataFrame(
        {
            "employment": ["<1", ">=7", "unemployed", "1<=X<4"],
            "age": ["10-14", "5-9", "5-9", "20-24"],
            "class": ["good", "bad", "good", "bad"],
        }
    )
    X, _, names = _numbers(frame, categories)
    assert names == ["employment", "age"]
    assert_array_equal(X, [[1, 1], [4, 0], [0, 0], [2, 2]])


def test_recipes_code_votes_and_categories():
    votes = pd.DataFrame({"a": ["y", "n", None], "b": ["n", "y", "y"], "party": ["r", "d", "d"]})
    assert RECIPES["house"](votes).to_numpy().tolist() == [[1.0, 0.0, "r"], [0.0, 1.0, "d"]]
    assert RECIPES["house-votes"](votes)["a"].tolist() == [0.5, 0.0, 1.0]
    vehicles = pd.DataFrame({"length": [1, 2, 3], "kind": ["bus", "van", "saab"]})
    assert RECIPES["vehicle"](vehicles)["kind"].tolist() == ["bus", "saab"]
    year = "Patients_year_of_operation"
    patients = pd.DataFrame({year: [58, 59, None], "age": [30.0, 50.0, None], "class": [1, 2, 1]})
    coded = RECIPES["haberman"](patients)
    assert coded.columns.tolist() == [f"{year}_58.0", f"{year}_59.0", "age", "class"]
    assert coded.iloc[2].tolist() == [1, 0, 0.5, 1]


@needs_mirror
@pytest.mark.parametrize("name", sorted(RECIPES))
def test_recipe_turns_the_original_into_the_form_of_the_mirror(name):
    ours = RECIPES[name](read_table(FOLDER / f"{ORIGINALS.get(name, f'full/{name}')}.csv"))
    theirs = read_table(FOLDER / f"{name}.csv")
    assert ours.shape == theirs.shape
    assert_array_equal(
        pd.factorize(ours.iloc[:, -1])[0], pd.factorize(theirs.iloc[:, -1])[0], "classes"
    )
    if list(ours.columns) == list(theirs.columns):
        pd.testing.assert_frame_equal(ours, theirs, check_dtype=False)
        return
    # The mirror's encoded files number their columns: each has a twin among ours, and back.
    A, B = (frame.iloc[:, :-1].to_numpy(float) for frame in (ours, theirs))
    distance = np.abs(A[:, :, None] - B[:, None, :]).max(axis=0)
    assert distance.min(axis=0).max() < 1e-6
    assert distance.min(axis=1).max() < 1e-6


def write_mirror(folder, name, text, sha256=None):
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.csv").write_text(text)
    sha256 = sha256 or hashlib.sha256(text.encode()).hexdigest()
    entry = {"name": name, "group": "paper", "file": f"{name}.csv", "sha256": sha256}
    (folder / "manifest.json").write_text(json.dumps({"sets": [entry]}))


def test_corrupt_file_of_a_mirror_is_refused(tmp_path, monkeypatch):
    write_mirror(tmp_path / "m", "fourclass", "a,b,class\n1,2,x\n", sha256="0" * 64)
    monkeypatch.setenv("OPTIMARGIN_DATA", str(tmp_path / "m"))
    with pytest.raises(CorruptDatasetError, match=r"fourclass\.csv is corrupt: its sha256"):
        load_paper_dataset("fourclass")


def test_file_of_another_form_is_refused(tmp_path, monkeypatch):
    write_mirror(tmp_path / "m", "fourclass", "a,b,class\n1,2,x\n3,4,y\n")
    monkeypatch.setenv("OPTIMARGIN_DATA", str(tmp_path / "m"))
    with pytest.raises(CorruptDatasetError, match=r"\(2, 2, \(1, 1\)\), expected \(862, 2"):
        load_paper_dataset("fourclass")


def test_broken_manifest_missing_file_and_missing_manifest_are_explained(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMARGIN_DATA", str(tmp_path))
    with pytest.raises(DatasetUnavailableError, match=r"holds no manifest\.json"):
        load_paper_dataset("sonar")
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(CorruptDatasetError, match="cannot be read"):
        load_paper_dataset("sonar")
    write_mirror(tmp_path, "sonar", "")
    (tmp_path / "sonar.csv").unlink()
    with pytest.raises(DatasetUnavailableError, match=r"sonar\.csv is missing"):
        load_paper_dataset("sonar")


def test_set_that_no_program_can_fetch_says_where_a_person_finds_it(no_mirror):
    with pytest.raises(DatasetUnavailableError, match=r"Get it from https://archive.*dataset/54"):
        load_paper_dataset("isolet")


@pytest.fixture
def server(tmp_path):
    """A web server on this machine that stands for the publishers."""
    folder = tmp_path / "www"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()


def use_url(monkeypatch, name, url):
    from dataclasses import replace

    monkeypatch.setitem(registry(), name, replace(find_set(name), urls=(url,)))


def test_failed_download_says_what_is_missing_and_where_it_goes(no_mirror, server, monkeypatch):
    pytest.importorskip("pooch")
    use_url(monkeypatch, "sonar", f"{server[1]}/sonar.arff")
    with pytest.raises(DatasetUnavailableError, match="the download failed") as caught:
        load_paper_dataset("sonar")
    assert str(no_mirror / "sonar") in str(caught.value)
    assert "sonar.arff" in str(caught.value)


@needs_mirror
def test_download_is_read_by_its_recipe_and_found_in_the_cache_again(
    no_mirror, server, monkeypatch
):
    pytest.importorskip("pooch")
    folder, address = server
    frame = read_table(FOLDER / "full" / "hepatitis.csv")
    lines = ["@relation hepatitis"]
    for column in frame.columns:
        if pd.api.types.is_numeric_dtype(frame[column]):
            lines.append(f"@attribute {column} numeric")
        else:
            values = ",".join(sorted(frame[column].dropna().unique()))
            lines.append(f"@attribute {column} {{{values}}}")
    rows = frame.astype(object).where(frame.notna(), "?").astype(str)
    lines += ["@data", *(",".join(row) for row in rows.to_numpy())]
    (folder / "hepatitis.arff").write_text("\n".join(lines))
    use_url(monkeypatch, "hepatitis", f"{address}/hepatitis.arff")
    X, y = load_paper_dataset("hepatitis", return_X_y=True)
    (folder / "hepatitis.arff").unlink()
    again, _ = load_paper_dataset("hepatitis", return_X_y=True)
    assert_array_equal(X, again)
    monkeypatch.setenv("OPTIMARGIN_DATA", str(FOLDER))
    expected, y_expected = load_paper_dataset("hepatitis", return_X_y=True)
    assert_allclose(X, expected)
    assert_array_equal(y, y_expected)


def test_download_of_something_else_is_refused(no_mirror, server, monkeypatch):
    pytest.importorskip("pooch")
    folder, address = server
    (folder / "sonar.arff").write_text("<html>moved</html>")
    use_url(monkeypatch, "sonar", f"{address}/sonar.arff")
    with pytest.raises(CorruptDatasetError, match=r"sonar\.arff: not the files"):
        load_paper_dataset("sonar")


def test_sparse_originals_are_stacked(no_mirror, server, monkeypatch):
    pytest.importorskip("pooch")
    folder, address = server
    rows = ["+1 1:0.5 2:1"] * 307 + ["-1 2:0.25"] * 555
    (folder / "fourclass").write_text("\n".join(rows))
    use_url(monkeypatch, "fourclass", f"{address}/fourclass")
    X, y = load_paper_dataset("fourclass", return_X_y=True)
    assert X.shape == (862, 2)
    assert (y == "1").sum() == 307
    shutil.rmtree(Path(no_mirror))
