"""The state of the GIL, and findings for the modules that turn it on."""

import os
import sys

from ftrun.configurations import gil_enabled, this_twin
from ftrun.gil import TurnedOn
from ftsafety.audit import kinds
from ftsafety.audit.report import Finding, Line


def forced() -> bool:
    """True if the user turned the GIL on, by PYTHON_GIL=1 or -X gil=1."""
    return sys._xoptions.get("gil") == "1" or (
        os.environ.get("PYTHON_GIL") == "1" and "gil" not in sys._xoptions and not sys.flags.ignore_environment
    )


def describe() -> str:
    """Return the interpreter's version and the state of its GIL, in words."""
    version = ".".join(map(str, sys.version_info[:3]))
    if this_twin() != "ft":
        return f"CPython {version} with the GIL"
    state = "on" if gil_enabled() else "off"
    return f"CPython {version} free-threaded, the GIL {state}{' (forced)' if forced() else ''}"


def findings(turned_on: list[TurnedOn]) -> list[Finding]:
    """Return findings for imports that turned the GIL on."""
    return [kinds.make("gil-enabled", Line(each.filename, each.number), module=each.module) for each in turned_on]
