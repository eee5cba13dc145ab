"""Novelty detection from the command line."""

import csv
import json

import numpy as np
import pytest

from optimargin import OneClassODM
from optimargin.io import load_model, save_model

pytestmark = pytest.mark.quick

ROWS = np.random.default_rng(0).normal(size=(199, 3))
NEW = np.vstack([np.random.default_rng(1).normal(size=(50, 3)), np.full((5, 3), 8.0)])


@pytest.fixture
def normal(tmp_path):
    """Return a table of normal rows, with a column that is no feature."""
    path = tmp_path / "normal.csv"
    lines = [",".join(map(repr, row)) + ",good" for row in ROWS.tolist()]
    path.write_text("\n".join(["a,b,c,kind", *lines]))
    return path


@pytest.fixture
def new(tmp_path):
    """Return a table with its columns in another order."""
    path = tmp_path / "new.csv"
    lines = [
        f"row{i},{'good' if i < 50 else 'bad'}," + ",".join(map(repr, row[::-1]))
        for i, row in enumerate(NEW.tolist())
    ]
    path.write_text("\n".join(["name,kind,c,b,a", *lines]))
    return path


@pytest.fixture
def model(run, normal, tmp_path):
    path = tmp_path / "m.skops"
    options = ("--task", "novelty", "--target", "kind", "--false-alarm-rate", "0.1")
    code, out, _ = run("train", normal, path, *options)
    assert code == 0
    assert "199 samples, 3 features, all taken as normal" in out
    assert "for a false-alarm rate of 0.1" in out
    return path


def test_the_model_is_that_of_the_library(model):
    expected = OneClassODM(false_alarm_rate=0.1).fit(ROWS)
    assert load_model(model).offset_ == pytest.approx(expected.offset_, rel=1e-9)


def test_labels_scores_and_p_values(run, model, new, tmp_path):
    expected = OneClassODM(false_alarm_rate=0.1).fit(ROWS)
    code, out, _ = run("predict", new, model, tmp_path / "out.txt")
    assert code == 0
    labels = [int(line) for line in (tmp_path / "out.txt").read_text().splitlines()]
    assert labels == expected.predict(NEW).tolist()
    n_outliers = labels.count(-1)
    assert f"outliers   {n_outliers} of 55 samples" in out
    assert "of bad     5 of 5 (100.0%)" in out
    table = tmp_path / "out.csv"
    assert run("predict", new, model, table, "--ids", "name", "--scores", "--p-values")[0] == 0
    rows = list(csv.DictReader(table.open()))
    assert list(rows[0]) == ["name", "label", "score", "p_value"]
    np.testing.assert_allclose(
        [float(row["score"]) for row in rows], expected.decision_function(NEW), atol=1e-9
    )
    assert [float(row["p_value"]) for row in rows] == expected.p_values(NEW).tolist()


def test_preparation_is_part_of_the_model(run, new, normal, tmp_path):
    path = tmp_path / "scaled.skops"
    options = ("--task", "novelty", "--scale", "standard", "--encode", "onehot")
    assert run("train", normal, path, *options)[0] == 0  # the column kind is a feature here
    code, out, _ = run("predict", new, path, tmp_path / "p.csv", "--p-values", "--json")
    assert code == 0
    assert json.loads(out)["n_new_categories"] == 5
    p_values = [float(row["p_value"]) for row in csv.DictReader((tmp_path / "p.csv").open())]
    assert max(p_values[50:]) == 0.005


def test_all_columns_are_features_without_a_target(run, tmp_path):
    path = tmp_path / "plain.csv"
    np.savetxt(path, ROWS, delimiter=",")
    code, out, _ = run("train", path, tmp_path / "m", "--task", "novelty", "--json")
    assert (code, json.loads(out)["n_features"]) == (0, 3)
    facts = json.loads(out)
    assert facts["false_alarm_rate"] == 0.05
    code, out, _ = run("predict", path, tmp_path / "m", "-", "-q")
    assert (code, len(out.splitlines())) == (0, 199)


def test_svmlight_labels_are_not_looked_at(run, tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"{i} 1:{a!r} 2:{b!r}\n" for i, (a, b, _) in enumerate(ROWS.tolist())))
    assert run("train", path, tmp_path / "m", "--task", "novelty")[0] == 0


def test_inspect_tells_the_threshold(run, model, normal):
    code, out, _ = run("inspect", model)
    assert code == 0
    assert "for a false-alarm rate of 0.1, 199 samples" in out
    code, out, _ = run("inspect", model, "--data", normal)
    assert code == 0
    assert "below it" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--linear"], "--linear has no meaning for --task novelty"),
        (["--ldm"], "--ldm has no meaning for --task novelty"),
        (["--class-weight", "1=2"], "--class-weight has no meaning for --task novelty"),
        (["--cv", "3"], "--cv has no meaning for --task novelty"),
        (["--save-plot", "a.png"], "--save-plot has no meaning for --task novelty"),
        (["--false-alarm-rate", "0.7"], "'false_alarm_rate' parameter of OneClassODM"),
        (["--lambda1", "1"], "--lambda1 has no meaning for OneClassODM"),
    ],
)
def test_what_has_no_meaning_is_refused(run, normal, tmp_path, options, message):
    code, _, err = run(
        "train", normal, tmp_path / "x", "--task", "novelty", "--target", "kind", *options
    )
    assert code != 0
    assert message in err
    assert not (tmp_path / "x").exists()


def test_there_is_nothing_to_choose(run, normal, tmp_path):
    code, _, err = run("select", normal, tmp_path / "x", "--task", "novelty", "--target", "kind")
    assert code != 0
    assert "use optimargin train --task novelty" in err
    code, _, err = run("auto", normal, "--out", tmp_path / "results", "--task", "novelty")
    assert code != 0
    assert "use optimargin train --task novelty" in err
    assert not (tmp_path / "results").exists()


def test_other_models_have_no_p_values(run, tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("x,kind\n" + "".join(f"{i},{'ab'[i > 9]}\n" for i in range(20)))
    assert run("train", path, tmp_path / "m")[0] == 0
    code, _, err = run("predict", path, tmp_path / "m", "-", "--p-values")
    assert code != 0
    assert "was not trained with --task novelty" in err
    code, _, err = run("train", path, tmp_path / "x", "--false-alarm-rate", "0.1")
    assert code != 0
    assert "--false-alarm-rate has no meaning" in err


def test_a_model_that_judges_its_own_rows_has_nothing_to_say_of_others(run, tmp_path):
    path, new = tmp_path / "own.skops", tmp_path / "rows.csv"
    np.savetxt(new, NEW, delimiter=",", header="a,b,c", comments="")
    save_model(OneClassODM(novelty=False).fit(ROWS), path)
    for command in (("predict", new, path, tmp_path / "out.csv"), ("inspect", path, "--data", new)):
        code, _, err = run(*command)
        assert code == 1
        assert "fit one with novelty=True" in err
    assert run("inspect", path)[0] == 0
