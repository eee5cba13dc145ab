"""One command from a table to a model, predictions and a page."""

import csv
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from optimargin.cli._page import confusion, round_numbers, scatter
from optimargin.cli._tasks import Classification
from optimargin.io import load_model
from tests.cli.conftest import passengers


class Tags(HTMLParser):
    """Checks that tags are closed in the order they were opened."""

    void = {"meta", "br"}

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check_page(path):
    text = path.read_text()
    parser = Tags()
    parser.feed(text)
    assert parser.open == []
    assert not re.search(r"""(src|href)=|https?://|@import""", text)  # nothing else is needed
    return text


@pytest.mark.quick
def test_auto_makes_model_predictions_and_page(run, titanic, tmp_path):
    test = tmp_path / "test.csv"
    test.write_text(passengers(20, 1))
    out = tmp_path / "results"
    code, told, _ = run("auto", titanic, "--target", "Survived", "--test", test, "--out", out)
    assert code == 0
    for text in ("estimated accuracy", "logistic regression", "SVC", "most frequent class", "next"):
        assert text in told, text
    rows = list(csv.DictReader((out / "predictions.csv").open()))
    assert [row["PassengerId"] for row in rows] == [str(k + 1) for k in range(20)]
    held_out = list(csv.DictReader((out / "held_out.csv").open()))
    assert len(held_out) == 60
    right = np.mean([row["Survived"] == row["held out"] for row in held_out])
    assert f"estimated accuracy  {right:.4f}" in told
    page = check_page(out / "report.html")
    for text in ("new data", "true \\ predicted", "Fare", "holds dates or times", "SVC"):
        assert text in page, text
    assert set(load_model(out / "model.skops").classes_) == {"no", "yes"}


def test_auto_serves_regression(run, heights, tmp_path):
    out = tmp_path / "results"
    code, told, _ = run("auto", heights, "--out", out, "--test", heights, "--json")
    facts = json.loads(told)
    assert code == 0
    assert facts["task"] == "regression"
    assert facts["estimated_r2"] > 0.9
    assert facts["test_r2"] > 0.9
    models = [row["model"] for row in facts["comparison"]]
    assert {"mean", "ridge regression", "SVR"} <= set(models)
    assert len([row for row in facts["comparison"] if "tuned" in row["model"]]) == 2
    assert "<svg" in check_page(out / "report.html")
    header = (out / "predictions.csv").read_text().splitlines()[0]
    assert header == "row,prediction"


@pytest.fixture
def flat(tmp_path):
    """A table that a linear model fits best."""
    X = np.random.default_rng(0).normal(size=(80, 2))
    rows = [f"{a:.3f},{b:.3f},{'pos' if a + 0.3 * b > 0 else 'neg'}" for a, b in X]
    path = tmp_path / "flat.csv"
    path.write_text("\n".join(["a,b,kind", *rows]))
    return path


def test_the_better_of_both_machines_is_chosen(run, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    path = tmp_path / "rings.csv"
    rows = [f"{a:.3f},{b:.3f},{'in' if a * a + b * b < 1.2 else 'out'}" for a, b in X]
    path.write_text("\n".join(["a,b,kind", *rows]))
    told = json.loads(run("auto", path, "--out", tmp_path / "r", "--json")[1])
    assert told["estimator"] == "ODMClassifier"
    scores = {row["model"]: row["accuracy"] for row in told["comparison"]}
    assert scores["ODMClassifier, tuned"] > scores["LinearODMClassifier, tuned"] + 0.1
    told = json.loads(run("auto", path, "--out", tmp_path / "r", "--linear", "--json")[1])
    assert told["estimator"] == "LinearODMClassifier"


def test_large_tables_get_landmarks(run, tmp_path, monkeypatch):
    monkeypatch.setattr("optimargin.cli._auto.KERNEL_UP_TO", 100)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    path = tmp_path / "rings.csv"
    rows = [f"{a:.3f},{b:.3f},{'in' if a * a + b * b < 1.2 else 'out'}" for a, b in X]
    path.write_text("\n".join(["a,b,kind", *rows]))
    told = json.loads(run("auto", path, "--out", tmp_path / "r", "--json")[1])
    model = load_model(tmp_path / "r" / "model.skops")[-1]
    assert model.approximation == "nystrom"
    assert told["estimated_accuracy"] > 0.9


def test_held_out_values_of_large_tables_are_computed_once(run, tmp_path, monkeypatch, flat):
    calls, held_out = [], Classification.held_out
    monkeypatch.setattr(
        Classification,
        "held_out",
        lambda task, model, *args: calls.append(model) or held_out(task, model, *args),
    )
    monkeypatch.setattr("optimargin.cli._auto.KERNEL_UP_TO", 60)
    told = json.loads(run("auto", flat, "--out", tmp_path / "r", "--json")[1])
    assert len(calls) == 2
    ours, other, *baselines = told["comparison"]
    assert ours["how"] == other["how"] == told["estimated_by"] == "leave-one-out"
    assert ours["accuracy"] == told["estimated_accuracy"]
    assert baselines[-1]["how"] == "5-fold cross-validation of 30 samples"
    assert (tmp_path / "r" / "held_out.csv").exists()


def test_landmarks_keep_the_widths_that_the_search_chose(run, tmp_path, monkeypatch):
    monkeypatch.setattr("optimargin.cli._auto.KERNEL_UP_TO", 100)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 8))
    labels = np.where((X[:, 0] ** 2 + X[:, 1] ** 2) < 1.4, "in", "out")
    path = tmp_path / "rings.csv"
    rows = [",".join([*map("{:.3f}".format, x), label]) for x, label in zip(X, labels, strict=True)]
    path.write_text("\n".join(["a,b,c,d,e,f,g,h,kind", *rows]))
    told = json.loads(run("auto", path, "--out", tmp_path / "r", "--json")[1])
    model = load_model(tmp_path / "r" / "model.skops")[-1]
    assert model.approximation == "nystrom"
    assert np.shape(model.gamma_) == (8,)
    np.testing.assert_allclose(told["parameters"]["gamma"], model.gamma_)
    assert "(per feature)" in (tmp_path / "r" / "report.html").read_text()


