"""Models of tables find their columns by name, in files and in Python."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from optimargin import LinearODMClassifier
from optimargin.io import load_model, save_model

PREPARED = {
    "select": ("select", "--max-evals", "4"),
    "train": ("train", "--encode", "onehot", "--impute", "mean", "--scale", "unit"),
    "auto": ("auto", "--linear", "--out"),
    "numbers alone": ("train", "--drop", "kind", "--scale", "standard"),
}


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    kind = np.where(rng.random(80) < 0.3, "x", "z")
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=kind)
    target = np.where(X[:, 0] - 3 * X[:, 1] + (kind == "x") > 0, "yes", "no")
    frame.assign(target=target).to_csv(tmp_path / "t.csv", index=False)
    return frame, target


@pytest.fixture(params=PREPARED)
def model(request, run, table, tmp_path):
    command, *options = PREPARED[request.param]
    path = tmp_path / "r" / "model.skops" if command == "auto" else tmp_path / "m"
    where = [tmp_path / "r"] if command == "auto" else []
    model = [] if command == "auto" else [path]
    code, _, err = run(command, tmp_path / "t.csv", *model, *options, *where, "-q")
    assert code == 0, err
    return load_model(path)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


@pytest.mark.parametrize("library", [lambda frame: frame, pl.from_pandas], ids=["pandas", "polars"])
def test_columns_of_a_frame_are_found_in_any_order_and_among_others(model, library, table):
    frame = table[0]
    names = model.feature_names_in_.tolist()
    assert names == list(frame.columns[: len(names)])
    expected = model.decision_function(frame[names].to_numpy())
    mixed = frame[names[::-1]].assign(other="?")
    np.testing.assert_array_equal(model.decision_function(library(frame)), expected)
    np.testing.assert_array_equal(model.decision_function(library(mixed)), expected)
    with pytest.raises(ValueError, match=r"columns are missing: \{'b'\}"):
        model.predict(library(frame.drop(columns="b")))


def test_the_command_finds_them_too(run, model, table, tmp_path):
    frame, _ = table
    save_model(model, tmp_path / "copy")
    frame[frame.columns[::-1]].assign(other="?").to_csv(tmp_path / "new.csv", index=False)
    path = tmp_path / ("r/model.skops" if (tmp_path / "r").exists() else "m")
    code, out, err = run("predict", tmp_path / "new.csv", path, "-")
    assert code == 0, err
    assert out.split() == model.predict(frame).tolist()
    assert "FunctionTransformer" not in run("inspect", path)[1]


def test_an_estimator_alone_refuses_other_columns_by_name(run, table, tmp_path):
    frame, target = table
    assert run("train", tmp_path / "t.csv", tmp_path / "m", "--drop", "kind")[2] == ""
    model, frame = load_model(tmp_path / "m"), frame[["a", "b", "c"]]
    assert (model.predict(frame) == target).mean() > 0.8
    for other in (frame[["b", "a", "c"]], frame[["a", "b"]], frame.assign(other=1)):
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(other)
    frame[["c", "b", "a"]].to_csv(tmp_path / "new.csv", index=False)
    code, out, err = run("predict", tmp_path / "new.csv", tmp_path / "m", "-")
    assert code == 0
    assert "warning" not in err
    assert out.split() == model.predict(frame).tolist()


def test_the_command_finds_columns_of_models_made_in_python(run, table, tmp_path):
    frame, target = table
    frame = frame[["a", "b", "c"]]
    model = LinearODMClassifier().fit(frame, target)
    save_model(model, tmp_path / "m")
    frame[["c", "a", "b"]].to_csv(tmp_path / "new.csv", index=False)
    code, out, err = run("predict", tmp_path / "new.csv", tmp_path / "m", "-")
    assert code == 0
    assert "warning" not in err
    assert out.split() == model.predict(frame).tolist()
    frame[["c", "a"]].to_csv(tmp_path / "new.csv", index=False)
    code, _, err = run("predict", tmp_path / "new.csv", tmp_path / "m", "-")
    assert code == 1
    assert "no column 'b', which the model needs" in err


def test_a_table_without_names_makes_a_model_without_names(run, table, tmp_path):
    lines = (tmp_path / "t.csv").read_text().splitlines()[1:]
    (tmp_path / "bare.csv").write_text("\n".join(lines))
    assert run("select", tmp_path / "bare.csv", tmp_path / "m", "--max-evals", "4", "-q")[0] == 0
    model = load_model(tmp_path / "m")
    assert not hasattr(model, "feature_names_in_")
    model.predict(table[0].to_numpy())


def test_a_pipeline_of_the_command_becomes_a_graph(run, table, tmp_path):
    onnx = pytest.importorskip("optimargin.onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    run("train", tmp_path / "t.csv", tmp_path / "m", "--drop", "kind", "--scale", "standard", "-q")
    model, X = load_model(tmp_path / "m"), table[0][["a", "b", "c"]].to_numpy()
    graph = onnxruntime.InferenceSession(onnx.to_onnx(model).SerializeToString())
    labels, scores = graph.run(None, {"X": X.astype(np.float32)})
    np.testing.assert_array_equal(labels, model.predict(X))
    np.testing.assert_allclose(scores.ravel(), model.decision_function(X), atol=1e-4)
