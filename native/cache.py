"""Where native twins live, and what counts as finished there.

A thing in the cache (source, interpreter, CUDA libraries, environment) is a directory. It is finished
when it holds `finished.json`, which is written last, in one step; a directory without it is what an
interrupted or failed build left, and is removed before the next try. Whoever builds holds the cache's
lock; whoever only uses finished things needs no lock, since they never change.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import TwinsError

STAMP = "finished.json"


def root() -> Path:
    """The cache's directory, `${XDG_CACHE_HOME:-~/.cache}/ft-twins`."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "ft-twins"


def finished(directory: Path) -> dict | None:
    """What `finish` recorded for `directory`, or None if it is missing or unfinished."""
    try:
        return json.loads((directory / STAMP).read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None


def start(directory: Path) -> None:
    """Makes `directory` anew, without what an earlier try left."""
    if directory.exists():
        # The stamp goes first, so that an interruption of the removal leaves nothing that looks finished.
        (directory / STAMP).unlink(missing_ok=True)
        shutil.rmtree(directory)
    directory.mkdir(parents=True)


def finish(directory: Path, record: dict) -> None:
    """Declares `directory` finished."""
    draft = directory / (STAMP + ".draft")
    with open(draft, "w") as file:
        json.dump(record, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(directory / STAMP)


@contextmanager
def locked(say) -> Iterator[int]:
    """Holds the cache's lock; waits for another build, saying so through `say`.

    Yields the lock's file descriptor. Build processes inherit it, so that one which outlives a killed
    `./twins` still keeps others out of the directory that it writes to.
    """
    directory = root()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise TwinsError(
            f"cannot write to the cache {directory} ({error.strerror}); set XDG_CACHE_HOME to a directory of yours"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 100, 0).decode(errors="replace").strip() or "unknown"
            say(f"another ./twins (process {holder}) is building in {directory}; waiting for it")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)
