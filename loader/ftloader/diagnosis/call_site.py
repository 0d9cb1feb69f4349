"""Classifies source files by name as user code or library code.
Warnings and ``./twins audit`` use the result.
"""

import os
import random
import sysconfig
import warnings
import weakref
from enum import Enum
from functools import cache
from typing import Final

import numpy as np
import torch


class Origin(Enum):
    """Kind of code in a file: NumPy, torch and ``random``;
    this package; other installed code; user code.
    """

    GENERATOR = "the libraries that have the generators"
    ENGINE = "this package, from fetching to collating, and the audit"
    INSTALLED = "the standard library and installed packages"
    USER = "everything else"


_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # ftloader
# These parts of this package are datasets, such as users write.
_DATASETS: Final = (os.path.join(_PACKAGE, "datasets"), os.path.join(_PACKAGE, "decode"))
_GENERATORS: Final = tuple(
    os.path.join(os.path.dirname(module.__file__), "") for module in (np, torch)
)
_INSTALLED: Final = tuple(
    os.path.join(sysconfig.get_path(name), "")
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_engine_folders: tuple[str, ...] = (os.path.join(_PACKAGE, ""),)


def treat_as_engine(folder: str) -> None:
    """Make ``origin_of`` return ``Origin.ENGINE`` (this package) for files below *folder*. Call at
    import time only.
    """
    global _engine_folders
    _engine_folders = (*_engine_folders, os.path.join(folder, ""))
    origin_of.cache_clear()


@cache
def origin_of(filename: str) -> Origin:
    if filename == random.__file__ or filename.startswith(_GENERATORS):
        return Origin.GENERATOR
    if filename.startswith(_DATASETS):
        return Origin.INSTALLED
    if filename.startswith(_engine_folders):
        return Origin.ENGINE
    parts = filename.split(os.sep)
    if (
        filename.startswith(("<frozen ", *_INSTALLED))
        or "site-packages" in parts
        or "dist-packages" in parts
    ):
        return Origin.INSTALLED
    return Origin.USER


def is_user_code(filename: str) -> bool:
    """Return True if *filename* is not part of this package,
    of the standard library or of an installed package.
    """
    return origin_of(filename) is Origin.USER


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that names the innermost line of the call stack outside this package,
    torch and NumPy.
    """
    # That is the loop over the loader, or the line that closed or dropped an iterator.
    warnings.warn(
        message, category, skip_file_prefixes=(*_engine_folders, *_GENERATORS, weakref.__file__)
    )
