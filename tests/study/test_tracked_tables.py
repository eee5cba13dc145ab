"""The tables that readers of the repository see are those of the tracked results."""

from pathlib import Path

from optimargin_study import read_export
from optimargin_study.report import make_sections, write_tables

STUDY = Path(__file__).parents[2] / "docs" / "study"


def test_tracked_tables_follow_from_the_tracked_results(tmp_path):
    write_tables(make_sections(read_export(STUDY / "results.csv")), tmp_path)
    assert (tmp_path / "tables.md").read_text() == (STUDY / "tables.md").read_text()
