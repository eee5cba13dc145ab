"""The command does what the library does, and says what went wrong where."""

import io
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris

from optimargin import LDMClassifier, LinearODMClassifier, ODMClassifier
from optimargin.io import load_model, read_model_header, save_model
from tests.io.mutations import SVMLIGHT, TABLE, mutate

pytestmark = pytest.mark.quick


@pytest.fixture
def flowers(tmp_path):
    """A table of two kinds of iris, overlapping."""
    iris = load_iris()
    rows = [",".join(["sepal", "width", "petal", "breadth", "kind"])]
    for x, t in zip(iris.data[50:], iris.target[50:], strict=True):
        rows.append(",".join([*map(repr, x.tolist()), iris.target_names[t]]))
    path = tmp_path / "flowers.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def sparse(tmp_path):
    path = tmp_path / "sparse.svm"
    rng = np.random.default_rng(0)
    lines = []
    for k in range(60):
        features = np.sort(rng.choice(40, 5, replace=False)) + 1
        lines.append(
            f"{(-1) ** k} " + " ".join(f"{j}:{rng.normal() + (j + k) % 2:.3f}" for j in features)
        )
    path.write_text("\n".join(lines))
    return path


def data_of(flowers):
    table = np.genfromtxt(flowers, delimiter=",", skip_header=1, dtype=str)
    return table[:, :-1].astype(float), table[:, -1]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ODMClassifier()),
        (["--linear", "-c", "8", "--C2", "2", "--D", "0.1"], LinearODMClassifier(8, 2, 0.1)),
        (["--ldm", "-c", "9", "--lambda1", "2", "--lambda2", "0.5"], LDMClassifier(9, 2, 0.5)),
        (
            ["-t", "1", "-d", "2", "-r", "1", "-g", "0.5"],
            ODMClassifier(kernel="poly", degree=2, coef0=1, gamma=0.5),
        ),
        (
            [
                "-t",
                "2",
                "-g",
                "mean_distance",
                "-e",
                "1e-9",
                "--no-intercept",
                "--solver",
                "newton",
            ],
            ODMClassifier(gamma="mean_distance", tol=1e-9, fit_intercept=False, solver="newton"),
        ),
        (["-wvirginica", "3"], ODMClassifier(class_weight={"virginica": 3.0})),
        (["--class-weight", "balanced"], ODMClassifier(class_weight="balanced")),
        (
            ["--approximation", "nystrom", "--n-components", "20", "--seed", "0"],
            ODMClassifier(approximation="nystrom", n_components=20, random_state=0),
        ),
    ],
)
def test_train_fits_what_the_library_fits(options, expected, run, flowers, tmp_path):
    code, out, err = run("train", flowers, tmp_path / "m", *options)
    assert (code, err) == (0, "")
    assert "100 samples, 4 features, 2 classes, target in column 'kind'" in out
    X, y = data_of(flowers)
    model = load_model(tmp_path / "m")
    np.testing.assert_array_equal(
        model.decision_function(X), expected.fit(X, y).decision_function(X)
    )


def test_train_reports_json(run, flowers, tmp_path):
    code, out, _ = run(
        "train", flowers, tmp_path / "m", "--linear", "-v", "5", "--json", "--seed", "1"
    )
    facts = json.loads(out)
    assert code == 0
    assert facts["n_samples"] == 100
    assert facts["classes"] == ["versicolor", "virginica"]
    assert facts["dual_gap"] < 1e-6
    assert 0.8 < facts["cv_accuracy"] <= 1
    assert read_model_header(tmp_path / "m")["notes"]["cv_accuracy"] == facts["cv_accuracy"]


def test_quiet_is_silent(run, flowers, tmp_path):
    assert run("train", flowers, tmp_path / "m", "-q") == (0, "", "")


def test_scaling_becomes_part_of_the_model(run, flowers, tmp_path):
    run("train", flowers, tmp_path / "m", "--scale", "unit")
    model = load_model(tmp_path / "m")
    X, y = data_of(flowers)
    low, high = X.min(axis=0), X.max(axis=0)
    expected = ODMClassifier().fit((X - low) / (high - low), y)
    np.testing.assert_allclose(
        model.decision_function(X), expected.decision_function((X - low) / (high - low)), atol=1e-9
    )


