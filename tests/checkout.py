"""Paths of the checkout that the tests belong to."""

import os
import re
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
SOURCES = tuple(str(CHECKOUT / folder) for folder in ("loader", "bench", "safety", "runtime"))
"""The folders that hold the packages; in an image,
where the packages are installed, there are none.
"""


def importable(*more: object) -> str:
    """Return PYTHONPATH for a child process: the packages,
    the folders *more*, and its present value.
    """
    return os.pathsep.join(
        [*SOURCES, *map(str, more), *filter(None, [os.environ.get("PYTHONPATH")])]
    )


def locked(name: str, lock: str = "requirements.lock") -> str:
    """Return the version of a package in a lock file of docker/."""
    text = (CHECKOUT / "docker" / lock).read_text()
    (version,) = re.findall(rf"^{re.escape(name)}==([^ ]+)", text, re.MULTILINE)
    return version
