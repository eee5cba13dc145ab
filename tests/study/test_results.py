"""Statistics, tables, figures, the report and the commands."""

import os
import re
import stat
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import ttest_rel
from typer.testing import CliRunner

from optimargin.cli.data import app as data_app
from optimargin.cli.study import app
from optimargin_study import Result, Store, Unit, read_export
from optimargin_study.report import (
    answer,
    band_verdict,
    make_sections,
    margin_verdicts,
    verdicts,
    write_report,
    write_tables,
)
from optimargin_study.statistics import compare, make_comparison, paper_table
from optimargin_study.tables import accuracy_table, agreement_table, as_html, data_table

pytestmark = pytest.mark.quick

runner = CliRunner()
SETS = ["wdbc", "sonar", "german"]


def results(n_repeats=5, methods=("svm", "odm", "svm_wide"), table=2):
    rng = np.random.default_rng(0)
    found = []
    for dataset in SETS:
        for repeat in range(1, n_repeats + 1):
            for k, method in enumerate(methods):
                unit = Unit(table, dataset, repeat, method)
                accuracy = 0.8 + 0.02 * k + 0.002 * rng.normal()
                found.append(
                    Result(unit, accuracy, {}, 1.0, 0.1, None, unit.seed, {}, None, "here")
                )
    return found


def test_paper_has_all_its_cells():
    assert [len(paper_table(t)) for t in (2, 3, 4)] == [32, 32, 10]
    assert paper_table(2)["german"]["ODM"] == [0.743, 0.015]
    means = [np.mean([row[c][0] for row in paper_table(3).values()]) for c in ("SVM", "ODM")]
    assert np.round(means, 3).tolist() == [0.817, 0.833]


def test_methods_with_few_results_have_a_table_of_their_own():
    fewer = results(4, methods=("kmomd",)) + results(2, methods=("mdo",))
    (section,) = make_sections(results(6) + fewer)
    main, _, middle, further, _ = section["tables"]
    assert main.head == ["set", "SVM", "ODM", "SVM, wide grid", "repeats"]
    assert {row[-1] for row in main.rows} == {"6"}
    assert middle.head == ["set", "SVM", "ODM", "KM-OMD", "repeats"]
    assert {row[-1] for row in middle.rows} == {"4"}
    assert further.head == ["set", "SVM", "ODM", "MDO", "repeats"]
    assert {row[-1] for row in further.rows} == {"2"}


def test_what_is_worth_how_much_is_the_mean_difference_over_sets():
    (section,) = make_sections(results(4, methods=("odm_default", "odm_no_C2", "svm_wide")))
    worth = section["tables"][0]
    assert [row[1:3] for row in worth.rows] == [
        ["ODM, no grid", "SVM, wide grid"],
        ["ODM, C2 = 0", "SVM, wide grid"],
        ["ODM, no grid", "ODM, C2 = 0"],
    ]
    cells = section["comparison"].cells
    gains = [cells[d, "odm_no_C2"].mean - cells[d, "svm_wide"].mean for d in SETS]
    mean, error = (float(part) / 100 for part in worth.rows[1][3].split("±"))
    assert mean == pytest.approx(np.mean(gains), abs=1e-4)
    assert error == pytest.approx(np.std(gains, ddof=1) / 3**0.5, abs=1e-4)
    assert worth.rows[1][4] == "0/0/3"  # each of `results` is 0.02 above the one before
    assert worth.rows[0][3].startswith("-4.")


def test_verdict_is_that_of_a_paired_t_test():
    rng = np.random.default_rng(1)
    for shift in np.linspace(-0.02, 0.02, 9):
        a = dict(enumerate(0.8 + 0.02 * rng.normal(size=10)))
        b = {k: v - shift + 0.01 * rng.normal() for k, v in a.items()}
        p = ttest_rel(list(a.values()), list(b.values())).pvalue
        expected = (
            ""
            if p >= 0.05
            else ("better" if np.mean(list(a.values())) > np.mean(list(b.values())) else "worse")
        )
        assert compare(a, b) == expected
    assert compare({1: 0.5}, {1: 0.9}) == ""
    assert compare({1: 0.5, 2: 0.5}, {1: 0.5, 2: 0.5}) == ""
    assert compare({1: 0.6, 2: 0.7}, {1: 0.5, 2: 0.6}) in ("better", "")


