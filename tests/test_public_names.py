"""What `import optimargin` offers."""

import subprocess
import sys

import pytest

import optimargin

pytestmark = pytest.mark.quick


def test_every_public_name_is_there():
    assert set(optimargin._MODULES) == set(optimargin.__all__)
    for name in optimargin.__all__:
        assert getattr(optimargin, name).__name__ == name
        assert name in dir(optimargin)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'ODMClasifier'"):
        optimargin.ODMClasifier  # noqa: B018


def test_import_is_quick():
    code = "import optimargin, sys; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
