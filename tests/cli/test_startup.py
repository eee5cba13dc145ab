"""The command imports what it needs, and nothing slow besides."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from optimargin.cli._startup import deferred


@pytest.fixture
def slow_module(tmp_path, monkeypatch):
    """A module that counts how often it was loaded, in `sys.slow_loads`."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "slow_loads", 0, raising=False)
    (tmp_path / "slow_module.py").write_text("import sys\nsys.slow_loads += 1\nanswer = 42\n")
    (tmp_path / "hasty_module.py").write_text("import slow_module\nslow = slow_module\n")
    (tmp_path / "eager_module.py").write_text("from slow_module import answer\n")
    yield "slow_module"
    for name in ("slow_module", "hasty_module", "eager_module"):
        sys.modules.pop(name, None)


def test_a_deferred_module_loads_once_when_it_is_used(slow_module):
    with deferred(slow_module):
        hasty = importlib.import_module("hasty_module")
    assert sys.slow_loads == 0
    assert slow_module not in sys.modules
    assert hasty.slow.answer == 42
    assert hasty.slow.answer == importlib.import_module(slow_module).answer
    assert sys.slow_loads == 1
    with pytest.raises(AttributeError, match="nothing"):
        hasty.slow.nothing  # noqa: B018


def test_use_within_the_block_loads_it(slow_module):
    with deferred(slow_module):
        assert importlib.import_module("eager_module").answer == 42
    assert sys.slow_loads == 1
    assert sys.modules[slow_module].answer == 42


def test_modules_that_are_loaded_or_missing_are_left_alone(slow_module):
    module = importlib.import_module(slow_module)
    with deferred(slow_module, "no_such_module"):
        assert sys.modules[slow_module] is module
        assert "no_such_module" not in sys.modules
    assert sys.modules[slow_module] is module


def test_training_loads_nothing_slow(tmp_path):
    data = tmp_path / "data.svm"
    data.write_text("".join(f"{(-1) ** k} 1:{k % 7} 2:{k % 3}\n" for k in range(40)))
    code = """if True:
        import sys
        from optimargin.cli import main
        try:
            main(["train", sys.argv[1], sys.argv[2], "--linear", "-q"])
        except SystemExit as ended:
            assert not ended.code
        slow = ("scipy.stats", "pandas", "skops", "sklearn.preprocessing", "sklearn.svm")
        print(*(name for name in slow if name in sys.modules))
    """
    done = subprocess.run(
        [sys.executable, "-c", code, str(data), str(tmp_path / "model")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "\n"
    assert Path(tmp_path / "model").exists()
