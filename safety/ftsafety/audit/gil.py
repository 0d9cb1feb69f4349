"""The state of the GIL, and the modules that turn it on."""

import contextlib
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator

from ftrun import imports
from ftrun.configurations import gil_enabled, this_twin
from ftsafety.audit import kinds
from ftsafety.audit.report import Finding

_MESSAGE = re.compile(r"global interpreter lock \(GIL\) has been enabled to load module '([^']+)'")


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


@contextlib.contextmanager
def noticing() -> Iterator[list[tuple[str, str]]]:
    """Context manager: collect each module that turns the GIL on, as (module, "file:line" of its import)."""
    found: list[tuple[str, str]] = []
    show = warnings.showwarning

    def notice(message, category, filename, lineno, file=None, line=None):
        match = _MESSAGE.search(str(message))
        if match:
            # The warning names the import system, whose frames lie between the import and this one.
            frame = sys._getframe(1)
            skipped = ("<frozen importlib", warnings.__file__)
            while frame.f_back and frame.f_code.co_filename.startswith(skipped):
                frame = frame.f_back
            found.append((match[1], f"{frame.f_code.co_filename}:{frame.f_lineno}"))
        else:
            show(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        warnings.filterwarnings("always", message="The global interpreter lock", category=RuntimeWarning)
        warnings.showwarning = notice
        yield found


def turns_on(names: list[str], seconds: float = 60) -> str | None:
    """Return the first module of *names* whose import turns the GIL on in a fresh interpreter.

    Returns None if no module does, or if all imports together take longer than *seconds*.
    """
    with contextlib.suppress(subprocess.TimeoutExpired):
        folders = [folder or os.getcwd() for folder in sys.path]  # a module may be next to the dataset's file
        verdicts = imports.judge_modules([(name, "", [name], []) for name in names], seconds, folders)
        return next((verdict.name for verdict in verdicts if verdict.gil_enabled_after_import), None)
    return None


def third_party_extensions() -> list[str]:
    """Return the names of imported third-party packages that contain extension modules."""
    files = ((name, getattr(module, "__file__", None) or "") for name, module in list(sys.modules.items()))
    return sorted({name.partition(".")[0] for name, file in files if file.endswith(".so") and "-packages" in file})


def findings(turned_on: list[tuple[str, str]]) -> list[Finding]:
    """Return findings for modules that turn the GIL on in a fresh interpreter too. *turned_on*: see `noticing`."""
    if this_twin() != "ft" or not gil_enabled() or forced():
        return []
    confirmed = [each for each in turned_on if turns_on([each[0]])]
    if not confirmed and (culprit := turns_on(third_party_extensions())):
        confirmed = [(culprit, f"import {culprit}")]
    return [kinds.make("gil-enabled", where, module=module) for module, where in confirmed]
