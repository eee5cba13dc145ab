"""What has moved to `optimargin_study` is found under its old names, with a warning."""

import importlib

import pytest

import optimargin_study.baselines
import optimargin_study.datasets
import optimargin_study.report

pytestmark = pytest.mark.quick

NEW = {
    "optimargin.baselines": optimargin_study.baselines,
    "optimargin.datasets": optimargin_study.datasets,
    "optimargin.study": optimargin_study,
}
NAMES = [(old, name) for old, new in NEW.items() for name in new.__all__]


@pytest.mark.parametrize(("old", "name"), NAMES)
def test_every_name_leads_to_the_new_one(old, name):
    module = importlib.import_module(old)
    new = NEW[old]
    assert name in dir(module)
    with pytest.warns(DeprecationWarning, match=f"{old}.{name} has moved: use {new.__name__}"):
        assert getattr(module, name) is getattr(new, name)


def test_the_warning_is_about_the_line_that_imports():
    with pytest.warns(DeprecationWarning, match="write_report has moved") as caught:
        from optimargin.study.report import write_report
    assert write_report is optimargin_study.report.write_report
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize(
    "part",
    [
        *("export", "figures", "methods", "protocol", "report", "runner", "sample_sets"),
        *("selection", "statistics", "store", "tables"),
    ],
)
def test_parts_of_the_study_are_modules_under_their_old_names(part):
    study = importlib.import_module("optimargin.study")
    assert importlib.import_module(f"optimargin.study.{part}") is getattr(study, part)
    assert f"optimargin_study.{part}" in getattr(study, part).__doc__


def test_an_import_alone_warns_of_nothing(recwarn):
    importlib.import_module("optimargin.study")
    assert not [w for w in recwarn if issubclass(w.category, DeprecationWarning)]


def test_unknown_names_are_refused():
    study = importlib.import_module("optimargin.study")
    with pytest.raises(AttributeError, match="no attribute 'Shop'"):
        study.Shop  # noqa: B018
    with pytest.raises(ImportError):
        importlib.import_module("optimargin.study.nothing")
