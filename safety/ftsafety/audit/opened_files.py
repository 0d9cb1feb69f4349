"""The files that loading reads and writes, as CPython's audit events (PEP 578) report them.

Files that C or C++ code opens are not reported, except that a file counts as written if it was read
after it changed.
"""

import contextlib
import functools
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from ftloader.diagnosis.lookups import is_a
from ftsafety.audit.draws import find_call_site
from ftsafety.audit.report import SourceLine

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_CODE = (".py", ".pyc", ".so")
_NO_DATA = tuple(
    {os.path.join(path, "") for path in (sys.prefix, sys.base_prefix, "/proc", "/sys")}
)


class OpenedFiles:
    """Record of the files that one thread opened, by absolute path."""

    def __init__(self) -> None:
        self.read: dict[str, None] = {}
        self.opened_to_write: dict[str, SourceLine] = {}
        """By file, the line that opened it first to write to it,
        or that renamed another file to it.
        """
        # A file system's clock may be late by a tick, so that what is written in the first one does
        # not count. What was written before never does.
        self._since = time.time_ns()

    def written(self) -> dict[str, SourceLine | None]:
        """Return the data files that are there and were written, each with the line that wrote it,
        if it is known.
        """
        written: dict[str, SourceLine | None] = {}
        for path in filter(_is_data, self.opened_to_write):
            written[path] = self.opened_to_write[path]
        for path in filter(_is_data, self.read):
            if os.stat(path).st_mtime_ns > self._since:
                written.setdefault(path)
        return written

    def rewritable(self) -> list[str]:
        """Return the data files that were read and not written,
        in folders where this process may make files.
        """
        written = self.written()
        paths = []
        for path in filter(_is_data, self.read):
            if path not in written and _may_be_made(path):
                paths.append(path)
        return paths


def _is_data(path: str) -> bool:
    """True if *path* is a regular file, neither code nor part of an installed package."""
    if path.endswith(_CODE) or path.startswith(_NO_DATA):
        return False
    return os.path.isfile(path)


def _may_be_made(path: str) -> bool:
    return os.access(os.path.dirname(path), os.W_OK | os.X_OK)


_records: dict[int, OpenedFiles] = {}
"""By thread, the record of the files that it opens."""


@contextlib.contextmanager
def recording_files() -> Iterator[OpenedFiles]:
    """Context manager: yield a record of the files
    that this thread opens inside the ``with`` block.
    """
    _add_hook()
    number = threading.get_ident()
    outer = _records.get(number)
    record = OpenedFiles()
    _records[number] = record
    try:
        yield record
    finally:
        del _records[number]
        if outer is not None:
            _records[number] = outer


@functools.cache
def _add_hook() -> None:
    sys.addaudithook(_on_event)  # stays until the process ends: CPython removes no audit hook


def _on_event(event: str, arguments: tuple) -> None:
    if not _records or event not in ("open", "os.rename"):
        return
    record = _records.get(threading.get_ident())
    if record is not None:
        with contextlib.suppress(Exception):  # would be raised in the dataset
            _add(record, event, arguments)


def _add(record: OpenedFiles, event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        path = arguments[0]
        writes = bool(arguments[2] & _WRITING)
    else:
        path = arguments[1]
        writes = True
    if not is_a(path, (str, bytes)):
        return  # an open descriptor, or an object whose __fspath__ may do anything
    path = os.path.abspath(os.fsdecode(path))
    if not writes:
        record.read.setdefault(path)
    elif path not in record.opened_to_write:
        line, _ = find_call_site(sys._getframe(2))
        record.opened_to_write[path] = line
