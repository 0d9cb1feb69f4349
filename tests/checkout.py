"""The checkout that the tests belong to, and what a child process needs to import its packages."""

import os
import re
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
SOURCES = tuple(str(CHECKOUT / folder) for folder in ("loader", "bench", "safety", "runtime"))
"""The folders that hold the packages; in an image, where the packages are installed, there are none."""


def importable(*more: object) -> str:
    """PYTHONPATH for a child process: the packages, the folders `more`, and what is on it already."""
    return os.pathsep.join([*SOURCES, *map(str, more), *filter(None, [os.environ.get("PYTHONPATH")])])


def locked(name: str) -> str:
    """The version that docker/requirements.lock has of a package."""
    lock = (CHECKOUT / "docker" / "requirements.lock").read_text()
    (version,) = re.findall(rf"^{re.escape(name)}==([^ ]+)", lock, re.MULTILINE)
    return version
