"""Checks of this machine before anything is built: platform, disk space, system packages."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from . import TwinsError

ARCHITECTURES = {"x86_64": "x86-64", "aarch64": "64-bit Arm"}
OWN_INTERPRETERS = "FT_PYTHON=/path/to/python3.13t GIL_PYTHON=/path/to/python3.13 ./twins ..."


def check_platform() -> None:
    """Raise TwinsError unless this is Linux, on an architecture for
    which PyTorch and nvImageCodec have wheels.
    """
    machine = platform.machine()
    if sys.platform != "linux":
        raise TwinsError(
            (
                f"the twins need Linux (this is {sys.platform}): use Docker, `docker compose run "
                f"--rm ft-bench`"
            ),
            3,
        )
    if machine not in ARCHITECTURES:
        supported = " and ".join(f"{key} ({name})" for key, name in ARCHITECTURES.items())
        raise TwinsError(
            (
                f"unsupported architecture {machine}: PyTorch and nvImageCodec have packages for "
                f"{supported} only"
            ),
            3,
        )


def check_space(directory: Path, needed_gb: float) -> None:
    """Raise TwinsError if the disk of `directory`, which may not exist yet, has less than
    `needed_gb` GB free.
    """
    existing = directory
    while not existing.exists():
        existing = existing.parent
    free_gb = shutil.disk_usage(existing).free / 1e9
    if free_gb < needed_gb:
        raise TwinsError(
            f"building needs about {needed_gb:.0f} GB in {directory}, and {free_gb:.1f} GB are "
            "free there; free some, or set XDG_CACHE_HOME to a directory on a larger disk"
        )


def missing_packages(packages: list[str]) -> list[str]:
    """Return those of the Debian packages that are not installed."""
    answer = subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *packages],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    ).stdout
    installed = {line.split()[0] for line in answer.splitlines() if line.endswith(" installed")}
    return [package for package in packages if package not in installed]


def install_command(packages: list[str], agreed: bool) -> list[str] | None:
    """Return the command that installs those of the Debian packages that are missing;
    None if none is missing.

    Asks the user first, unless `agreed` is true or the variable CI is set. If no user can answer,
    assumes consent. Raises TwinsError if this system has no apt, or if packages are missing and the
    user refuses or is not root.
    """
    _check_apt()
    missing = missing_packages(packages)
    if not missing:
        return None
    root = os.geteuid() == 0
    if not root or not (agreed or os.environ.get("CI") or _agrees(missing)):
        raise TwinsError(_how_to_install(missing, root), 3)
    # Without this setting, a package that asks a question during its configuration waits forever.
    install = (
        "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y "
        '--no-install-recommends "$@"'
    )
    return ["sh", "-c", install, "sh", *missing]


def _check_apt() -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg-query")):
        raise TwinsError(
            "building the interpreters needs Debian's or Ubuntu's apt, which verifies "
            "CPython's source. "
            f"Elsewhere bring your own interpreters:\n  {OWN_INTERPRETERS}\n"
            "or use Docker:\n  docker compose run --rm ft-bench",
            3,
        )


def _how_to_install(missing: list[str], root: bool) -> str:
    hint, sudo = (" (./twins setup --yes installs them)", "") if root else ("", "sudo ")
    return (
        f"packages that the build needs are missing; install them and try again{hint}:\n"
        f"  {sudo}apt-get update && {sudo}apt-get install -y --no-install-recommends "
        f"{' '.join(missing)}"
    )


def can_ask() -> bool:
    """Return True if a user at a terminal can answer a question."""
    # A notebook gives a command (`!./twins bench`) a pseudo-terminal in which no user can type.
    return sys.stdin.isatty() and "JPY_PARENT_PID" not in os.environ


def _agrees(missing: list[str]) -> bool:
    """Ask the user whether to install `missing`; return True for yes.

    In two cases there is no question: if no user can answer, return True; if stderr is no terminal,
    so that the user would not see the question, return False.
    """
    print(f"The build needs these system packages: {' '.join(missing)}", file=sys.stderr)
    if not can_ask():
        print("They are installed now: there is no terminal to ask at.", file=sys.stderr)
        return True
    if not sys.stderr.isatty():
        return False  # the question would not be seen
    print("Install them? [y/N] ", end="", file=sys.stderr)
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip().lower() in ("y", "yes")
