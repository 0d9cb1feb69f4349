"""The state of the GIL, and findings for the modules that turn it on."""

import os
import sys

from ftrun.configurations import gil_enabled, this_twin
from ftrun.gil import TurnedOn
from ftsafety.audit import kinds
from ftsafety.audit.report import Finding, SourceLine


def forced() -> bool:
    """True if the user turned the GIL on, by PYTHON_GIL=1 or -X gil=1."""
    if "gil" in sys._xoptions:
        return sys._xoptions["gil"] == "1"
    return os.environ.get("PYTHON_GIL") == "1" and not sys.flags.ignore_environment


def describe() -> str:
    """Return the interpreter's version and the state of its GIL, in words."""
    version = ".".join(map(str, sys.version_info[:3]))
    if this_twin() != "ft":
        return f"CPython {version} with the GIL"
    state = "on" if gil_enabled() else "off"
    if forced():
        state += " (forced)"
    return f"CPython {version} free-threaded, the GIL {state}"


def findings(turned_on: list[TurnedOn]) -> list[Finding]:
    """Return findings for imports that turned the GIL on."""
    imports = []
    for entry in turned_on:
        line = SourceLine(entry.filename, entry.number)
        imports.append(kinds.make("gil-enabled", line, module=entry.module))
    return imports
