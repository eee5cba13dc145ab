"""Options that several commands share, written once."""

import sys
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from signal import SIGINT

import typer

INTERRUPTED = 128 + SIGINT
"""The exit code after Ctrl-C, as shells use it."""


def grouped(command):
    """Return a command with one parameter per option, as typer needs it; Ctrl-C ends it in words.

    Parameters
    ----------
    command : callable
        A parameter annotated with a dataclass becomes one option per field.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from inspect import signature
    >>> from optimargin.cli._groups import grouped
    >>> @dataclass
    ... class Showing:
    ...     json: bool = False
    ...     quiet: bool = False
    >>> @grouped
    ... def greet(*, name: str, showing: Showing):
    ...     return name if showing.quiet else f"Hello {name}"
    >>> print(signature(greet))
    (*, name: str, json: bool = False, quiet: bool = False)
    >>> greet(name="you", json=False, quiet=False)
    'Hello you'
    """
    groups = {}
    spelled = []
    for parameter in signature(command).parameters.values():
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = fields(parameter.annotation)
            spelled += [
                Parameter(f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type)
                for f in groups[parameter.name]
            ]
        else:
            spelled.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
    types = signature(command).parameters

    @wraps(command)
    def spelled_out(**options):
        for name, members in groups.items():
            values = {f.name: options.pop(f.name) for f in members}
            options[name] = types[name].annotation(**values)
        try:
            return command(**options)
        except KeyboardInterrupt as stop:
            print(
                f"optimargin: interrupted: {str(stop) or 'nothing was written'}.", file=sys.stderr
            )
            raise typer.Exit(INTERRUPTED) from None

    setattr(spelled_out, "__signature__", Signature(spelled))  # noqa: B010, which mypy needs
    spelled_out.__annotations__ = {p.name: p.annotation for p in spelled}
    return spelled_out
