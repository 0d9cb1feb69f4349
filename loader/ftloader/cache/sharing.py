"""Files through which processes share a cache. A lock on a file (``flock``) ends with the process
that holds it.

ftcache.writer    contains the current snapshot; locked by the writer until it ends
ftcache.turn      locked by the writer until it publishes the next snapshot; readers wait for it
*.pins            names of the segments that one reader uses; locked by the reader until it ends
"""

import contextlib
import fcntl
import json
import os
import pathlib
import re
import secrets
import stat
import zlib
from typing import Any

from ftloader import fork
from ftloader.cache.errors import CacheError
from ftloader.cache.files import opened, write_all
from ftloader.cache.segment import OWN

PINS = ".pins"
_OWN_PINS = re.compile(r"[0-9a-f]{16}\.pins")
_WRITER, _TURN = "ftcache.writer", "ftcache.turn"
_SNAPSHOT_BYTES = 1 << 16
_MOST_BYTES = 1 << 26  # read of a small file


def check_apart(directory: str, folder: str | None) -> None:
    """Raise ``ValueError`` if *directory* lies in the source's *folder*,
    or the folder in it, under whatever name.
    """
    if folder is not None and (_lies_in(directory, folder) or _lies_in(folder, directory)):
        raise ValueError(
            f"the cache's directory {directory} and its source's folder {folder} lie one in the "
            "other: the cache would take its own files for samples. Take a directory beside the "
            f"folder: {folder.rstrip('/')}-cache"
        )


def _lies_in(path: str, folder: str) -> bool:
    """Return True if *path* is *folder* or lies below it.
    Links and mounts may give either another name.
    """
    with contextlib.suppress(OSError):
        folder_status = os.stat(folder)
        place = os.path.realpath(path)
        for above in (place, *map(str, pathlib.PurePath(place).parents)):
            with contextlib.suppress(OSError):  # it is yet to be made
                if os.path.samestat(os.stat(above), folder_status):
                    return True
    return False


def is_own(directory: str, key: str) -> bool:
    """Return True if the source's *key* ends in the name of a file of this cache."""
    name = os.path.basename(key)
    is_name = name in (_WRITER, _TURN) or _OWN_PINS.fullmatch(name) or OWN.fullmatch(name)
    return bool(is_name) and os.path.exists(os.path.join(directory, name))


class LockedFile:
    """File that this process alone has locked. A forked child does not share the lock."""

    def __init__(self, path: str, create: bool = True) -> None:
        """Open and lock the file. Raise ``BlockingIOError`` if another process holds the lock."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        if create:
            flags |= os.O_CREAT
        with fork.registering:  # a child forked in between would keep the lock
            self.fd = os.open(path, flags, 0o666)
            try:
                fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BaseException:
                os.close(self.fd)
                raise
            fork.renewed(self)

    @property
    def held(self) -> bool:
        return self.fd >= 0

    def write(self, text: str) -> None:
        """Overwrite the content with *text*, padded with blanks. Disk space is reused, so this
        works on a full disk.
        """
        write_all(self.fd, text.encode().ljust(os.fstat(self.fd).st_size), 0)

    def release(self) -> None:
        """Unlock and close the file."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def _at_fork_reinit(self) -> None:
        LockedFile.release(self)  # the child's descriptor only


