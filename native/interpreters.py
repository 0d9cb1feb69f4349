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
    """Run an interpreter; return its version and build. Raises OSError, SubprocessError or ValueError if that fails."""
    # -I -S: environment variables and site-packages must not change the answer.
    answer = subprocess.run(
        [executable, "-I", "-S", "-c", _ASK], capture_output=True, text=True, timeout=30, check=True
    )
    found = json.loads(answer.stdout)
    if not isinstance(found, dict):
        raise ValueError("it answers something else")
    return found


def brought_series() -> str | None:
    """Return the series of the interpreter in FT_PYTHON, or else in GIL_PYTHON; None if neither of them runs."""
    for variable in VARIABLE.values():
        executable = shutil.which(os.environ.get(variable) or "")
        if executable:
            try:
                return str(_facts(executable)["series"])
            except (OSError, subprocess.SubprocessError, ValueError, KeyError):
                continue  # brought() says what is wrong
    return None


def brought(twin: str, series: str) -> dict | None:
    """Return facts about the interpreter that FT_PYTHON or GIL_PYTHON names for `twin`; None if the variable is unset.

    The keys are `executable`, `version`, `pgo` (True if optimised) and `identity` (a short hash of path and build).
    Raises TwinsError if the program does not run, is no CPython of `series`, or is not the build that `twin` needs.
    """
    variable = VARIABLE[twin]
    named = os.environ.get(variable)
    if not named:
        return None
    wanted = f"a {KIND[twin]} CPython {series}"
    executable = shutil.which(named)
    if executable is None:
        raise TwinsError(f"{variable}={named}: there is no such program; it must be {wanted}", 2)
    try:
        found = _facts(executable)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        detail = (getattr(error, "stderr", None) or str(error)).strip()
        last = detail.splitlines()[-1] if detail else "no output"
        raise TwinsError(f"{variable}={named} does not run as a Python ({last}); it must be {wanted}", 2) from error
    is_now = f"{found['implementation']} {found['version']}, {KIND['ft' if found['free_threaded'] else 'gil']} build"
    if found["implementation"] != "CPython" or found["series"] != series:
        other = f" (PYTHON_SERIES={found['series']} chooses another series)" if found["series"] in SERIES else ""
        raise TwinsError(f"{variable}={named} is {is_now}; it must be {wanted}{other}", 2)
    if found["free_threaded"] != (twin == "ft"):
        raise TwinsError(f"{variable}={named} is {is_now}; it must be {wanted}", 2)
    real = os.path.realpath(executable)
    identity = hashlib.sha256(f"{real} {found['build']} {os.stat(real).st_mtime_ns}".encode()).hexdigest()[:12]
    return {"executable": executable, "version": found["version"], "pgo": found["pgo"], "identity": identity}
