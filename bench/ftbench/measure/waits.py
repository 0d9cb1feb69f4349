"""The lines at which threads are. Those at which they wait for each other take more of their time
than of one thread's.

The state of a thread does not tell that: one that waits for a lock which others hold for
microseconds is woken again and again in vain, and so can run most of the time.
"""

from __future__ import annotations

import linecache
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterable
from types import FrameType

_STANDARD = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
_PACKAGES = ("site-packages", "dist-packages")


class Waits:
    """Samples of threads that work. Used by one thread, which is none of them."""

    def __init__(self) -> None:
        self._lines: Counter[str] = Counter()

    def look(self, threads: Iterable[int]) -> None:
        """Add a sample of each of the *threads* (threading.get_ident()), which are stopped for a
        moment.
        """
        frames = sys._current_frames()
        for ident in threads:
            if frame := frames.get(ident):
                self._lines[_line(frame)] += 1

    def counts(self) -> dict[str, int]:
        """Return the number of samples in which a thread was at a line, by line:
        "/code/train.py:31: with LOCK:".
        """
        return dict(self._lines.most_common())


def _line(frame: FrameType) -> str:
    """Return the innermost line outside of the standard library, which has queues and conditions
    in Python.
    """
    caller: FrameType | None = frame
    while caller and _is_standard(caller.f_code.co_filename):
        frame, caller = caller, caller.f_back
    frame = caller or frame
    file, number = frame.f_code.co_filename, frame.f_lineno
    return f"{file}:{number}: {linecache.getline(file, number or 0).strip()}"


def _is_standard(file: str) -> bool:
    if file.startswith("<frozen "):
        return True
    return file.startswith(_STANDARD) and not any(name in file for name in _PACKAGES)
