"""The documentation of estimators: texts that several share, and the page of each."""

import re
from functools import cache
from importlib.metadata import metadata
from inspect import cleandoc, isclass

_SECTION = re.compile(r"(?m)(?<=^(?:Parameters|Attributes)\n-{10}\n)(?:.+\n?|\n(?= ))+")
_ENTRY = re.compile(r"(?m)^(?P<names>[\w*][\w*, ]*)(?P<kind> : .+)?(?P<text>(?:\n+ .+)*)$")


def described(*sources):
    """Complete the docstring of a class or function by texts of others.

    In its sections Parameters and Attributes, a line of names alone, as ``tol, max_iter``, stands
    for what the bases of a class, or else the sources, say about them: type, default and text. An
    entry that has a type, but no text, keeps its type and takes the text. A paragraph of three
    dots stands for the paragraphs of the first source that come before its parameters.

    Parameters
    ----------
    *sources : class or function
        Whose docstrings describe the names; the first that does is taken.

    Returns
    -------
    decorator : callable
        It raises ValueError where a name is described nowhere.
    """

    def decorate(documented):
        bases = documented.__mro__[1:] if isclass(documented) else ()
        known = _entries(source.__doc__ for source in (*bases, *sources))

        def complete(entry):
            names, kind, text = entry.group("names", "kind", "text")
            if text:
                return entry[0]
            if kind:
                return entry[0] + (known[names]["text"] if names in known else "")
            missing = [name for name in names.split(", ") if name not in known]
            if missing:
                raise ValueError(f"{documented.__qualname__}: nothing describes {missing}.")
            # C1_ and C2_ may be one entry.
            return "\n".join(dict.fromkeys(known[name][0] for name in names.split(", ")))

        if documented.__doc__:  # there is none with python -OO
            text = cleandoc(documented.__doc__)
            if "\n\n...\n" in text:
                first = cleandoc(sources[0].__doc__).partition("\n\nParameters\n")[0]
                text = text.replace("...", first.partition("\n\n")[2], 1)
            documented.__doc__ = _SECTION.sub(lambda part: _ENTRY.sub(complete, part[0]), text)
        return documented

    return decorate


def _entries(docstrings):
    """Return the entries of docstrings that have a text, by each of their names."""
    known: dict[str, re.Match] = {}
    for docstring in docstrings:
        for section in _SECTION.findall(cleandoc(docstring or "")):
            for entry in _ENTRY.finditer(section):
                names = entry["names"]
                if entry["text"]:
                    for name in (names, *names.split(", ")):
                        known.setdefault(name, entry)
    return known


@cache
def documentation_url():
    """Return the address under ``Documentation`` in the package's metadata, or None."""
    for entry in metadata("optimargin").get_all("Project-URL") or []:
        name, _, address = entry.partition(", ")
        if name == "Documentation":
            return address.rstrip("/")
    return None


class DocLinkMixin:
    """Link an estimator to its page; without a published documentation there is no link.

    Pages are named as estimators are imported: from the package, whatever module has the code.
    """

    _doc_link_module = "optimargin"

    @property
    def _doc_link_template(self):
        home = documentation_url()
        return f"{home}/generated/optimargin.{{estimator_name}}.html" if home else ""