def test_comparison_counts_common_repeats_alone():
    some = [r for r in results() if not (r.unit.method == "odm" and r.unit.repeat > 3)]
    comparison = make_comparison(some, 2, ("svm", "odm", "svm_wide"))
    assert comparison.repeats == dict.fromkeys(["sonar", "wdbc", "german"], 3)
    assert make_comparison(results(), 2).win_tie_loss("odm") == (3, 0, 0)
    assert make_comparison(results(), 2).win_tie_loss("svm", "odm") == (0, 0, 3)
    assert make_comparison([], 3).datasets == []


def test_method_that_has_only_begun_does_not_shrink_the_table():
    begun = [r for r in results(methods=("lda",)) if r.unit.dataset == "wdbc"]
    assert make_comparison(results() + begun, 2).methods == ["svm", "odm", "svm_wide"]


def test_agreement_counts_deviations_of_the_paper():
    comparison = make_comparison(results(), 2)
    cell = comparison.cells["german", "svm"]
    assert cell.deviations == pytest.approx((cell.mean - 0.711) / 0.030)
    one, two, total = comparison.agreement("svm")
    assert one <= two <= total == 3


def test_tables_say_the_same_in_all_languages():
    table = accuracy_table(make_comparison(results(), 2))
    for text in (table.markdown(), table.html(), table.plain()):
        assert re.search(r"german.*0\.8\d\d±0\.00\d", text, re.DOTALL)
        assert "•" in text
    assert r"$\bullet$" in table.latex()
    assert table.latex().count(r"\\") == 1 + 3 + 3
    assert "german" in agreement_table(make_comparison(results(), 2)).markdown()
    assert len(data_table().rows) == 42


def test_paper_is_compared_only_where_it_has_figures():
    rows = [
        Result(Unit(2, name, r, m), 0.8, {}, 1.0, 0.1, None, 0, {}, None, "here")
        for name in ("wdbc", "iris")
        for r in (1, 2)
        for m in ("svm", "odm")
    ]
    comparison = make_comparison(rows, 2)
    assert [row[0] for row in accuracy_table(comparison).rows] == ["wdbc", "iris"]
    assert [row[0] for row in agreement_table(comparison).rows] == ["wdbc"]


def test_texts_become_html_once():
    assert as_html("ODM^L < 1•") == 'ODM<sup>L</sup> &lt; 1<span class="better">•</span>'


def test_tables_are_written_with_their_verdicts(tmp_path):
    write_tables(make_sections(results()), tmp_path)
    for name in ("tables.md", "tables.html"):
        text = (tmp_path / name).read_text()
        assert "rest on 5 of the paper&#x27;s 30" in text.replace("'", "&#x27;")
        assert "ODM against SVM: 3 wins" in text
    assert (tmp_path / "tables.tex").read_text().count(r"\begin{table}") == 3


def test_claims_about_margins_are_counted():
    def claim(dataset, right, minimum):
        kind = {"right": right, "minimum": minimum, "svm_minimum": 0.0, "smaller": minimum < 0}
        return {"dataset": dataset, "method": "odm", "geometric": kind, "functional": kind}

    first, second = margin_verdicts([claim("wdbc", 0.9, -1.0), claim("sonar", 0.2, -1.0)])
    assert "geometric margins: most lie to the right of the SVM's on 1 of 2 sets" in first
    assert second.endswith("smaller than the SVM's on 2.")


def test_effect_of_the_band_is_said():
    effect = [
        {"dataset": name, "D": D, "support": share, "accuracy": 0.9}
        for name, shares in {"wdbc": (0.9, 0.5), "sonar": (0.5, 0.7)}.items()
        for D, share in zip((0.0, 0.5), shares, strict=True)
    ]
    text = band_verdict(effect)
    assert "from 70 % to 60 % on average, without ever rising on 1 of 2 sets" in text


def test_tracked_results_cover_the_cited_methods():
    path = Path(__file__).parents[2] / "docs" / "study" / "results.csv"
    if not path.is_file():
        pytest.skip("the documentation is not here")
    units = [r.unit for r in read_export(path) if r.error is None]
    for table, method in [(2, "mamc"), (2, "mdo"), (2, "kmomd"), (3, "mamc"), (3, "kmomd")]:
        covered = {u.dataset for u in units if (u.table, u.method) == (table, method)}
        assert len(covered) >= 15


