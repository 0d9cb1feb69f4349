"""Paths of the project: its packages, and files outside of them, such as lock files and tests.

In a checkout, these files are next to the packages. In the images,
they are in the folder that FT_ENV_PROJECT names.
"""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

PACKAGES = {"ftloader": "loader", "ftbench": "bench", "ftsafety": "safety", "ftrun": "runtime"}
"""Every package of the project, and the folder of a checkout that holds it."""

DISTRIBUTIONS = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "Crypto": "pycryptodome",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
    "zmq": "pyzmq",
}
"""Distributions on the index, by the name of their module if that is another one."""

_BESIDE = Path(__file__).resolve().parents[2]
IS_CHECKOUT = all((_BESIDE / folder / name).is_dir() for name, folder in PACKAGES.items())
"""True if this package was imported from a checkout."""

ROOT = _BESIDE if IS_CHECKOUT else Path(os.environ.get("FT_ENV_PROJECT") or _BESIDE)
"""The folder that holds docker/ and tests/, where these exist."""

SOURCE_PATHS: tuple[str, ...] = ()
"""The folders that an interpreter needs on its path to import the project's packages;
empty if they are installed.
"""

if IS_CHECKOUT:
    SOURCE_PATHS = tuple(str(ROOT / folder) for folder in PACKAGES.values())


def source_folders() -> list[Path]:
    """Return the folders of the project's packages that this interpreter can import."""
    folders = []
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec:
            folders += [Path(folder) for folder in spec.submodule_search_locations or ()]
    return folders


def normalise(name: str) -> str:
    """Return a distribution's name in its canonical form (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
