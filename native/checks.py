"""The pre-commit hooks (format, lint and types) that `./twins test` runs first."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from . import TwinsError, cache
from .build import CHECKOUT, Twin

PRE_COMMIT = "pre-commit==4.7.0"


def command(twin: Twin) -> list[str]:
    """Return the command that runs all hooks over all files of the checkout.

    If pre-commit is missing, installs it first, with the Python of `twin`.
    Raises TwinsError if that fails.
    """
    directory = cache.root() / "tools" / f"{PRE_COMMIT}-{twin.directory.name}"
    if cache.finished(directory) is None:
        with cache.locked(print):
            if cache.finished(directory) is None:  # another ./twins may have made it in between
                _install(twin, directory)
    return [str(directory / "bin" / "pre-commit"), "run", "--all-files", "--color=never"]


def _install(twin: Twin, directory: Path) -> None:
    cache.start(directory)
    try:
        for step in (
            [str(twin.python), "-I", "-m", "venv", str(directory)],
            [
                str(directory / "bin" / "pip"),
                "install",
                "--quiet",
                "--disable-pip-version-check",
                PRE_COMMIT,
            ],
        ):
            subprocess.run(step, check=True, env=variables())
    except subprocess.CalledProcessError as error:
        raise TwinsError(
            f"{PRE_COMMIT} cannot be installed: exit status {error.returncode}"
        ) from error
    cache.finish(directory, {})


def variables() -> dict[str, str]:
    """Return environment variables for the hooks: this process's,
    except those whose names start with PYTHON.

    PRE_COMMIT_HOME is set to a folder in the cache.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PRE_COMMIT_HOME": str(cache.root() / "tools" / "pre-commit")}


def why_not() -> str | None:
    """Return the reason why the hooks of pre-commit cannot run here, or None if they can."""
    if shutil.which("git") is None:
        return "git is not installed"
    if not (CHECKOUT / ".git").exists():
        return "this is no clone: pre-commit asks git for the files"
    return None