@pytest.mark.parametrize(
    ("counts", "word"),
    [((9, 1, 0), "Yes"), ((4, 6, 0), "A little"), ((1, 8, 1), "No clear"), ((0, 6, 4), "No:")],
)
def test_the_answer_follows_the_counts(counts, word):
    comparison = SimpleNamespace(
        datasets=["a"],
        methods=["odm_default", "svm_wide"],
        win_tie_loss=lambda ours, rival: counts,
        averages=lambda: {"odm_default": 0.81, "svm_wide": 0.8},
    )
    sentence = answer([comparison])
    assert sentence.startswith(word)
    assert f"in {counts[0] or 'none'} of 10 comparisons" in sentence
    assert sentence.endswith("1.0 points above.")
    assert answer([]) is None


def test_verdict_names_both_svms():
    sentences = verdicts(make_comparison(results(), 2))
    assert any("ODM against SVM: 3 wins, 0 ties, 0 losses" in s for s in sentences)
    assert any("SVM, wide grid: 0 wins, 0 ties, 3 losses" in s for s in sentences)


def test_quick_study_runs_reports_and_moves_to_another_store(tmp_path, monkeypatch):
    monkeypatch.delenv("OPTIMARGIN_DATA", raising=False)
    store = tmp_path / "s.sqlite"
    options = ["--store", str(store)]
    methods = "svm,mamc,odm_default,lda,svm_wide"
    small = ["run", "--quick", "--table", "2", "--datasets", "wdbc", "--methods", methods]
    small += ["--repeats", "1", *options]
    outcome = runner.invoke(app, small)
    assert outcome.exit_code == 0, outcome.output
    assert "wdbc" in outcome.output
    assert (
        "5 of 5 runs"
        in runner.invoke(
            app,
            [
                "status",
                "--table",
                "2",
                "--datasets",
                "wdbc",
                "--methods",
                methods,
                "--repeats",
                "1",
                *options,
            ],
        ).output
    )
    out = tmp_path / "report"
    outcome = runner.invoke(app, ["report", "--out", str(out), *options])
    assert outcome.exit_code == 0, outcome.output
    page = (out / "index.html").read_text()
    assert "wdbc" in page
    # The answer is the first sentence below the question.
    question, lead = re.search(r"<h1>(.*?)</h1>\s*<p class=\"lead\">(.*?):", page).groups()
    assert question.endswith("?")
    assert lead in ("Yes", "A little", "No clear difference", "No")
    assert "unit" not in re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", page, flags=re.DOTALL)
    assert not re.search(r'(src|href)="(http|//)', page)  # it works offline
    assert stat.S_IMODE((out / "index.html").stat().st_mode) == 0o644
    exported = tmp_path / "x.csv"
    assert runner.invoke(app, ["export", str(exported), *options]).exit_code == 0
    other = tmp_path / "other.sqlite"
    outcome = runner.invoke(app, ["import", str(exported), "--store", str(other)])
    assert "5 of 5 results were new" in outcome.output
    assert {r.unit for r in read_export(exported)} == Store(other).done()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--datasets", "germann"], "did you mean german"),
        (["run", "--methods", "swm"], "no method 'swm'"),
        (["run", "--table", "7"], "no table 7"),
        (["run", "--datasets", "isolet"], "Get it from"),
        (["run", "--scaling", "none", "--quick"], "--scaling none"),
        (["run", "--datasets", "wdbc", "--table", "4"], "Nothing to run"),
        (["status"], "does not exist"),
        (["report"], "does not exist"),
        (["import", "none.csv"], "cannot be read"),
    ],
)
def test_bad_request_is_one_clear_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPTIMARGIN_DATA", raising=False)
    monkeypatch.setenv("OPTIMARGIN_CACHE", str(tmp_path / "cache"))
    outcome = runner.invoke(app, arguments)
    assert outcome.exit_code == 1
    assert message in outcome.output
    assert "Traceback" not in outcome.output


def test_report_without_results_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no results to report"):
        write_report([], tmp_path)
    assert os.listdir(tmp_path) == []


def test_data_command_lists_and_fetches(monkeypatch, tmp_path):
    monkeypatch.delenv("OPTIMARGIN_DATA", raising=False)
    monkeypatch.setenv("OPTIMARGIN_CACHE", str(tmp_path))
    assert "kdd2010" in runner.invoke(data_app, ["list"]).output
    assert "569 x 30" in runner.invoke(data_app, ["fetch", "wdbc"]).output
    assert runner.invoke(data_app, ["fetch", "isolet"]).exit_code == 1
    assert runner.invoke(data_app, ["list", "--scale", "tiny"]).exit_code == 1
