"""Parsers of option values, for argparse. `./twins` imports this module: standard library only,
Python 3.9 or later.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Iterable
from typing import Any

from ftrun.configurations import CONFIGURATIONS

Parser = Callable[[str], Any]
Option = tuple[str, Parser, Any, str, str]
"""An option with a value: the option's name, the value's parser,
default and name, and the help text.
"""


def add_all(group: argparse._ActionsContainer, options: Iterable[Option]) -> None:
    """Add `options` to a group of an argparse parser.
    Each option's default is appended to its help text.
    """
    for name, parse, default, metavar, text in options:
        group.add_argument(
            name,
            type=parse,
            default=default,
            metavar=metavar,
            help=f"{text} (default: {default:g})",
        )


def hint(name: str, choices: Iterable[str]) -> str:
    """Return ": did you mean NAME?" with the most similar of the `choices`;
    "" if none is similar.
    """
    close = difflib.get_close_matches(name, choices, n=1)
    return f": did you mean {close[0]!r}?" if close else ""


def number(description: str, least: float, most: float, kind: type = float) -> Parser:
    """Return an argparse type for numbers from `least` to `most`.
    The error message has their `description`.
    """

    def parse(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        is_number = value is not None and least <= value <= most
        if not is_number or (kind is int and not text.isdecimal()):
            raise argparse.ArgumentTypeError(f"{text!r} is not {description}")
        return value

    return parse


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return an argparse type for whole numbers from `least` to `most`."""
    return number(f"a whole number from {least} to {most}", least, most, int)


def configurations(text: str) -> tuple[str, ...]:
    """Return the names in a comma-separated list of configurations,
    in the order of CONFIGURATIONS.
    """
    names = text.split(",")
    unknown = [repr(name) for name in names if name not in CONFIGURATIONS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"unknown: {', '.join(unknown)}; known: {', '.join(CONFIGURATIONS)}"
        )
    return tuple(name for name in CONFIGURATIONS if name in names)


def endpoint(text: str) -> tuple[str, str]:
    """Parse ft=ENDPOINT or gil=ENDPOINT (a Python,
    or a server's unix:PATH); return (twin, endpoint).
    """
    name, _, where = text.partition("=")
    if name not in ("ft", "gil") or not where:
        raise argparse.ArgumentTypeError(f"{text!r} is not ft=ENDPOINT or gil=ENDPOINT")
    return name, where
