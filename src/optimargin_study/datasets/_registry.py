"""The data sets of the paper's Table 1 and their sources."""

import tomllib
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class PaperSet:
    """One data set of the paper.

    Attributes
    ----------
    name : str
    scale : {"regular", "large"}
    instances, features : int
        As the paper reports them.
    licence : str
    shape : tuple of int or None
        Instances and features of the form used here, if they differ from the paper's.
    class_counts : tuple of int
        Largest first; empty if no copy was available.
    file, sha256 : str or None
        The file in the mirror that was used.
    reader : str or None
        How the originals are read; None if they cannot be downloaded automatically.
    urls : tuple of str
        The originals.
    page : str or None
        The web page of the data.
    form : str or None
        What has to be done manually.
    differs : str or None
        How the form used here differs from the paper's.
    aliases : tuple of str
    categories : dict of str to list of str
        The order of the values of columns, if it is not the natural order.
    """

    name: str
    scale: str
    instances: int
    features: int
    licence: str
    shape: tuple[int, ...] | None = None
    class_counts: tuple[int, ...] = ()
    file: str | None = None
    sha256: str | None = None
    reader: str | None = None
    urls: tuple[str, ...] = ()
    page: str | None = None
    form: str | None = None
    differs: str | None = None
    aliases: tuple[str, ...] = ()
    categories: dict[str, list[str]] = field(default_factory=dict)

    @property
    def expected_shape(self):
        """Instances and features of the form used here."""
        return self.shape or (self.instances, self.features)


@cache
def registry():
    """Return every `PaperSet` by name, in the order of Table 1."""
    text = (files(__package__) / "registry.toml").read_text(encoding="utf-8")
    sets = {}
    for name, fields in tomllib.loads(text).items():
        values: dict[str, Any] = {
            key: tuple(v) if isinstance(v, list) else v for key, v in fields.items()
        }
        sets[name] = PaperSet(name=name, **values)
    return sets


def find_set(name):
    """Return the `PaperSet` of a name or an alias.

    Parameters
    ----------
    name : str

    Raises
    ------
    ValueError
        If the paper has no such set; the message names similar ones.

    Examples
    --------
    >>> from optimargin_study.datasets import find_set
    >>> find_set("kdda2010").name
    'kdd2010'
    """
    sets = registry()
    if name in sets:
        return sets[name]
    by_alias = {alias: s for s in sets.values() for alias in s.aliases}
    if name in by_alias:
        return by_alias[name]
    if not isinstance(name, str):
        raise TypeError(f"name must be a string such as 'german', got {name!r}.")
    similar = get_close_matches(name, [*sets, *by_alias], n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(similar)}?" if similar else "see list_paper_datasets()."
    raise ValueError(f"The paper has no data set {name!r}: {hint}")
