"""Model files give back the model, and nothing but a model."""

import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from itertools import product

import joblib
import numpy as np
import pytest
import skops.io
from scipy.sparse import csr_matrix
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import optimargin
from optimargin import LinearODMClassifier, LinearODMRegressor, ODMClassifier, OneClassODM
from optimargin.io import (
    ModelFileError,
    load_model,
    read_model_header,
    save_model,
    write_atomically,
)
from optimargin.io._models import FORMAT

ESTIMATORS = sorted(
    name for name in optimargin.__all__ if name.endswith(("Classifier", "ClassifierCV"))
)


def problem(n_classes, kind):
    X, y = make_classification(
        60, 6, n_informative=4, n_classes=n_classes, random_state=0, class_sep=0.7
    )
    y = np.array(["ant", "bee", "cicada"])[y]
    return (csr_matrix(np.where(np.abs(X) > 0.7, X, 0)) if kind == "sparse" else X), y


def make(name):
    options = {"max_evals": 2} if name.endswith("CV") else {}
    return getattr(optimargin, name)(**options, **({"cv": 2} if "LDMClassifierCV" in name else {}))


@pytest.mark.quick
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_round_trip_is_bit_identical(name, kind, n_classes, tmp_path):
    X, y = problem(n_classes, kind)
    model = make(name).fit(X, y)
    save_model(model, tmp_path / "model")
    for copy in (load_model(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))
        assert copy.get_params() == model.get_params()


def test_another_process_gives_the_same_bits(tmp_path):
    code = """if True:
        import sys, joblib
        from pathlib import Path
        from optimargin.io import load_model
        folder = Path(sys.argv[1])
        samples = joblib.load(folder / "samples")
        models = {path.stem: load_model(path) for path in folder.glob("*.skops")}
        scores = {
            key: (model.decision_function(samples[key]), model.predict(samples[key]))
            for key, model in models.items()
        }
        joblib.dump(scores, folder / "scores")
    """
    models, samples = {}, {}
    for name, (kind, n_classes) in product(ESTIMATORS, [("dense", 3), ("sparse", 2)]):
        X, y = problem(n_classes, kind)
        key = f"{name}-{kind}-{n_classes}"
        models[key], samples[key] = make(name).fit(X, y), X
        save_model(models[key], tmp_path / f"{key}.skops")
    joblib.dump(samples, tmp_path / "samples")
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    scores = joblib.load(tmp_path / "scores")
    assert len(scores) == 2 * len(ESTIMATORS)
    for key, model in models.items():
        np.testing.assert_array_equal(scores[key][0], model.decision_function(samples[key]))
        np.testing.assert_array_equal(scores[key][1], model.predict(samples[key]))


def test_pipelines_and_joblib(tmp_path):
    X, y = problem(2, "dense")
    model = make_pipeline(StandardScaler(), ODMClassifier(class_weight={"ant": 2.0})).fit(X, y)
    save_model(model, tmp_path / "model")
    joblib.dump(model, tmp_path / "model.joblib")
    for copy in (load_model(tmp_path / "model"), joblib.load(tmp_path / "model.joblib")):
        np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))


def test_header_tells_versions_parameters_and_notes(tmp_path):
    X, y = problem(2, "dense")
    save_model(ODMClassifier(C1=np.float64(8)).fit(X, y), tmp_path / "m", notes={"who": "me"})
    header = read_model_header(tmp_path / "m")
    assert header["optimargin"] == optimargin.__version__
    assert header["estimator"] == "ODMClassifier"
    assert header["parameters"]["C1"] == 8
    assert header["notes"] == {"who": "me"}


def test_training_data_are_not_saved(tmp_path):
    X, y = problem(2, "dense")
    save_model(LinearODMClassifier().fit(X, y), tmp_path / "m")
    with pytest.raises(ValueError, match="without its training data"):
        load_model(tmp_path / "m").loo_decision_function()


def own_kernel(X, Y):
    return X @ Y.T


def shout(X):
    os.environ["OPTIMARGIN_PWNED"] = "1"
    return X


