"""The warning by which CPython says that importing an extension module turned the GIL
on (PEP 703).
"""

from __future__ import annotations

import contextlib
import re
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

MESSAGE = re.compile(
    r"global interpreter lock \(GIL\) has been enabled to load module '([^']+)', which has not "
    r"declared"
)
_BETWEEN = {
    "importlib",
    "_frozen_importlib",
    "_frozen_importlib_external",
    "warnings",
    "_py_warnings",
}
"""Packages whose frames lie between an import and the hook that shows its warning."""


class TurnedOn(NamedTuple):
    """Import that turned the GIL on: the extension `module`,
    the importing module, and the file and line there.
    """

    module: str
    importer: str
    filename: str
    number: int


@contextlib.contextmanager
def noticing() -> Iterator[list[TurnedOn]]:
    """Context manager: collect the imports that turn the GIL on.

    Each of their warnings is shown, whatever the filters of warnings say.
    """
    imports: list[TurnedOn] = []
    show = warnings.showwarning

    def notice(message: Warning | str, *more: Any, **named: Any) -> None:
        match = MESSAGE.search(str(message))
        if match:
            imports.append(_turned_on(match[1], sys._getframe(1)))
        show(message, *more, **named)

    with warnings.catch_warnings():
        warnings.filterwarnings(
            "always", message="The global interpreter lock", category=RuntimeWarning
        )
        warnings.showwarning = notice
        yield imports


def _turned_on(module: str, frame: types.FrameType) -> TurnedOn:
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        frame = frame.f_back
    importer = frame.f_globals.get("__name__", "")
    return TurnedOn(module, importer, frame.f_code.co_filename, frame.f_lineno)
