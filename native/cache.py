"""The directory in which `./twins` keeps its builds (the cache):
its location, its lock and its finished parts.

Each part (source, interpreter, CUDA libraries, environment) is a directory. A part is finished when
it holds `finished.json`, which is written last, in one step. A directory without that file was left
by an interrupted or failed build, and is removed before the next try. A build holds the cache's
lock. Finished parts never change, so using them needs no lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import TwinsError

STAMP = "finished.json"


def root() -> Path:
    """Return the cache's directory, `${XDG_CACHE_HOME:-~/.cache}/ft-twins`."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says that a relative path must be ignored.
    base = named if os.path.isabs(named) else os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "ft-twins"


def finished(directory: Path) -> dict | None:
    """Return the dictionary that `finish` wrote into `directory`,
    or None if that is missing or unfinished.
    """
    try:
        return json.loads((directory / STAMP).read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None


def start(directory: Path) -> None:
    """Create *directory*, empty. If an earlier build left it there, delete it first."""
    if directory.exists():
        # The stamp is deleted first, so that an interrupted removal leaves nothing
        # that looks finished.
        (directory / STAMP).unlink(missing_ok=True)
        shutil.rmtree(directory)
    directory.mkdir(parents=True)


def finish(directory: Path, record: dict) -> None:
    """Mark `directory` as finished, by writing `record` to the file `finished.json` in it."""
    draft = directory / (STAMP + ".draft")
    with open(draft, "w") as file:
        json.dump(record, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(directory / STAMP)


@contextmanager
def locked(say) -> Iterator[int]:
    """Context manager: hold the cache's lock. If another build holds the lock, call `say` with a
    message and wait.

    Yields the lock's file descriptor, which build processes inherit. So build processes that
    outlive a killed `./twins` still hold the lock, and no other build writes to their directories.
    Raises TwinsError if the cache is not writable.
    """
    directory = root()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise TwinsError(
            f"cannot write to the cache {directory} ({error.strerror}); set XDG_CACHE_HOME to "
            f"a directory of yours"
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
