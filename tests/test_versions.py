"""Bug reports name versions."""

import pytest

import optimargin

pytestmark = pytest.mark.quick


def test_versions_name_what_a_report_needs(capsys):
    optimargin.show_versions()
    shown = capsys.readouterr().out
    for word in ("python", "platform", "processors", "scikit-learn", "threads"):
        assert f"\n{word} " in f"\n{shown}"
    assert f"optimargin     {optimargin.__version__}" in shown