class WriterLock(LockedFile):
    """Lock of the one process that writes to *directory*.
    The locked file has the snapshot that readers use.

    ``earlier`` has the names of the segments in the last snapshot
    that the previous writer published.
    """

    _turn: LockedFile | None = None

    def __init__(self, directory: str) -> None:
        self._directory = directory
        try:
            super().__init__(os.path.join(directory, _WRITER))
        except BlockingIOError:
            raise CacheError(
                f"process {published(directory).get('process')} writes to the cache "
                f"{directory} already. Other ranks "
                "read it with source=None; another job needs a directory of its own"
            ) from None
        try:
            os.posix_fallocate(self.fd, 0, _SNAPSHOT_BYTES)
            self.earlier = published(directory).get("segments", [])
            self._write(epoch=-1, segments=self.earlier, length=0)
            self._turn = self._new_turn()
        except BaseException:
            super().release()
            raise

    def publish(self, snapshot: dict[str, Any]) -> None:
        """Write *snapshot* to the file and wake waiting readers. No sync: a new writer can do
        without this snapshot.
        """
        self._write(**snapshot)
        turn, self._turn = self._turn, self._new_turn()
        if turn is not None:
            turn.release()

    def _write(self, **snapshot: Any) -> None:
        text = json.dumps({"process": os.getpid(), **snapshot})
        # A reader during the write sees parts of two snapshots: the checksum tells.
        self.write(f"{text}\n{zlib.crc32(text.encode())}")

    def release(self) -> None:
        super().release()
        if self._turn is not None:
            self._turn.release()

    def _new_turn(self) -> LockedFile:
        # A new file each time: readers that wait
        # for the old one need not be fast enough to lock it.
        temporary = os.path.join(self._directory, f"{_TURN}.new")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        turn = LockedFile(temporary)
        os.replace(temporary, os.path.join(self._directory, _TURN))
        return turn


def published(directory: str) -> dict[str, Any]:
    """Return the snapshot that the writer published last, as a dict; {} if it is missing, damaged
    or being written.
    """
    try:
        text, _, check = _content(os.path.join(directory, _WRITER)).rpartition(b"\n")
        if int(check) != zlib.crc32(text):
            return {}
        snapshot: Any = json.loads(text.decode())
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    if not isinstance(snapshot, dict):
        return {}
    names = snapshot.get("segments")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return {}
    return snapshot


def _content(path: str) -> bytes:
    """Return the content of a small file; b"" if it is not a regular file."""
    with opened(path, os.O_RDONLY | os.O_NOFOLLOW) as fd:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return b""
        return os.pread(fd, min(status.st_size, _MOST_BYTES), 0).strip(b" \0")


def wait_for_epoch(directory: str, epoch: int) -> dict[str, Any]:
    """Wait until the writer publishes the snapshot of *epoch*, and return it.

    Raise ``CacheError`` if there is no writer, or if the writer is at a later epoch already.
    """
    path = os.path.join(directory, _TURN)
    while True:
        try:
            with opened(path, os.O_RDONLY | os.O_NOFOLLOW) as turn:
                try:
                    fcntl.flock(turn, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    snapshot = published(directory)  # complete, or this turn ends once it is
                    published_epoch = snapshot.get("epoch", -1)
                    if published_epoch > epoch:
                        raise CacheError(
                            f"the writer of {directory} is at epoch {published_epoch} already, "
                            f"not at {epoch}"
                        ) from None
                    if published_epoch == epoch:
                        return snapshot
                    fcntl.flock(turn, fcntl.LOCK_SH)
                else:
                    if os.fstat(turn).st_ino == os.stat(path).st_ino:
                        raise CacheError(
                            f"nobody writes to the cache {directory}, so there is no epoch "
                            f"{epoch} to read"
                        )
        except FileNotFoundError:
            raise CacheError(
                f"{directory} is no cache: its writer (a GrowingCache with a source) comes first"
            ) from None


class Pins(LockedFile):
    """Locked file with the names of the segments that one reader uses,
    so that the writer does not evict them.
    """

    def __init__(self, directory: str) -> None:
        while True:
            self._path = os.path.join(directory, secrets.token_hex(8) + PINS)
            with contextlib.suppress(BlockingIOError):
                # a writer came before the lock, and removes the file
                super().__init__(self._path)
                if os.path.exists(self._path):
                    return
                super().release()

    def release(self) -> None:
        if self.held:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
        super().release()


def pinned_by_readers(directory: str) -> set[str]:
    """Return the names of the segments that running readers have pinned.
    Remove the pin files of ended readers.
    """
    pinned: set[str] = set()
    for name in os.listdir(directory):
        if _OWN_PINS.fullmatch(name):
            path = os.path.join(directory, name)
            try:
                dead = LockedFile(path, create=False)
                os.unlink(path)  # before the release: a reader may be about to lock it
                dead.release()
            except FileNotFoundError:
                pass
            except BlockingIOError:
                with contextlib.suppress(FileNotFoundError):
                    pinned.update(_content(path).decode(errors="replace").split())
    return pinned
