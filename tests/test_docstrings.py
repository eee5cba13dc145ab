"""The examples in docstrings do what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

import optimargin
import optimargin_study

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

PACKAGES = [Path(package.__file__).parent for package in (optimargin, optimargin_study)]


def modules_with_examples():
    """Return the modules whose source has examples."""
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            if ">>> " in path.read_text():
                yield ".".join(path.relative_to(package.parent).with_suffix("").parts)


@pytest.mark.parametrize("name", list(modules_with_examples()))
def test_examples_print_what_they_say(name):
    if name == "optimargin.onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("skl2onnx")
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
