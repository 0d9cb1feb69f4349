"""The commands and paths that a user types. For a program in a container, they are commands and
paths of the host.

compose.yaml and docker/entrypoint set the environment variables. `./twins` imports this module:
standard library only, Python 3.9 or later.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

_MOUNTED = {"/code": "FT_CODE", "/data": "FT_DATA", "/results": "FT_RESULTS"}
"""Folders of the container, and the variables that hold their names on the host."""


def command(default: str) -> str:
    """Return the start of the command line that runs this program:
    FT_COMMAND in a container, else *default*.
    """
    return os.environ.get("FT_COMMAND") or default


def info() -> str:
    """Return the start of the command line of `info`, which its messages begin with."""
    return command("./twins info")


def derived_image() -> str:
    """Return what to do in a container that lacks a package and has no network; "" elsewhere."""
    if "FT_COMMAND" not in os.environ:
        return ""
    return "derive an image that has it from each twin (docs/benchmark.md, Your own dataset)"


def folders() -> dict[str, str]:
    """Return the host's paths of the folders mounted for code and data: {"CODE": ..., "DATA": ...};
    {} if none is.
    """
    paths = {}
    for name in ("CODE", "DATA"):
        if path := os.environ.get(f"FT_{name}"):
            paths[name] = path
    return paths


def path(inside: str) -> str:
    """Return the host's path for the container's path *inside*; *inside* itself if no mounted
    folder contains it.
    """
    for folder, variable in _MOUNTED.items():
        if variable in os.environ and f"{inside}/".startswith(f"{folder}/"):
            mounted = os.environ[variable] or "."
            below = inside[len(folder) :].lstrip("/")
            return os.path.normpath(os.path.join(mounted, below))
    return inside


def inside(typed: str) -> Path:
    """Return the container's path of the results at *typed* on the host;
    outside of containers, *typed* itself.
    """
    if (where := os.environ.get("FT_RESULTS")) is None:
        return Path(typed)
    folder = os.path.normpath(where or ".")
    plain = os.path.normpath(typed)
    if f"{plain}/".startswith(f"{folder}/"):
        return Path("/results" + plain[len(folder) :])
    return Path(typed)


def quoted(word: str) -> str:
    """Quote a word for a shell. A leading "~/", as in paths from .env, is not quoted: the shell has
    to expand it.
    """
    if word.startswith("~/"):
        return "~/" + shlex.quote(word[2:])
    return shlex.quote(word)


def assignments(folders: Mapping[str, str]) -> str:
    """Return the variables that let a Compose command mount these folders:
    "CODE=/me DATA=./photos ".
    """
    words = []
    for name, folder in sorted(folders.items()):
        # Compose treats a name without a slash as a volume.
        path = folder
        if not path.startswith("~/"):
            path = os.path.join(".", path)
        words.append(f"{name}={quoted(path)} ")
    return "".join(words)


def report(results: str) -> str:
    """Return the command that makes a report again from the file *results*.
    In a container, its path there.
    """
    # A container sees only its own path.
    return f"{command('./twins bench')} report {quoted(results)}"


def audit(target: str, mounted: Mapping[str, str] | None = None) -> str:
    """Return the command that audits the dataset *target* (FILE.py:NAME).

    Args:
        mounted: the host's folders to mount for code and data. Default: the folders that this
            container has mounted.
    """
    if mounted is None:
        if "FT_CODE" not in os.environ:
            return f"./twins audit {shlex.quote(target)}"
        mounted = folders()
    below = target.replace("/code/", "", 1)
    return f"{assignments(mounted)}docker compose run --rm ft-audit {shlex.quote(below)}"
