"""Interpreters that the user names in the environment variables FT_PYTHON and GIL_PYTHON."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import subprocess

from . import TwinsError

VARIABLE = {"ft": "FT_PYTHON", "gil": "GIL_PYTHON"}
KIND = {"ft": "free-threaded", "gil": "with-GIL"}
SERIES = ("3.13", "3.14")
"""CPython series for which the locked packages have wheels."""

_ASK = """
import json, platform, sys, sysconfig
print(json.dumps({
    "implementation": platform.python_implementation(),
    "series": "%d.%d" % sys.version_info[:2],
    "version": platform.python_version(),
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "pgo": "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or ""),
    "build": sys.version,
}))
"""


@functools.cache
def _facts(executable: str) -> dict:
    """Run an interpreter; return its version and build. Raises OSError, SubprocessError or
    ValueError if that fails.
    """
    # -I -S: environment variables and site-packages must not change the answer.
    answer = subprocess.run(
        [executable, "-I", "-S", "-c", _ASK], capture_output=True, text=True, timeout=30, check=True
    )
    facts = json.loads(answer.stdout)
    if not isinstance(facts, dict):
        raise ValueError("it answers something else")
    return facts


def brought_series() -> str | None:
    """Return the series of the interpreter in FT_PYTHON,
    or else in GIL_PYTHON; None if neither of them runs.
    """
    for variable in VARIABLE.values():
        executable = shutil.which(os.environ.get(variable) or "")
        if executable:
            try:
                return str(_facts(executable)["series"])
            except (OSError, subprocess.SubprocessError, ValueError, KeyError):
                continue  # brought() says what is wrong
    return None


def brought(twin: str, series: str) -> dict | None:
    """Return facts about the interpreter that FT_PYTHON or GIL_PYTHON names for `twin`; None if the
    variable is unset.

    The keys are `executable`, `version`, `pgo` (True if optimised) and `identity` (a short hash of
    path and build). Raises TwinsError if the program does not run, is no CPython of `series`, or is
    not the build that `twin` needs.
    """
    variable = VARIABLE[twin]
    named = os.environ.get(variable)
    if not named:
        return None
    required = f"it must be a {KIND[twin]} CPython {series}"
    executable = shutil.which(named)
    if executable is None:
        raise TwinsError(f"{variable}={named}: there is no such program; {required}", 2)
    try:
        facts = _facts(executable)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        detail = (getattr(error, "stderr", None) or str(error)).strip() or "no output"
        last = detail.splitlines()[-1]
        raise TwinsError(
            f"{variable}={named} does not run as a Python ({last}); {required}", 2
        ) from error
    if complaint := _complaint(facts, twin, series, required):
        raise TwinsError(f"{variable}={named} {complaint}", 2)
    real = os.path.realpath(executable)
    identity = hashlib.sha256(
        f"{real} {facts['build']} {os.stat(real).st_mtime_ns}".encode()
    ).hexdigest()[:12]
    return {
        "executable": executable,
        "version": facts["version"],
        "pgo": facts["pgo"],
        "identity": identity,
    }


def _complaint(facts: dict, twin: str, series: str, required: str) -> str:
    """Return an error message if an interpreter is not the one that `twin` needs, else ""."""
    kind = KIND["ft" if facts["free_threaded"] else "gil"]
    is_now = f"is {facts['implementation']} {facts['version']}, {kind} build"
    if facts["implementation"] != "CPython" or facts["series"] != series:
        if facts["series"] in SERIES:
            return f"{is_now}; {required} (PYTHON_SERIES={facts['series']} chooses another series)"
        return f"{is_now}; {required}"
    if facts["free_threaded"] != (twin == "ft"):
        return f"{is_now}; {required}"
    return ""
