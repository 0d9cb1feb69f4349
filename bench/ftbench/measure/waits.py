"""The lines at which threads sleep: where they wait for a lock, a disk or a network.

A thread that waits for a CPU, or that changes a reference count which another CPU has just changed,
does not sleep, in the kernel's terms (proc_pid_stat(5)).
"""

from __future__ import annotations

import linecache
import sys
import sysconfig
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

SLEEPING = "SD"
"""States of a thread that waits, interruptibly or not."""
_STANDARD = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
_PACKAGES = ("site-packages", "dist-packages")


class Waits:
    """Samples of threads that work. Used by one thread, which is none of them."""

    def __init__(self) -> None:
        self._samples = 0
        self._asleep: Counter[str] = Counter()

    def look(self, threads: Mapping[int, int]) -> None:
        """Add a sample of each of the *threads*, {threading.get_ident(): get_native_id()}."""
        self._samples += len(threads)
        sleeping = [ident for ident, native in threads.items() if _sleeps(native)]
        # This stops all threads for a moment: only if it is needed.
        frames = sys._current_frames() if sleeping else {}
        for ident in sleeping:
            if frame := frames.get(ident):
                self._asleep[_line(frame)] += 1

    def shares(self) -> dict[str, float]:
        """Return the share of the samples, 0 to 1, in which a thread slept, by line:
        "/code/train.py:31: with LOCK:".
        """
        return {line: count / self._samples for line, count in self._asleep.most_common()}


def _sleeps(native: int) -> bool:
    try:
        fields = Path(f"/proc/self/task/{native}/stat").read_text()
    except OSError:  # it has ended
        return False
    return fields.rpartition(")")[2].split()[0] in SLEEPING


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
