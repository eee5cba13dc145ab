"""Labels that look alike, from training to the report of predictions."""

import json

import numpy as np
import pytest

from optimargin import ODMClassifier
from optimargin.io import load_model


@pytest.fixture
def table(tmp_path):
    """Write a table whose label says on which side of zero the first column is."""

    def table(name, labels, n=40, seed=0):
        rng = np.random.default_rng(seed)
        rows = []
        for k in range(n):
            side = k % len(labels)
            x = 4 * side + rng.uniform(-1, 1)
            rows.append(f'{x:.3f},{rng.normal():.3f},"{labels[side]}"\n')
        path = tmp_path / name
        path.write_text("a,b,y\n" + "".join(rows))
        return path

    return table


@pytest.mark.parametrize(
    "pair",
    [("007", "7"), ("1e3", "1000"), ("9007199254740993", "9007199254740992"), ("1.50", "1.5")],
)
def test_labels_that_look_alike_are_classes_of_their_own(pair, run, table, tmp_path):
    options = ["--task", "classification"]
    data = table("t.csv", pair)
    code, out, err = run("train", data, tmp_path / "m", *options, "--json")
    assert code == 0, err
    assert [str(label) for label in json.loads(out)["classes"]] == sorted(pair)
    for part in (pair, pair[:1], pair[1:]):  # one of them alone would be read as a number
        new = table("n.csv", part)
        facts = json.loads(run("predict", new, tmp_path / "m", tmp_path / "o", "--json")[1])
        assert "n_unknown_labels" not in facts
        assert set((tmp_path / "o").read_text().split()) <= set(pair)
    facts = json.loads(run("predict", data, tmp_path / "m", tmp_path / "o", "--json")[1])
    assert facts["accuracy"] == 1


def test_the_user_hears_of_classes_that_are_one_number(run, table, tmp_path):
    out = run("train", table("t.csv", ["007", "7"]), tmp_path / "m")[1]
    assert "labels '007' and '7' are one number, but two classes here" in out


def test_one_odd_label_does_not_hide_the_others(run, table, tmp_path):
    data = table("t.csv", ["1", "2"])
    run("train", data, tmp_path / "m", "-q")
    new = table("n.csv", ["1", "2"], n=4)
    for odd, n_unknown in (("1.5", 1), ("x", 1), ("2.0", 0)):
        text = new.read_text()
        (tmp_path / "odd.csv").write_text(text + f'4.0,0.0,"{odd}"\n')
        out = run("predict", tmp_path / "odd.csv", tmp_path / "m", tmp_path / "o", "--json")[1]
        facts = json.loads(out)
        assert facts.get("n_unknown_labels", 0) == n_unknown
        assert facts["n_right"] == 5 - n_unknown
        (tmp_path / "odd.csv").write_text(data.read_text().replace('"2"', f'"{odd}"', 1))
        code, out, err = run("inspect", tmp_path / "m", "--data", tmp_path / "odd.csv")
        assert (code == 0) == (n_unknown == 0), err
        assert n_unknown == 0 or f"has the label '{odd}', which" in err


def test_auto_compares_classes_however_they_are_written(run, table, tmp_path):
    data, new = table("t.csv", ["1", "2"]), table("n.csv", ["1.0", "2.0"], seed=1)
    new.write_text(new.read_text() + '4.0,0.0,"2.5"\n')
    out = run("auto", data, "--out", tmp_path / "r", "--test", new, "--linear", "--json")[1]
    facts = json.loads(out)
    assert facts["n_unknown_labels"] == 1
    assert facts["test_accuracy"] == 40 / 41


def test_a_weight_belongs_to_the_label_that_is_written_so(run, table, tmp_path):
    data = table("t.csv", ["+1", "1"])
    assert run("train", data, tmp_path / "m", "--class-weight", "+1=3", "-q")[0] == 0
    assert load_model(tmp_path / "m").get_params()["class_weight"] == {"+1": 3.0}


def test_weights_of_classes_that_are_written_as_numbers_are_weights():
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, "007", "7")
    weighted = ODMClassifier(class_weight={"007": 3.0}).fit(X, y)
    expected = ODMClassifier().fit(X, y, np.where(y == "007", 3.0, 1.0))
    assert weighted.objective_ == pytest.approx(expected.objective_)


def test_a_label_with_a_line_end_needs_a_table(run, table, tmp_path):
    data = table("t.csv", ["one\nline", "two"])
    run("train", data, tmp_path / "m", "-q")
    code, _, err = run("predict", data, tmp_path / "m", tmp_path / "o")
    assert code == 1
    assert "has a line end" in err
    assert "--scores" in err
    assert not (tmp_path / "o").exists()
    assert run("predict", data, tmp_path / "m", tmp_path / "o", "--scores")[0] == 0
    assert (tmp_path / "o").read_text().count('"one\nline"') == 20