@pytest.mark.parametrize("is_quick", [True, False])
def test_all_tuned_models_are_judged_alike(run, flat, tmp_path, monkeypatch, is_quick):
    if not is_quick:  # by a kernel model, that is: linear ones have closed forms of their own
        monkeypatch.setattr("optimargin.training.plan._INVERTED_ONCE_UP_TO", 10)
    told = json.loads(run("auto", flat, "--out", tmp_path / "r", "--json")[1])
    how = [row["how"] for row in told["comparison"]]
    folds = "5-fold cross-validation"
    assert how[:2] == [folds if is_quick else "folds left out in the search"] * 2
    assert how[2:] == [folds] * 3


def test_a_class_of_two_rows_gives_no_warning(run, flat, tmp_path):
    flat.write_text(flat.read_text() + "\n0.1,3.0,new\n0.2,3.1,new")
    code, _, err = run("auto", flat, "--out", tmp_path / "r", "--json")
    assert (code, err) == (0, "")


def test_other_files_are_safe(run, titanic, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    code, _, err = run("auto", titanic, "--out", tmp_path / "mine")
    assert code == 2
    assert "holds other files" in err
    assert run("auto", titanic, "--out", titanic)[0] == 2


def test_a_failure_leaves_no_folder(run, tmp_path):
    assert run("auto", tmp_path / "nowhere.csv", "--out", tmp_path / "r")[0] == 1
    assert not (tmp_path / "r").exists()


def test_names_in_a_page_are_escaped(run, tmp_path):
    path = tmp_path / "t.csv"
    rows = [
        f"{k * 0.37 % 1:.3f},{'<script>alert(1)</script>' if k % 2 else 'b'}" for k in range(30)
    ]
    path.write_text("\n".join(["<b>a</b>,y", *rows]))
    assert run("auto", path, "--out", tmp_path / "r", "-q")[0] == 0
    page = check_page(tmp_path / "r" / "report.html")
    assert "<script" not in page
    assert "<b>a" not in page


def test_confusion_counts():
    y, predicted = np.array(list("aabbb")), np.array(list("abbba"))
    cells = re.findall(r">(\d+)</td>", confusion(y, predicted, np.array(["a", "b"])))
    assert cells == ["1", "1", "1", "2"]


@pytest.mark.parametrize("y", [[1.0, 1.0], [0.0, 5.0]])
def test_scatter_stays_inside(y):
    svg = scatter(np.array(y), np.array(y))
    places = [float(v) for v in re.findall(r"c[xy]='([^']+)'", svg)]
    assert len(places) == 4
    assert all(0 <= place <= 520 for place in places)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0, 4, [0, 1, 2, 3, 4]), (9, 46.6, [10, 20, 30, 40]), (-0.3, 0.1, [-0.3, -0.2, -0.1, 0, 0.1])],
)
def test_ticks_are_round(low, high, ticks):
    np.testing.assert_allclose(round_numbers(low, high), ticks, atol=1e-12)


def test_many_classes_are_listed_by_their_errors(run, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "t.csv"
    rows = [f"{k % 22 + rng.normal():.3f},c{k % 22}" for k in range(110)]
    path.write_text("\n".join(["a,y", *rows]))
    assert run("auto", path, "--out", tmp_path / "r", "-q", "--linear")[0] == 0
    assert "<th>predicted</th>" in (tmp_path / "r" / "report.html").read_text()
