"""What the command refuses, asks, counts, and how it ends."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optimargin import ODMClassifier, ODMClassifierCV
from optimargin.io import save_model
from tests.cli.conftest import passengers


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    rows = [f"{a:.3f},{b:.3f},{'pos' if a + 0.3 * b > 0 else 'neg'}" for a, b in X]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["a,b,kind", *rows]))
    return path


def test_a_target_of_many_numbers_is_asked_about(run, tmp_path):
    X, y = load_diabetes(return_X_y=True)
    path = tmp_path / "d.csv"
    lines = [",".join([*map(str, x), str(int(t))]) for x, t in zip(X, y, strict=True)]
    path.write_text("\n".join([",".join([*"abcdefghij", "target"]), *lines]))
    for command in ("train", "select"):
        code, out, err = run(command, path, tmp_path / "m")
        assert (code, out) == (1, "")
        assert "has 214 different numbers in 442 rows, as measurements have" in err
        assert "--task regression" in err
        assert not (tmp_path / "m").exists()
    code, out, _ = run("train", path, tmp_path / "m", "--task", "classification", "--linear")
    assert code == 0
    assert "214 classes" in out


def test_labels_with_decimals_can_be_classes(run, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{k},{1.5 + k % 2}\n" for k in range(20)))
    assert run("train", path, tmp_path / "m")[0] == 1
    assert run("train", path, tmp_path / "m", "--task", "classification")[0] == 0
    run("predict", path, tmp_path / "m", tmp_path / "o")
    assert set((tmp_path / "o").read_text().split()) <= {"1.5", "2.5"}


def test_text_is_no_measurement(run, table, tmp_path):
    code, _, err = run("train", table, tmp_path / "m", "--task", "regression")
    assert code == 1
    assert "is text such as" in err


@pytest.mark.parametrize("command", ["train", "select"])
def test_a_file_that_is_no_model_is_never_replaced(command, run, table, tmp_path):
    other = tmp_path / "test.csv"
    other.write_text("a,b,kind\n1,2,pos\n")
    code, out, err = run(command, table, other)
    assert (code, out) == (2, "")
    assert "exists and is no model of optimargin" in err
    assert other.read_text().startswith("a,b,kind")
    # A model is replaced by a model, an empty file by anything.
    (tmp_path / "m").touch()
    assert run("train", table, tmp_path / "m", "-q")[0] == 0
    assert run("train", table, tmp_path / "m", "-q")[0] == 0


def test_predictions_never_replace_a_model(run, table, tmp_path):
    run("train", table, tmp_path / "m", "-q")
    run("train", table, tmp_path / "m2", "-q")
    code, _, err = run("predict", table, tmp_path / "m", tmp_path / "m2")
    assert code == 2
    assert "is a model: choose another name" in err
    assert run("scale", table, tmp_path / "m2")[0] == 2
    assert run("scale", table, tmp_path / "s.csv", "-s", table)[0] == 2


def test_unknown_labels_are_counted(run, table, tmp_path):
    run("train", table, tmp_path / "m", "-q")
    other = tmp_path / "test.csv"
    text = table.read_text()
    n_positive = text.count("pos")
    other.write_text(text.replace("pos", "Pos"))
    out = run("predict", other, tmp_path / "m", tmp_path / "o", "--json")[1]
    facts = json.loads(out)
    assert facts["n_unknown_labels"] == n_positive
    assert "'Pos'" in run("predict", other, tmp_path / "m", tmp_path / "o")[1]


def test_accuracies_stand_beside_the_majority(run, table, tmp_path):
    out = run("train", table, tmp_path / "m")[1]
    assert out.count("always '") == 2
    assert "always '" in run("predict", table, tmp_path / "m", tmp_path / "o")[1]


def test_gaps_below_the_rounding_of_doubles_are_not_claimed(run, table, tmp_path):
    assert "≤ 1e-15, by newton" in run("train", table, tmp_path / "m")[1]


def test_probabilities_are_written_or_explained(run, table, tmp_path):
    run("train", table, tmp_path / "m", "-q")
    code, _, err = run("predict", table, tmp_path / "m", tmp_path / "o", "--probabilities")
    assert code == 1
    assert "optimargin select" in err
    run("select", table, tmp_path / "s", "-q", "--max-evals", "4")
    code, out, err = run("predict", table, tmp_path / "s", "-", "--probabilities")
    assert code == 0, err
    assert out.splitlines()[0] == "label,probability neg,probability pos"
    data = np.genfromtxt(table, delimiter=",", skip_header=1, dtype=str)
    X, y = data[:, :2].astype(float), data[:, 2]
    calibrated = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    save_model(calibrated, tmp_path / "c")
    code, out, err = run("predict", table, tmp_path / "c", "-", "--probabilities")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "label,probability neg,probability pos"
    shares = np.array([line.split(",")[1:] for line in lines[1:]], dtype=float)
    np.testing.assert_array_equal(shares, calibrated.predict_proba(X))


def test_ids_come_first(run, tmp_path, titanic):
    run("select", titanic, tmp_path / "m", "-q", "--max-evals", "4")
    out = run("predict", titanic, tmp_path / "m", "-", "--ids", "PassengerId,Name", "--scores")[1]
    assert out.splitlines()[0] == "PassengerId,Name,label,score"
    assert out.splitlines()[1].startswith("1,Doe; 0,")


def test_an_interrupted_search_says_what_it_found(run, table, tmp_path, monkeypatch):
    fit = ODMClassifierCV.fit

    def interrupted(self, X, y):
        fit(self, X, y)
        raise KeyboardInterrupt

    monkeypatch.setattr(ODMClassifierCV, "fit", interrupted)
    code, out, err = run("select", table, tmp_path / "m", "-q", "--max-evals", "4")
    assert (code, out) == (130, "")
    assert err.startswith("optimargin: interrupted: no model was written. The best of ")
    assert "C1=" in err
    assert not (tmp_path / "m").exists()


def test_an_interrupted_training_says_so(run, table, tmp_path, monkeypatch):
    def interrupted(self, X, y):
        raise KeyboardInterrupt

    monkeypatch.setattr(ODMClassifier, "fit", interrupted)
    code, _, err = run("train", table, tmp_path / "m")
    assert (code, err) == (130, "optimargin: interrupted: nothing was written.\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["train"],
        ["train", "a", "b", "--nosuch"],
        ["nosuch"],
        ["study", "nosuch"],
        ["train", "a", "b", "--json", "true"],
        ["train", "nowhere.csv", "m"],
        ["data", "fetch", "nosuch"],
        ["study", "status", "--store", "nowhere"],
    ],
)
def test_all_errors_begin_alike(arguments, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert code in (1, 2)
    assert out == ""
    assert err.startswith("optimargin: error: ")
    assert ("--help'." in err) == (code == 2)


def test_an_unknown_set_points_to_the_command(run):
    assert "optimargin data list" in run("data", "fetch", "qqqq")[2]


@pytest.mark.parametrize(
    "command", ["", "train", "select", "auto", "predict", "study run", "data list"]
)
def test_help_shows_no_type_for_flags(command, run):
    code, out, _ = run(*command.split(), "--help")
    assert code == 0
    assert "<bool>" not in out


def test_completion_is_offered(run):
    assert "--install-completion" in run("--help")[1]


def test_progress_counts_iterations():
    from optimargin.cli._report import iterations_shown

    shown = []
    model = ODMClassifier(kernel="linear", solver="dcd", max_iter=5, tol=1e-3)
    if not hasattr(model, "set_callbacks"):
        pytest.skip("scikit-learn before 1.9")
    ended_early = pytest.warns(ConvergenceWarning, match="stopped at iteration 5")
    with iterations_shown(model, "training", shown.append), ended_early:
        model.fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    assert shown[0].startswith("training: iteration 1, 0 s")
    assert not hasattr(model, "_skl_callbacks")


def test_one_feature_is_not_features(run, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n1,0\n2,1\n3,0\n4,1\n")
    assert "1 feature, 2 classes" in run("train", path, tmp_path / "m")[1]


def test_status_of_a_quick_study(run, tmp_path):
    store = tmp_path / "s.sqlite"
    arguments = ["--quick", "--datasets", "iris", "--methods", "svm", "--repeats", "1"]
    assert run("study", "run", *arguments, "--store", store)[0] == 0
    told = run("study", "status", *arguments, "--store", store)[1]
    done, planned = re.search(r"(\d+) of (\d+) runs", told).groups()
    assert done == planned


def test_missing_labels_do_not_count(run, tmp_path):
    path, test = tmp_path / "t.csv", tmp_path / "n.csv"
    path.write_text(passengers())
    run("select", path, tmp_path / "m", "-q", "--max-evals", "4")
    lines = passengers(10, 1).splitlines()
    lines[1] = lines[1].rsplit(";", 1)[0] + ";"
    test.write_text("\n".join(lines))
    out = run("predict", test, tmp_path / "m", tmp_path / "o")[1]
    assert "of 9)" in out
    assert len((tmp_path / "o").read_text().split()) == 10


def test_all_facts_for_programs_are_documented(run, table, tmp_path):
    guide = Path(__file__).parents[2] / "docs" / "user_guide" / "command_line.rst"
    if not guide.exists():
        pytest.skip("installed without the documentation")
    documented = set(re.findall(r"``(\w+)``", guide.read_text()))
    model, out = tmp_path / "m", tmp_path / "o"
    for arguments in (
        ("train", table, model, "--cv", "3", "--save-plot", tmp_path / "p.png"),
        ("select", table, model, "--max-evals", "4"),
        ("inspect", model),
        ("inspect", model, "--data", table),
        ("predict", table, model, out),
        ("scale", table, out),
        ("auto", table, "--out", tmp_path / "r", "--test", table, "--linear"),
    ):
        code, told, err = run(*arguments, "--json")
        assert code == 0, err
        facts = {name.removeprefix("test_") for name in json.loads(told)}
        assert facts <= documented, arguments
