"""The study is a program like any other: it uses what the library documents, and nothing else."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import optimargin_study

pytestmark = pytest.mark.quick

DOCS = Path(__file__).parents[2] / "docs"
STUDY = Path(optimargin_study.__file__).parent
# What the study needed and was not public before.
MADE_PUBLIC = {
    "optimargin.ODMClassifierCV.objective_type": "machines whose parameters are restricted",
    "optimargin.io.write_bytes": "files that are written completely or not at all",
    "optimargin.kernels.resolve_gamma": "the mean distance, and gamma of the baselines",
    "optimargin.ldm_path_decision": "the paper's grid of ODM^L in a fiftieth of the time",
    "optimargin.objectives.ODM": "what is restricted",
    "optimargin.selection.place_of_best": "ties are resolved by one rule",
}


def documented_names():
    """Return the full names that the API reference and the developers' pages describe."""
    names = set()
    for page in [*DOCS.glob("api/*.rst"), *DOCS.glob("developers/*.rst")]:
        module, is_summary = "", False
        for line in page.read_text(encoding="utf-8").splitlines():
            directive = re.match(r"\.\. (\w+):: *(\S*)", line)
            if directive and directive[1] == "currentmodule":
                module = directive[2]
            elif directive and directive[1].startswith("auto") and directive[2]:
                names.add(directive[2])
            if line and not line.startswith(" "):
                is_summary = line.startswith(".. autosummary::")
            elif is_summary and re.fullmatch(r"   [\w.]+", line):
                names.add(f"{module}.{line.strip()}")
    return names


def names_of_the_library(tree):
    """Yield the full names that a module takes from the library."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == "optimargin")
        elif isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "optimargin":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def private_attributes(tree):
    """Yield the private attributes that are asked of anything but the module's own objects."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and re.match("_[^_]", node.attr)
            and ast.unparse(node.value) not in ("self", "cls", "super()")
        ):
            yield ast.unparse(node)


MODULES = sorted(STUDY.rglob("*.py"))
TREES = {str(p.relative_to(STUDY)): ast.parse(p.read_text(encoding="utf-8")) for p in MODULES}


@pytest.mark.parametrize("module", TREES)
def test_only_documented_names_of_the_library_are_used(module):
    used = set(names_of_the_library(TREES[module]))
    assert used - {"optimargin"} <= documented_names()
    assert not set(private_attributes(TREES[module]))


def test_imports_are_in_sight():
    assert not [m for m, tree in TREES.items() if "import_module('optimargin." in ast.unparse(tree)]
    assert all(node.level == 0 for tree in TREES.values() for node in imports_from(tree))


def imports_from(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


def test_few_names_were_made_public_for_it():
    used = {name for tree in TREES.values() for name in names_of_the_library(tree)}
    used.add("optimargin.ODMClassifierCV.objective_type")
    assert len(MADE_PUBLIC) <= 6
    assert set(MADE_PUBLIC) <= documented_names() & used


def test_every_name_of_the_study_is_there():
    for name in optimargin_study.__all__:
        assert getattr(optimargin_study, name) is not None
        assert name in dir(optimargin_study)
    with pytest.raises(AttributeError, match="no attribute 'Shop'"):
        optimargin_study.Shop  # noqa: B018


@pytest.mark.parametrize(
    ("imported", "not_loaded"),
    [
        ("optimargin", ("optimargin_study",)),
        ("optimargin.cli", ("optimargin_study", "pandas")),
        ("optimargin_study.baselines", ("optimargin_study.datasets", "matplotlib")),
        ("optimargin_study.datasets", ("optimargin_study.methods", "matplotlib")),
    ],
)
def test_what_is_not_needed_is_not_loaded(imported, not_loaded):
    code = f"import sys, {imported}; print([n for n in {not_loaded!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
