"""The line of user code behind a call, for warnings and for the audit."""

import os
import random
import sysconfig
import types
import warnings
import weakref
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import torch


class CallSite(NamedTuple):
    """A line of code, and how it leads to a call."""

    filename: str
    lineno: int
    module: str
    registry: dict[Any, Any]
    """The module's ``__warningregistry__``."""
    drawn_at: str | None
    """"file:line" in an installed package through which the line leads to the draw, if any."""
    called: str | None
    """Name of the function of random, NumPy or torch in which the call was made, if any."""


class _Origin(Enum):
    GENERATOR = "the libraries that have the generators"
    ENGINE = "this package, from fetching to collating, and the audit"
    INSTALLED = "the standard library and installed packages"
    USER = "everything else"


_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # ftloader
# These parts of this package are datasets, such as users write.
_DATASETS: Final = (os.path.join(_PACKAGE, "datasets"), os.path.join(_PACKAGE, "decode"))
_GENERATORS: Final = tuple(os.path.join(os.path.dirname(module.__file__), "") for module in (np, torch))
_INSTALLED: Final = tuple(
    os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


_engine_folders: tuple[str, ...] = (os.path.join(_PACKAGE, ""),)


def treat_as_engine(folder: str) -> None:
    """Count the files below *folder* as this package's own. To be called at import time, before any search."""
    global _engine_folders
    _engine_folders = (*_engine_folders, os.path.join(folder, ""))
    _origin.cache_clear()


@cache
def _origin(filename: str) -> _Origin:
    if filename == random.__file__ or filename.startswith(_GENERATORS):
        return _Origin.GENERATOR
    if filename.startswith(_DATASETS):
        return _Origin.INSTALLED
    if filename.startswith(_engine_folders):
        return _Origin.ENGINE
    parts = filename.split(os.sep)
    if filename.startswith(("<frozen ", *_INSTALLED)) or "site-packages" in parts or "dist-packages" in parts:
        return _Origin.INSTALLED
    return _Origin.USER


def is_user_code(filename: str) -> bool:
    """Return True if *filename* is not part of this package, of the standard library or of an installed package."""
    return _origin(filename) is _Origin.USER


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line that is neither this package's nor torch's.

    That is the loop over the loader, or the line that closed or dropped an iterator.
    """
    warnings.warn(message, category, skip_file_prefixes=(*_engine_folders, *_GENERATORS, weakref.__file__))


def find_call_site(frame: types.FrameType) -> CallSite:
    """Return the line behind a call made in *frame*, which may be in a library.

    That is the innermost line that is not part of an installed package. If this package's code comes before any such
    line, it is the innermost line outside of random, NumPy and torch.
    """
    called = None
    drawing: types.FrameType | None = None  # the first outside of random, NumPy and torch
    current: types.FrameType | None = frame
    while current is not None:
        origin = _origin(current.f_code.co_filename)
        if origin is _Origin.USER:
            return _make(current, drawing or current, called)
        if drawing is not None:
            if origin is _Origin.ENGINE:
                break
        elif origin is _Origin.GENERATOR:
            called = _function_name(current) or called
        elif origin is _Origin.INSTALLED:
            drawing = current
        current = current.f_back
    return _make(drawing or frame, drawing or frame, called)


def _make(frame: types.FrameType, drawing: types.FrameType, called: str | None) -> CallSite:
    drawn_at = None
    if frame is not drawing:
        drawn_at = f"{drawing.f_code.co_filename}:{drawing.f_lineno}"
    variables = frame.f_globals
    return CallSite(
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=variables.get("__name__", "<unknown>"),
        registry=variables.setdefault("__warningregistry__", {}),
        drawn_at=drawn_at,
        called=called,
    )


def _function_name(frame: types.FrameType) -> str | None:
    module = frame.f_globals.get("__name__", "")
    if module.startswith(("torch._compile", "torch._dynamo")):
        return None  # importing torch._dynamo wraps torch.manual_seed
    # random.randint is a method of a hidden instance of random.Random.
    name = frame.f_code.co_qualname.removeprefix("Random.")
    return f"{module}.{name}"
