"""The examples in docstrings do what they say."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("module", ["_path", "_ldm_path", "_odm_mixin", "_odm_cv", "_ldm_cv"])
def test_examples_print_what_they_say(module):
    result = doctest.testmod(importlib.import_module(f"optimargin.{module}"))
    assert result.attempted > 0
    assert result.failed == 0
