"""The README says what the result files say, and its code prints what it shows."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from optimargin_study import figures, read_export
from optimargin_study.statistics import make_comparison
from tests import regular_sets

pytestmark = pytest.mark.numbers

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROSE = " ".join(README.split())
STUDY = ROOT / "docs" / "study"


def block(language):
    """Return the only block of that language."""
    (code,) = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return code


def numbers(text):
    return [float(word) for word in re.findall(r"\d+\.\d*", text)]


def test_it_is_short():
    assert README.count("\n") < 90


def test_the_code_prints_what_is_shown(capsys):
    exec(block("python"), {})
    printed = numbers(capsys.readouterr().out)
    shown = numbers(block("text"))
    assert len(shown) == 5
    np.testing.assert_allclose(printed, shown, atol=0.01)


def test_the_table_is_that_of_the_result_files(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import summary

    try:
        table = summary.markdown()
    finally:
        del sys.modules["summary"]
    assert table in README
    assert table.count("\n") > 5


def test_mean_accuracies_are_those_of_the_study():
    results = read_export(STUDY / "results.csv")
    averages = make_comparison(results, 3).averages()
    words = f"{averages['odm_default']:.3f} with the RBF kernel, that of the SVM "
    assert words + f"{averages['svm_wide']:.3f}." in PROSE


def test_the_plot_and_its_caption_have_the_counts_of_the_data_file():
    shares = json.loads((STUDY / "margins.json").read_text())["shares"]
    of_paper = shares["paper"]
    right = sum(share > 0.5 for share in of_paper.values())
    assert f"on {right} of the paper's {len(of_paper)} data sets" in PROSE
    tuned = sum(share > 0.5 for share in shares["tuned"].values())
    for page, words in {
        "index.rst": f"on {right} of {len(of_paper)} data sets",
        "study.rst": f"on {right} of {len(of_paper)} sets",
        "why_odm.rst": f"on {tuned} of {len(shares['tuned'])}",
    }.items():
        assert words in " ".join((ROOT / "docs" / page).read_text().split()), page


@regular_sets.needed
def test_the_plotted_set_is_the_middle_one_and_has_the_margins_of_the_study(monkeypatch):
    found = json.loads((STUDY / "margins.json").read_text())
    shares = found["shares"]["paper"]
    assert found["middle"] == sorted(shares, key=shares.get)[(len(shares) - 1) // 2]
    monkeypatch.setenv("OPTIMARGIN_DATA", str(regular_sets.FOLDER))
    results = read_export(STUDY / "results.csv")
    ((claim,), _) = figures.margin_claims(results, [found["middle"]], 3, ("svm", "odm"))
    assert claim["geometric"]["right"] == pytest.approx(shares[found["middle"]], abs=0.05)


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#]+)\)|(?:src|srcset)=\"([^\"]+)\"", README)
    assert targets
    for target in map("".join, targets):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_the_commands_exist():
    rules = (ROOT / "Makefile").read_text()
    for name in re.findall(r"make (\w+)", README):
        assert re.search(rf"^{name}:", rules, re.MULTILINE), name
