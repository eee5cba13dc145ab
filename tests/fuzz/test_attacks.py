"""A few cases of every attack: long runs should find the errors of the library, not their own."""

from importlib import import_module

import numpy as np
import pytest

from tests.fuzz.worker import KINDS

SLOW = {"kill_study", "kill_worker", "interrupts"}


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.slow) if k in SLOW else k for k in KINDS]
)
def test_attacks_find_nothing(kind):
    module, function = KINDS[kind].split(":")
    attack = getattr(import_module(module), function)
    for number in range(3):
        found = attack(np.random.default_rng([number, *kind.encode()]))
        assert "failure" not in found, found
