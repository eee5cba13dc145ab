"""The examples in docstrings do what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

import optimargin

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

PACKAGE = Path(optimargin.__file__).parent


def modules_with_examples():
    """Return the modules whose source has examples."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if ">>> " in path.read_text():
            yield ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


@pytest.mark.parametrize("name", list(modules_with_examples()))
def test_examples_print_what_they_say(name):
    if name == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("skl2onnx")
    result = doctest.testmod(importlib.import_module(f"optimargin.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