def test_unscaled_features_get_a_hint(run, tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("1000,0.1,a\n2000,0.2,b\n3000,0.1,a\n1500,0.3,b\n")
    assert "--scale standard may help" in run("train", path, tmp_path / "m")[1]


def test_predict_matches_columns_by_name_and_needs_no_labels(run, flowers, tmp_path):
    run("train", flowers, tmp_path / "m", "-q")
    X, y = data_of(flowers)
    unlabelled = tmp_path / "new.csv"
    unlabelled.write_text(
        "width,sepal,breadth,petal\n"
        + "\n".join(",".join(map(repr, row[[1, 0, 3, 2]].tolist())) for row in X)
    )
    code, out, _ = run("predict", unlabelled, tmp_path / "m", tmp_path / "labels")
    assert code == 0
    assert "accuracy" not in out
    predicted = (tmp_path / "labels").read_text().split()
    assert predicted == load_model(tmp_path / "m").predict(X).tolist()
    _, out, _ = run("predict", flowers, tmp_path / "m", tmp_path / "labels", "--json")
    assert json.loads(out)["accuracy"] == np.mean(np.array(predicted) == y)


def test_predicted_scores_are_exact_and_go_to_standard_output(run, flowers, tmp_path):
    run("train", flowers, tmp_path / "m", "-q")
    code, out, err = run("predict", flowers, tmp_path / "m", "-", "--scores")
    assert code == 0
    assert "accuracy" in err
    lines = out.splitlines()
    assert lines[0] == "label,score"
    scores = [float(line.split(",")[1]) for line in lines[1:]]
    expected = load_model(tmp_path / "m").decision_function(data_of(flowers)[0])
    np.testing.assert_array_equal(scores, expected)


def test_sparse_data_and_the_way_of_libsvm(run, sparse, tmp_path):
    scaled = tmp_path / "scaled.svm.gz"
    assert run("scale", sparse, scaled, "-s", tmp_path / "ranges")[0] == 0
    assert run("scale", sparse, tmp_path / "again", "-r", tmp_path / "ranges", "-q")[0] == 0
    code, out, _ = run("train", scaled, tmp_path / "m", "--linear", "-w-1", "2", "-w1", "1")
    assert code == 0
    assert "60 samples, 40 features, 2 classes" in out
    assert load_model(tmp_path / "m").class_weight == {-1: 2.0, 1: 1.0}
    code, out, _ = run("predict", tmp_path / "again", tmp_path / "m", tmp_path / "labels")
    assert "accuracy" in out
    assert set((tmp_path / "labels").read_text().split()) == {"-1", "1"}


def test_scale_maps_to_the_range(run, flowers, tmp_path):
    run("scale", flowers, tmp_path / "s.csv", "-l", "0", "-u", "2")
    table = np.genfromtxt(tmp_path / "s.csv", delimiter=",", skip_header=1)[:, :-1]
    np.testing.assert_allclose(table.min(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(table.max(axis=0), 2)
    assert run("scale", flowers, tmp_path / "s.csv", "--standard")[0] == 0
    assert run("scale", flowers, tmp_path / "s.csv", "-l", "3")[0] == 2


def test_select_chooses_saves_and_draws(run, flowers, tmp_path):
    code, out, err = run(
        "select",
        flowers,
        tmp_path / "m",
        "--max-evals",
        "6",
        "--json",
        "--save-plot",
        tmp_path / "search.png",
    )
    assert (code, err) == (0, "")
    facts = json.loads(out)
    assert set(facts["parameters"]) == {"C1", "C2", "D", "gamma"}
    assert facts["parameters"]["C1"] == load_model(tmp_path / "m")[-1].C1
    assert (tmp_path / "search.png").stat().st_size > 5000
    code, out, _ = run(
        "select", flowers, tmp_path / "m", "--linear", "--max-evals", "4", "--cv", "3"
    )
    assert code == 0
    assert "chosen" in out


def test_inspect_shows_the_model(run, flowers, tmp_path):
    run("train", flowers, tmp_path / "m", "-q", "--scale", "standard")
    code, out, _ = run("inspect", tmp_path / "m")
    assert code == 0
    for word in (
        "ODMClassifier",
        "C1=200",
        "versicolor, virginica",
        "certified gap",
        "error at most",
    ):
        assert word in out
    code, out, _ = run("inspect", tmp_path / "m", "--data", flowers, "--json")
    facts = json.loads(out)
    model = load_model(tmp_path / "m")
    X, y = data_of(flowers)
    scores = model[-1].loo_decision_function(model[:-1].transform(X), y)
    error = np.mean(model.classes_[(scores > 0).astype(int)] != y)
    assert facts["loo_error"] == pytest.approx(error)
    assert facts["estimated_accuracy"] == pytest.approx(1 - error)
    assert facts["loo_error"] <= facts["loo_error_bound_valid"][0]
    run("train", flowers, tmp_path / "m", "-q", "--ldm")
    assert "bound, printed" in run("inspect", tmp_path / "m", "--data", flowers)[1]


def test_inspect_shows_one_gamma_per_feature(run, tmp_path):
    X, y = load_iris(return_X_y=True)
    save_model(ODMClassifier(gamma=[0.5, 0.1, 2.0, 0.3]).fit(X, y), tmp_path / "m")
    code, out, _ = run("inspect", tmp_path / "m")
    assert code == 0
    assert out.count("gamma=0.1 to 2 (per feature)") == 2


def test_inspect_draws_margins(run, flowers, tmp_path):
    plot = tmp_path / "margins.pdf"
    run("train", flowers, tmp_path / "m", "-q", "--save-plot", tmp_path / "training.svg")
    run("inspect", tmp_path / "m", "--data", flowers, "--save-plot", plot, "-q")
    assert plot.read_bytes().startswith(b"%PDF")
    assert b"<svg" in (tmp_path / "training.svg").read_bytes()


def test_standard_input(run, flowers, tmp_path, monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(flowers.read_bytes()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert run("train", "-", tmp_path / "m", "-q", "--label", "5")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train", "nowhere.csv", "m"], 1, "nowhere.csv: cannot be read: No such file"),
        (["train", "DATA", "no/such/m"], 1, "folder no/such does not exist"),
        (["train", "DATA", "m", "-c", "-1"], 1, "'C1' parameter"),
        (["train", "DATA", "m", "--linear", "-g", "1"], 2, "--gamma has no meaning"),
        (["train", "DATA", "m", "--D", "x"], 2, "Invalid value for"),
        (["train", "DATA", "m", "--class-weight", "rose=1"], 2, "no class 'rose'"),
        (["train", "DATA", "m", "--class-weight", "virginica"], 2, "LABEL=WEIGHT"),
        (["train", "DATA", "m", "--class-weight", "virginica=x"], 2, "LABEL=WEIGHT"),
        (["train", "DATA", "m", "--label", "rose"], 1, "no column 'rose'"),
        (["train", "DATA", "m", "--format", "svmlight"], 1, "line 1, column 1"),
        (["train", "DATA", "m", "--save-plot", "x.doc"], 2, "--save-plot"),
        (["train", "DATA", "m", "--cv", "60"], 2, "too few"),
        (["train", "DATA"], 2, "Missing argument"),
        (["inspect", "DATA"], 1, "no model file"),
        (["inspect", "DATA", "--save-plot", "x.png"], 2, "--data"),
        (["predict", "DATA", "DATA", "out"], 1, "no model file"),
    ],
)
def test_errors_go_to_standard_error(arguments, code, message, run, flowers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended, out, err = run(*(flowers if word == "DATA" else word for word in arguments))
    assert ended == code
    assert out == ""
    assert message in " ".join(err.split())
    assert "Traceback" not in err
    assert not (tmp_path / "m").exists()


def test_warnings_of_a_fit_are_passed_on(run, flowers, tmp_path):
    code, _, err = run("train", flowers, tmp_path / "m", "--solver", "dcd", "--max-iter", "1")
    assert code == 0
    assert err.startswith("optimargin: warning: ODMClassifier stopped at iteration 1")


def test_help_teaches_by_example(run):
    code, out, _ = run("--help")
    assert code == 0
    assert "optimargin select flowers.csv flowers.skops" in out
    assert run("--version")[1].startswith("optimargin ")


def test_the_installed_module_runs():
    done = subprocess.run(
        [sys.executable, "-m", "optimargin", "train", "nowhere", "m"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "optimargin: error: nowhere: cannot be read: No such file or directory\n"


@pytest.mark.slow
def test_a_hundred_mutated_files_through_the_command(run, tmp_path):
    rng = np.random.default_rng(2)
    path = tmp_path / "data"
    codes = []
    for k in range(100):
        path.write_bytes(mutate((SVMLIGHT, TABLE)[k % 2], rng))
        code, out, err = run("train", path, tmp_path / "m", "--linear", "--max-iter", "50")
        assert code in (0, 1)
        assert "Traceback" not in err
        if code == 1:
            assert out == ""
            # Files that can be read may still hold a single class.
            assert f"{path}, line " in err or "one class only" in err or "continuous" in err, err
        codes.append(code)
    assert 10 < sum(codes) < 100


def test_what_is_read_is_never_overwritten(run, flowers, tmp_path):
    text, model = flowers.read_bytes(), tmp_path / "m"
    assert run("train", flowers, model)[0] == 0
    content = model.read_bytes()
    for arguments in (
        ("train", flowers, flowers),
        ("train", flowers, tmp_path / "new", "--save-plot", tmp_path / "." / "flowers.csv"),
        ("select", flowers, flowers),
        ("scale", flowers, flowers),
        ("predict", flowers, model, model),
        ("predict", flowers, model, flowers),
    ):
        code, _, err = run(*arguments)
        assert code == 2, arguments
        assert "choose another name" in err or "--save-plot" in err
    assert flowers.read_bytes() == text
    assert model.read_bytes() == content


def test_select_tells_scaling_and_leave_one_out_error(run, flowers, tmp_path):
    code, out, _ = run("select", flowers, tmp_path / "m", "--json", "--max-evals", "8")
    told = json.loads(out)
    assert code == 0
    assert told["scaling"] == "StandardScaler"
    assert 0 < told["loo_error"] < 0.2
    assert "StandardScaler (part of the model)" in run("inspect", tmp_path / "m")[1]


def test_search_counts_its_evaluations_to_the_end(run, flowers, tmp_path):
    err = run("select", flowers, tmp_path / "m", "--max-evals", "8")[2]
    done, planned = re.search(r"(\d+) of (\d+) evaluations", err).groups()
    assert done == planned
    assert "about 0 s to go" in err


def test_predict_says_what_it_took_for_granted(run, flowers, tmp_path):
    run("train", flowers, tmp_path / "m")
    nameless = tmp_path / "nameless.csv"
    nameless.write_text("6.0,2.7,5.1,1.6\n")
    assert "taken in their order" in run("predict", nameless, tmp_path / "m", tmp_path / "o")[1]
    others = tmp_path / "others.csv"
    others.write_text(flowers.read_text().replace("versicolor", "a").replace("virginica", "b"))
    assert "no accuracy" in run("predict", others, tmp_path / "m", tmp_path / "o")[1]


@pytest.mark.parametrize(
    ("row", "message"),
    [("1,inf,a", "'inf' is not finite"), ("1,x,a", "--target names the column of the classes")],
)
def test_bad_cells_come_with_advice(row, message, run, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text(f"p,q,kind\n1,2,a\n2,1,b\n{row}\n")
    code, _, err = run("train", path, tmp_path / "m")
    assert code == 1
    assert f"{path}, line 4, column 2 ('q')" in err
    assert message in err
