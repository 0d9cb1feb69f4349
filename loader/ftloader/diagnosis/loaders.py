"""A log of the loaders that a program makes: the line that made each, and its records.

``python -m ftloader`` starts the log, for its table at the end. Otherwise nothing is noted.
"""

import os
import sys
import weakref
from typing import Any

from ftloader import fork
from ftloader.diagnosis.call_site import Origin, origin_of
from ftloader.diagnosis.recording import EpochRecord, EpochRecords
from ftloader.diagnosis.statistics import LoaderStatistics, statistics

_KEPT = 16  # loaders of one line whose records are kept apart, at least


class Site:
    """The loaders that one line of a program has made, with the sums over their epochs.

    *kind*: the name of a class whose loaders are not this package's, so that they have no
    statistics; None for this package's.
    """

    def __init__(self, place: str, kind: str | None = None) -> None:
        self.place = place
        self.kind = kind
        self.loaders = 0  # counted by the log
        self._ended = EpochRecord("none", [])
        self._memory_of_ended = 0
        self._reason: str | None = None
        # what a loader and its iterators share, if it is still in use; its records; its memory
        self._entries: list[tuple[weakref.ref, EpochRecords, Any]] = []
        self._when_to_merge = _KEPT

    def add(self, shared: Any) -> None:
        """Add a loader, whose iterators share *shared*. Merge the records of those out of use."""
        if len(self._entries) >= self._when_to_merge:
            in_use = []
            for entry in self._entries:
                if entry[0]() is None:
                    self._merge(entry)
                else:
                    in_use.append(entry)
            self._entries = in_use
            self._when_to_merge = 2 * len(in_use) + _KEPT
        self._entries.append((weakref.ref(shared), shared.records, shared.memory.use))

    def _merge(self, entry: tuple[weakref.ref, EpochRecords, Any]) -> None:
        _, records, memory = entry
        total = records.total()
        if total.batches or total.shm_full:  # else its worker_method says nothing
            self._ended.add(total)
            self._memory_of_ended += memory.peak
            self._reason = records.reason

    def summary(self) -> tuple[LoaderStatistics, str | None]:
        """Return the statistics over all epochs of all loaders, and why the latest loader that
        gave batches has threads or processes. Call when no loader is added any more.
        """
        while self._entries:
            self._merge(self._entries.pop(0))
        return statistics(self._ended, (0, self._memory_of_ended)), self._reason


class LoaderLog:
    """Sites of loaders, in the order of their first loaders. Any thread may add one."""

    def __init__(self) -> None:
        self._lock = fork.rlock()
        self._sites: dict[tuple[str, str | None], Site] = {}

    def add(self, shared: Any, kind: str | None = None) -> None:
        """Add a loader that the caller's caller makes now. See ``Site`` for *kind*."""
        place = _place_in_program()
        with self._lock:
            site = self._sites.setdefault((place, kind), Site(place, kind))
            site.loaders += 1
            if kind is None:
                site.add(shared)

    def sites(self) -> list[Site]:
        with self._lock:
            return list(self._sites.values())


_log: LoaderLog | None = None


def start() -> LoaderLog:
    """Note all loaders made from now on, in the log that is returned."""
    global _log
    _log = LoaderLog()
    return _log


def note(shared: Any) -> None:
    """Note that a loader is made, whose iterators share *shared*, if the log was started."""
    if _log is not None:
        _log.add(shared)


def _place_in_program() -> str:
    """Return "FILE:LINE" of the innermost line of the program in the call stack. In a program that
    is installed, it is the innermost line outside this package and torch.
    """
    frame, place = sys._getframe(1), "?"
    while frame is not None:
        origin = origin_of(frame.f_code.co_filename)
        if origin is Origin.USER or (origin is Origin.INSTALLED and place == "?"):
            place = f"{_short(frame.f_code.co_filename)}:{frame.f_lineno}"
        if origin is Origin.USER:
            break
        frame = frame.f_back  # type: ignore[assignment]
    return place


def _short(path: str) -> str:
    """Return *path* as seen from the working directory, if it is below it."""
    try:
        return path.removeprefix(os.path.join(os.getcwd(), ""))
    except OSError:  # the directory was deleted
        return path
