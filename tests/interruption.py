"""Ctrl-C at a chosen place."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


@contextlib.contextmanager
def interrupted_at(line: int, function: Callable) -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` at the *line*-th line, from 1,
    that *function* runs in this block and thread.

    Do nothing if it runs fewer lines."""
    left = line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code is not function.__code__:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)
