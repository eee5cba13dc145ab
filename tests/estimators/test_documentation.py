"""Estimators share texts of their documentation; each shows all of them."""

import inspect
import subprocess
import sys

import pytest
from sklearn.base import BaseEstimator

import optimargin
from optimargin.estimators._documentation import described

ESTIMATORS = [
    value
    for value in (getattr(optimargin, name) for name in optimargin.__all__)
    if inspect.isclass(value) and issubclass(value, BaseEstimator)
]


def entries(docstring, section):
    """Return the entries of a section by name: what stands beside the name, and below it."""
    _, _, rest = inspect.cleandoc(docstring).partition(f"\n{section}\n{'-' * len(section)}\n")
    found: dict[str, list[str]] = {}
    names = []
    for line, following in zip(rest.splitlines(), [*rest.splitlines()[1:], ""], strict=True):
        if set(following) == {"-"}:
            break
        if line and not line.startswith(" "):
            names = [name.strip() for name in line.partition(" : ")[0].split(", ")]
            found |= {name: [line.partition(" : ")[2]] for name in names}
        elif line:
            for name in names:
                found[name].append(line)
    return found


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_parameter_is_described(estimator):
    about = entries(estimator.__doc__, "Parameters")
    parameters = inspect.signature(estimator).parameters
    assert set(about) == set(parameters)
    for name, (kind, *text) in about.items():
        assert text, name
        default = parameters[name].default
        told = kind.rpartition("default=")[2]
        if told:  # a reference to another estimator has none
            assert eval(told) == default, name


class Base:
    """Describes a parameter and two attributes.

    Parameters
    ----------
    first : int, default=1
        Text of the first.

        It has two paragraphs.

    Attributes
    ----------
    one_, two_ : float
        Text of both.
    """


def test_names_stand_for_the_text_of_a_base():
    @described()
    class Estimator(Base):
        """An estimator.

        Parameters
        ----------
        own : str
            An own text.
        first

        Attributes
        ----------
        one_, two_

        Notes
        -----
        first
        """

    assert entries(Estimator.__doc__, "Parameters") == {
        "own": ["str", "    An own text."],
        "first": ["int, default=1", "    Text of the first.", "    It has two paragraphs."],
    }
    assert Estimator.__doc__.count("one_, two_ : float\n    Text of both.\n\nNotes") == 1
    assert Estimator.__doc__.endswith("-----\nfirst")


def test_an_entry_keeps_its_own_type_and_default():
    @described(Base)
    def function(first):
        """Do something.

        Parameters
        ----------
        first : int, default=2
        """

    assert entries(function.__doc__, "Parameters")["first"][:2] == [
        "int, default=2",
        "    Text of the first.",
    ]


def test_a_name_that_nothing_describes_is_an_error():
    with pytest.raises(ValueError, match=r"nothing describes \['third'\]"):

        @described(Base)
        class Estimator:
            """An estimator.

            Parameters
            ----------
            first, third
            """


@pytest.mark.parametrize("module", ["optimargin.estimators.odm_cv", "optimargin.dask"])
def test_python_may_drop_docstrings(module):
    if module == "optimargin.dask":
        pytest.importorskip("distributed")
    subprocess.run([sys.executable, "-OO", "-c", f"import {module}"], check=True)
