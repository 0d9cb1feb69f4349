"""The state of the GIL, and the modules that turn it on."""

import contextlib
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from ftrun.configurations import child_environment, gil_enabled, this_twin
from ftsafety.audit import kinds
from ftsafety.audit.report import Finding

_MESSAGE = re.compile(r"global interpreter lock \(GIL\) has been enabled to load module '([^']+)'")
_PROBE = """
import sys, warnings
warnings.simplefilter("error", RuntimeWarning)
for name in sys.argv[1:]:
    try:
        __import__(name)
    except RuntimeWarning as warning:
        print(warning)
    except Exception:
        pass
    if sys._is_gil_enabled():
        print("CULPRIT", name)
        break
"""


class Enabled(NamedTuple):
    """A module whose import turned the GIL on."""

    module: str
    where: str
    """"file:line" of the import, or ""."""


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
def noticing() -> Iterator[list[Enabled]]:
    """Context manager: a list of the interpreter's warnings that a module has turned the GIL on."""
    found: list[Enabled] = []
    show = warnings.showwarning

    def notice(message, category, filename, lineno, file=None, line=None):
        match = _MESSAGE.search(str(message))
        if match:
            found.append(Enabled(match[1], f"{filename}:{lineno}"))
        else:
            show(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        warnings.filterwarnings("always", message="The global interpreter lock", category=RuntimeWarning)
        warnings.showwarning = notice
        yield found


def turns_on(names: list[str], seconds: float = 60) -> str | None:
    """Return the first of the modules *names* whose import turns the GIL on, in a fresh interpreter."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        line = [sys.executable, "-c", _PROBE, *names]
        answer = subprocess.run(
            line, env=child_environment(), input="", capture_output=True, text=True, timeout=seconds
        )
        match = re.search(r"^CULPRIT (.*)$", answer.stdout, re.M)
        return match[1] if match else None
    return None


def third_party_extensions() -> list[str]:
    """Return the loaded top-level packages of third parties that have extension modules."""
    files = ((name, getattr(module, "__file__", None) or "") for name, module in list(sys.modules.items()))
    return sorted({name.partition(".")[0] for name, file in files if file.endswith(".so") and "-packages" in file})


def findings(turned_on: list[Enabled]) -> list[Finding]:
    """Return findings of modules that turn the GIL on, each tried again in a fresh interpreter."""
    if this_twin() != "ft" or not gil_enabled() or forced():
        return []
    confirmed = [each for each in turned_on if turns_on([each.module])]
    if not confirmed and (culprit := turns_on(third_party_extensions())):
        confirmed = [Enabled(culprit, f"import {culprit}")]
    return [kinds.make("gil-enabled", where, module=module) for module, where in confirmed]
