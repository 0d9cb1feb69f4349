"""Interpreters that uv downloads, and the variable PYTHON_FROM, which chooses between them and
those that are built from source.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

from . import TwinsError, cache, machine
from .progress import Progress

CHOICES = ("auto", "download", "source")
LIST = "UV_PYTHON_DOWNLOADS_JSON_URL"
"""Variable that names another list of releases than the one in uv."""

_SCRIPT = Path(__file__).resolve().parent.parent / "docker" / "download-cpython"


def choice() -> str:
    """Return where interpreters may come from, one of CHOICES: PYTHON_FROM, by default "auto".
    A PYTHON_SUITE leaves only "source". Raises TwinsError for contradictions.
    """
    named = os.environ.get("PYTHON_FROM") or "auto"
    suite = os.environ.get("PYTHON_SUITE")
    if named not in CHOICES:
        raise TwinsError(f"PYTHON_FROM={named}: must be one of {', '.join(CHOICES)}", 2)
    if not suite:
        return named
    if named == "download":
        raise TwinsError(f"PYTHON_SUITE={suite} names a source: PYTHON_FROM=download uses none", 2)
    return "source"


def probe() -> None:
    """Raise TwinsError if no place of the archives can be reached. Takes at most three seconds."""
    done = subprocess.run([_SCRIPT, "--probe"], stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise TwinsError(done.stderr.strip().removeprefix(f"docker/{_SCRIPT.name}: "))


def run(
    part: Path,
    series: str,
    lock: int,
    variables: dict[str, str],
    agreed: bool,
    probed: bool = False,
) -> str:
    """Download both interpreters into `part` of the cache; return their version and release, in
    words. Raises TwinsError if that fails.

    Args:
        lock: file descriptor of the cache's lock, which the caller holds.
        variables: environment variables for the commands.
        agreed: True if missing system packages may be installed without asking.
        probed: True if nothing is to be installed where no place of the archives can be reached.
    """
    if probed:
        probe()
    install = None
    if importlib.util.find_spec("ensurepip") is None:
        # without it Debian's python3 cannot make virtual environments
        install = machine.install_command(["python3-venv"], agreed)
    cache.start(part)
    logs = part.parent.parent / "logs" / time.strftime("%Y%m%d-%H%M%S")
    command = [_SCRIPT, series, part, "--python", sys.executable]
    with Progress(logs, 1 + bool(install)) as progress:
        if install:
            progress.run("system packages", install, lock, variables)
        progress.run("download of CPython", command, lock, variables)
    version, release = (part / "version").read_text().split()
    cache.finish(part, {"version": version, "pgo": True, "release": release})
    return f"CPython {version} and {version}t of python-build-standalone {release}"


def reason(error: TwinsError) -> str:
    """Return why a download failed, in one line: the first and the last of uv's causes."""
    lines = [line.strip() for line in str(error).splitlines()]
    causes = [line.removeprefix("cause: ") for line in lines if line.startswith("cause: ")]
    if not causes:
        return lines[-1]
    return ": ".join(dict.fromkeys([causes[0], causes[-1]]))