def test_code_is_not_saved(tmp_path):
    X, y = problem(2, "dense")
    with pytest.raises(ModelFileError, match="own_kernel"):
        save_model(ODMClassifier(kernel=own_kernel).fit(X, y), tmp_path / "m")
    model = make_pipeline(FunctionTransformer(shout), LinearODMClassifier()).fit(X, y)
    with pytest.raises(ModelFileError, match="shout"):
        save_model(model, tmp_path / "m")
    with pytest.raises(ModelFileError, match="Only fitted"):
        save_model(ODMClassifier(), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def craft(path, estimator, header=True):
    """Write a model file by hand, as an attacker would."""
    skops.io.dump(estimator, path)
    if header:
        about = {
            "format": FORMAT,
            "optimargin": "1",
            "estimator": "X",
            "parameters": {},
            "notes": {},
        }
        with zipfile.ZipFile(path, "a") as file:
            file.writestr("optimargin.json", json.dumps(about))


def test_malicious_file_is_refused_and_never_run(tmp_path, monkeypatch):
    monkeypatch.delenv("OPTIMARGIN_PWNED", raising=False)
    path = tmp_path / "evil"
    craft(path, make_pipeline(FunctionTransformer(shout)))
    with pytest.raises(ModelFileError, match=r"refused: it asks for .*shout"):
        load_model(path)
    craft(path, make_pipeline(FunctionTransformer(os.system)))
    with pytest.raises(ModelFileError, match=r"refused: it asks for .*system"):
        load_model(path)
    assert "OPTIMARGIN_PWNED" not in os.environ


def test_pickle_is_refused(tmp_path):
    path = tmp_path / "pickle"
    path.write_bytes(pickle.dumps(LogisticRegression()))
    with pytest.raises(ModelFileError, match="no model file"):
        load_model(path)


def test_compressed_entries_are_refused(tmp_path):
    path = tmp_path / "bomb"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("schema.json", b"0" * 1_000_000)
        file.writestr("optimargin.json", b"{}")
    with pytest.raises(ModelFileError, match="compressed"):
        load_model(path)


@pytest.fixture
def saved(tmp_path):
    X, y = problem(2, "sparse")
    save_model(ODMClassifier().fit(X, y), tmp_path / "m")
    return tmp_path / "m"


def test_truncated_and_damaged_files_are_refused(saved):
    whole = saved.read_bytes()
    rng = np.random.default_rng(0)
    for stop in [0, 1, 100, len(whole) // 2, len(whole) - 1]:
        saved.write_bytes(whole[:stop])
        with pytest.raises(ModelFileError, match="cut short"):
            load_model(saved)
    n_refused = 0
    for _ in range(40):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        saved.write_bytes(damaged)
        try:
            load_model(saved)
        except ModelFileError:
            n_refused += 1
    assert n_refused > 20


def rewrite(path, **changes):
    with zipfile.ZipFile(path) as file:
        entries = {name: file.read(name) for name in file.namelist()}
    header = json.loads(entries["optimargin.json"]) | changes
    entries["optimargin.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, content in entries.items():
            file.writestr(name, content)


def test_newer_format_asks_for_an_upgrade(saved):
    rewrite(saved, format=99, optimargin="7.0")
    with pytest.raises(ModelFileError, match=r"written by optimargin 7\.0 .* upgrade"):
        load_model(saved)
    rewrite(saved, format="soup")
    with pytest.raises(ModelFileError, match="damaged"):
        load_model(saved)


def test_file_without_header_is_refused(tmp_path):
    X, y = problem(2, "dense")
    craft(tmp_path / "m", LogisticRegression().fit(X, y), header=False)
    with pytest.raises(ModelFileError, match="not written by optimargin"):
        load_model(tmp_path / "m")


def test_parts_that_do_not_fit_are_refused(tmp_path):
    X, y = problem(2, "sparse")
    model = ODMClassifier().fit(X, y)
    model.dual_coef_ = model.dual_coef_[:, :-1]
    save_model(model, tmp_path / "m")
    with pytest.raises(ModelFileError, match="dual_coef_ has shape"):
        load_model(tmp_path / "m")
    model = ODMClassifier().fit(X, y)
    model.support_vectors_.indices[0] = 1_000_000  # would be read out of bounds
    save_model(model, tmp_path / "m")
    with pytest.raises(ModelFileError, match="damaged"):
        load_model(tmp_path / "m")
    model = LinearODMClassifier().fit(X, y)
    model.coef_[0, 0] = np.nan
    save_model(model, tmp_path / "m")
    with pytest.raises(ModelFileError, match="not finite"):
        load_model(tmp_path / "m")


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def interrupted():
        with write_atomically(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_writing_to_a_folder_or_nowhere_is_refused(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder"), write_atomically(tmp_path):
        pass
    with pytest.raises(FileNotFoundError, match="create it"), write_atomically(tmp_path / "a/b"):
        pass


REGRESSORS = sorted(
    name for name in optimargin.__all__ if name.endswith(("Regressor", "RegressorCV"))
)


@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("name", REGRESSORS)
def test_a_loaded_regressor_is_the_saved_one(name, kind, n_targets, tmp_path):
    X, _ = problem(2, kind)
    rows = X.toarray() if kind == "sparse" else X
    y = np.column_stack([rows[:, 0] ** 2, 1e3 * rows[:, 1]])[:, :n_targets]
    model = make(name).fit(X, y)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    inner = getattr(loaded, "best_estimator_", loaded)
    np.testing.assert_allclose(inner.loo_prediction(X, y), model.loo_prediction(), rtol=1e-9)


def test_parts_of_a_regressor_that_do_not_fit_together_are_refused(tmp_path):
    X, _ = problem(2, "dense")
    model = LinearODMRegressor().fit(X, X[:, 0])
    model.coef_ = model.coef_[:, :-1]
    save_model(model, tmp_path / "model")
    with pytest.raises(ModelFileError, match="coef_ has shape"):
        load_model(tmp_path / "model")


def rewritten(path, change):
    """Write a model file again with its entries changed, and return its path."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return path


def test_odd_names_and_too_many_entries_are_refused(tmp_path):
    X, y = problem(2, "dense")
    model = LinearODMClassifier().fit(X, y)
    for name in ("../outside.npy", "/etc/outside", "folder/inside.npy"):
        save_model(model, tmp_path / "model")
        path = rewritten(tmp_path / "model", lambda parts, name=name: parts.update({name: b"x"}))
        with pytest.raises(ModelFileError, match="odd or equal names"):
            load_model(path)
    many = {f"{k}.npy": b"x" for k in range(10_001)}
    with pytest.raises(ModelFileError, match="entries"):
        load_model(rewritten(path, lambda parts: parts.update(many)))


def test_a_matrix_that_expands_is_refused(tmp_path):
    X, y = problem(2, "sparse")
    save_model(ODMClassifier().fit(X, y), tmp_path / "model")
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", bytes(200_000_000))

    def change(parts):
        name = next(name for name in parts if name.endswith(".npz"))
        parts[name] = bomb.getvalue()

    with pytest.raises(ModelFileError, match="expands to 200 MB"):
        load_model(rewritten(tmp_path / "model", change))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("support_", lambda a: a[::-1], "out of order"),
        ("support_", lambda a: a - 100, "out of range"),
        ("support_", lambda a: a.astype(float), "not an array of indices"),
        ("dual_coef_", lambda a: a.astype(complex), "type complex"),
        ("dual_coef_", lambda a: a[:, :-1], "instead of"),
        ("classes_", lambda a: a[::-1], "not sorted"),
        ("classes_", lambda a: a[:1], "at least two"),
        ("_kernel", lambda k: type(k)(float("nan")), "not finite numbers"),
        ("n_features_in_", lambda n: 2.5, "number of features"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(name, change, words, tmp_path):
    X, y = problem(2, "dense")
    model = ODMClassifier().fit(X, y)
    vars(model)[name] = change(vars(model)[name])
    save_model(model, tmp_path / "model")
    with pytest.raises(ModelFileError, match=words):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "value"), [("total", [1e308]), ("total", [0.0]), ("shares", None), ("shares", -1.0)]
)
def test_counts_that_are_none_are_refused(name, value, tmp_path):
    model = OneClassODM().fit(problem(2, "dense")[0])
    kept = model._reference[name]
    model._reference[name] = 2 * kept if value is None else np.full(kept.shape, value)
    save_model(model, tmp_path / "model")
    with pytest.raises(ModelFileError, match="counts of the reference"):
        load_model(tmp_path / "model")
