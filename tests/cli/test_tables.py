"""From an ordinary table to a tuned model and predictions."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

from optimargin.io import load_model, read_model_header
from tests.cli.conftest import passengers

NEW = """PassengerId;Sex;Age;Port;Fare
901;female;;Cherbourg;30,5
902;diverse;40;Southampton;
903;;?;;5
"""


@pytest.fixture
def new(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text(NEW)
    return path


@pytest.fixture
def model(run, titanic, tmp_path):
    assert run("select", titanic, tmp_path / "m", "--max-evals", "8", "-q") == (0, "", "")
    return tmp_path / "m"


def test_select_takes_the_table_and_says_what_it_did(run, titanic, tmp_path):
    code, out, _ = run("select", titanic, tmp_path / "m", "--max-evals", "8")
    assert code == 0
    for text in (
        "60 samples, 4 features, 2 classes, target in column 'Survived'",
        "2: Sex, Port",
        "'PassengerId' is an id: all values differ",
        "'Name' has 60 different texts in 60 rows",
        "'Boarded' holds dates or times",
        "commas are decimal marks in 'Age', 'Fare'",
        "median for missing values, StandardScaler; categories: most frequent",
        "optimargin predict NEW.csv",
    ):
        assert text in out, text


def test_the_accuracy_comes_first_and_the_objective_last(run, titanic, tmp_path):
    out = run("select", titanic, tmp_path / "m", "--max-evals", "8")[1]
    names = [line.split("  ")[0] for line in out.splitlines()]
    assert names.index("estimated accuracy") < names.index("chosen")
    assert names.index("search objective") > names.index("certified gap")
    estimate = next(line for line in out.splitlines() if line.startswith("estimated accuracy"))
    assert "(leave-one-out), always '" in estimate


def test_the_estimate_is_that_of_refits(run, titanic, tmp_path, model):
    """Leave-one-out by brute force, over the prepared samples."""
    from sklearn.base import clone
    from sklearn.model_selection import LeaveOneOut, cross_val_predict

    from optimargin.io import read_data
    from tests.io.test_tables import ORDINARY

    samples = read_data(titanic, layout=ORDINARY)
    pipeline = load_model(model)
    X = pipeline[:-1].transform(samples.X)
    n, last = len(samples.y), pipeline[-1]
    # Weights of the remaining samples are kept.
    refit = clone(last).set_params(C1=last.C1 * (n - 1) / n, C2=last.C2 * (n - 1) / n)
    expected = np.mean(cross_val_predict(refit, X, samples.y, cv=LeaveOneOut()) == samples.y)
    estimate = read_model_header(model)["notes"]["estimated_accuracy"]
    assert estimate == pytest.approx(expected, abs=1.5 / n)


def test_a_new_process_predicts_new_categories_and_missing_cells(model, new, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "optimargin", "predict", new, model, "-", "--ids", "PassengerId"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["PassengerId"] for row in rows] == ["901", "902", "903"]
    assert {row["label"] for row in rows} <= {"yes", "no"}
    assert rows[0]["label"] == "yes"
    assert "3 samples" in done.stderr
    assert "2 cells hold a category that the model does not know" in done.stderr


def test_the_model_is_a_pipeline_for_python_too(model):
    X = np.array([["female", 30.0, "Cherbourg", 20.0], ["new", np.nan, np.nan, 3.0]], dtype=object)
    assert load_model(model).predict(X).tolist() == ["yes", "no"]


def test_train_refuses_what_it_is_not_told_to_prepare(run, titanic, tmp_path):
    code, _, err = run("train", titanic, tmp_path / "m")
    assert code == 1
    assert "line 2, column 2 ('Name'): 'Doe; 0' is not a number: --encode onehot" in err
    code, _, err = run("train", titanic, tmp_path / "m", "--drop", "Name,Sex,Port,Boarded")
    assert code == 1
    assert "('Age'): the value is missing: fill such cells with --impute median" in err
    code, out, _ = run("train", titanic, tmp_path / "m", "--impute", "mean", "--encode", "onehot")
    assert code == 0
    assert "mean for missing values" in out


@pytest.mark.parametrize("separator", ["|", "\t"])
def test_separators_and_a_target_anywhere(separator, run, tmp_path):
    path = tmp_path / "t"
    lines = [line.split(";;") for line in passengers(separator=";;").splitlines()]
    path.write_text("\n".join(separator.join([row[-1], *row[:-1]]) for row in lines))
    code, out, _ = run(
        "select", path, tmp_path / "m", "--target", "Survived", "--max-evals", "4", "--json"
    )
    assert code == 0
    assert json.loads(out)["target"] == "Survived"


def test_json_has_facts_and_no_text(run, titanic, tmp_path):
    out = run("select", titanic, tmp_path / "m", "--max-evals", "4", "--json")[1]
    facts = json.loads(out)
    assert facts["task"] == "classification"
    assert facts["categories"] == ["Sex", "Port"]
    assert facts["left_out"]["Boarded"] == "holds dates or times"
    assert facts["n_missing"] > 0
    assert 0.5 < facts["estimated_accuracy"] <= 1
    assert facts["estimated_by"] == "leave-one-out"
    assert facts["loo_error"] == pytest.approx(1 - facts["estimated_accuracy"])
    assert 0.4 < facts["baseline_accuracy"] < 0.7
    assert {"score", "n_points", "parameters", "model", "dual_gap", "solver"} <= set(facts)


def test_inspect_recalls_and_measures_again(run, titanic, model):
    out = run("inspect", model)[1]
    assert "features         4, prepared as " in out
    assert "estimated accuracy" in out
    again = json.loads(run("inspect", model, "--data", titanic, "--json")[1])
    noted = read_model_header(model)["notes"]["estimated_accuracy"]
    assert again["estimated_accuracy"] == pytest.approx(noted)


def test_headerless_tables_keep_their_columns(run, tmp_path):
    path, new = tmp_path / "t.csv", tmp_path / "n.csv"
    rng = np.random.default_rng(0)
    rows = [f"name{k},{rng.random():.3f},{('red', 'blue')[k % 2]},{k % 2}" for k in range(30)]
    path.write_text("\n".join(rows))
    code, out, _ = run("select", path, tmp_path / "m", "--max-evals", "4")
    assert code == 0
    assert "'1' has 30 different texts" in out
    new.write_text("someone,0.5,red\nelse,0.25,blue\n")
    assert run("predict", new, tmp_path / "m", tmp_path / "o")[0] == 0
    assert (tmp_path / "o").read_text().split() == ["0", "1"]


def test_regression_tables(run, heights, tmp_path):
    code, out, _ = run(
        "select", heights, tmp_path / "m", "--task", "regression", "--max-evals", "8"
    )
    assert code == 0
    assert "a target from" in out
    assert "root mean square (leave-one-out), always the mean: " in out
    code, out, _ = run("predict", heights, tmp_path / "m", tmp_path / "o", "--json")
    facts = json.loads(out)
    assert facts["r2"] > 0.9
    predicted = np.array((tmp_path / "o").read_text().split(), dtype=float)
    truth = np.array([line.split(",")[-1] for line in heights.read_text().splitlines()[1:]], float)
    assert facts["rmse"] == pytest.approx(np.sqrt(np.mean((truth - predicted) ** 2)))
    assert "training error" in run("inspect", tmp_path / "m", "--data", heights)[1]
    assert run("predict", heights, tmp_path / "m", tmp_path / "o", "--scores")[0] == 2
    assert (
        "numbers, not classes"
        in run("predict", heights, tmp_path / "m", tmp_path / "o", "--probabilities")[2]
    )


def test_train_regression_with_cross_validation_and_plot(run, heights, tmp_path):
    code, out, _ = run(
        "train", heights, tmp_path / "m", "--task", "regression", "--encode", "onehot", "--linear",
        "--cv", "5", "--json", "--save-plot", tmp_path / "p.png",
    )  # fmt: skip
    assert code == 0
    assert 0.8 < json.loads(out)["cv_r2"] < 1
    assert (tmp_path / "p.png").stat().st_size > 1000
