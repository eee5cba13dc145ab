"""Files of one run do not overwrite each other, and have the content that their names promise."""

import gzip
import io
import json
import sys

import numpy as np
import pandas as pd
import pytest

from optimargin import ODMClassifier
from optimargin.io import load_model, read_data, save_model, write_data

OVERWRITING = {
    "scaled data and the scaling": "scale d.csv o.csv -s o.csv",
    "the same by another way": "scale d.csv o.csv -s ./folder/../o.csv",
    "a scaling and itself": "scale d.csv o.csv -r s.skops -s s.skops",
    "a plot and the data": "train d.png m2 --save-plot d.png",
    "a plot and the model": "train d.csv p.png --save-plot p.png",
    "a plot and a model to inspect": "inspect m.png --data d.csv --save-plot m.png",
    "a plot and the data to inspect": "inspect m.png --data d.png --save-plot d.png",
    "a plot and another model": "train d.csv m2 --save-plot m.png",
    "results and the test data": "auto d.csv --out r --test r/predictions.csv",
    "results and the data": "auto r/held_out.csv --out r",
    "an export and the store": "study export s.sqlite --store s.sqlite",
}


@pytest.fixture
def folder(run, tmp_path, monkeypatch):
    """A folder with data, a model, a scaling and results, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = [f"{k % 2 + rng.normal():.3f},{k % 3},{'pn'[k % 2]}\n" for k in range(30)]
    for name in ("d.csv", "d.png", "r/predictions.csv", "r/held_out.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a,b,y\n" + "".join(rows))
    (tmp_path / "folder").mkdir()
    assert run("train", "d.csv", "m.png", "-q")[0] == 0
    (tmp_path / "r/model.skops").write_bytes((tmp_path / "m.png").read_bytes())
    assert run("scale", "d.csv", "scaled.csv", "-s", "s.skops", "-q")[0] == 0
    (tmp_path / "s.sqlite").write_bytes(b"")
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("what", OVERWRITING)
def test_no_file_of_a_run_overwrites_another(what, run, folder):
    before = contents(folder)
    code, out, err = run(*OVERWRITING[what].split())
    assert (code, out) == (2, "")
    assert "choose another name" in err
    assert contents(folder) == before


def test_a_dash_is_a_stream_and_never_a_file(run, folder, monkeypatch):
    for command in (
        "train d.csv -",
        "predict d.csv - o",
        "inspect -",
        "scale d.csv o -s -",
        "scale d.csv o -r -",
        "train d.csv m2 --save-plot -",
    ):
        code, _, err = run(*command.split())
        assert code == 2, command
        assert "./- is a file of that name" in err
    (folder / "-").write_bytes((folder / "m.png").read_bytes())  # stands in nobody's way
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((folder / "d.csv").read_bytes())))
    code, out, err = run("predict", "-", "m.png", "-")
    assert code == 0, err
    assert len(out.splitlines()) == 30
    assert (folder / "-").read_bytes() == (folder / "m.png").read_bytes()


def test_a_file_called_dash_is_named_by_its_folder(run, folder):
    (folder / "-").write_bytes((folder / "d.csv").read_bytes())
    assert run("train", "./-", "m2", "-q")[0] == 0
    (folder / "-").unlink()
    assert run("train", "d.csv", "./-", "-q")[0] == 0
    assert run("predict", "d.csv", "./-", "o", "-q")[0] == 0
    assert len((folder / "o").read_text().splitlines()) == 30


def test_parquet_is_compressed_and_streamed_like_any_format(run, folder, monkeypatch):
    pytest.importorskip("pyarrow")
    pd.read_csv("d.csv").to_parquet("d.parquet")
    assert run("scale", "d.parquet", "o.parquet", "-q")[0] == 0
    assert run("scale", "d.parquet", "o.parquet.gz", "-q")[0] == 0
    plain = (folder / "o.parquet").read_bytes()
    assert gzip.decompress((folder / "o.parquet.gz").read_bytes()) == plain
    np.testing.assert_array_equal(read_data("o.parquet.gz").X, read_data("o.parquet").X)
    stream = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(stream))
    write_data(read_data("o.parquet"), "-")
    assert stream.getvalue() == plain
    assert not (folder / "-").exists()


NOTES = [
    {"estimated_accuracy": 0.9},
    {"estimated_accuracy": "good", "estimated_by": 3, "n_samples": {}},
    {"training_accuracy": None, "training_rmse": [1]},
    {"offset": 1.0},
    {"margin_mean": 1},
    {"share_below_band": "x", "margins_of": 3, "n_samples": 3, "training_accuracy": 0.3},
    {"name": 1, "text": 2, "self": 3, "n_samples": 4},
]


@pytest.mark.parametrize("notes", NOTES)
def test_a_model_with_odd_notes_is_shown(notes, run, tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2))
    save_model(ODMClassifier().fit(X, X[:, 0] > 0), tmp_path / "m", notes=notes)
    for options in ([], ["--json"]):
        code, out, err = run("inspect", tmp_path / "m", *options)
        assert code == 0, err
    assert json.loads(out)["estimator"] == "ODMClassifier"


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (3, "must be a mapping"),
        ({"drop": 5}, "drop must be a list of text; got 5"),
        ({"feature_names": ["a", 2]}, "feature_names must be a list of text"),
        ({"n_features": "2"}, "n_features must not be '2'"),
        ({"feature_names": ["a"], "n_features": 2}, "different numbers"),
        ({"labels": "soup"}, "labels must be one of"),
        ({"later": 1}, "unexpected keyword argument 'later'"),
    ],
)
def test_notes_that_do_not_say_how_to_read_are_an_error(layout, message, run, folder):
    X = np.random.default_rng(0).normal(size=(30, 2))
    save_model(ODMClassifier().fit(X, X[:, 0] > 0), "m", notes={"layout": layout})
    for command in ("predict d.csv m o", "inspect m --data d.csv"):
        code, _, err = run(*command.split())
        assert code == 1
        assert "the notes of m do not say how to read its data" in err
        assert message in err
    assert load_model("m").n_features_in_ == 2
