"""Sources of samples for the cache: ``UrlSource`` (the files below an address),
``Share`` (every N-th key).
"""

import errno
import itertools
import os
import re
import threading
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import quote

import fsspec
from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.local import LocalFileSystem

from ftloader import fork
from ftloader.cache.errors import PartlyListedError
from ftloader.cache.readers import LoopReader, ObjectReader, WebReader, open_bucket

_ODD = re.compile("[\x00-\x20\x7f#\ud800-\udfff]")
"""Characters that make web clients cut an address or drop a part of it,
and so read another file.
"""

# mistyped address, such as "s3//bucket" or "http:/host"
_SLIP = re.compile("([a-z0-9]+)(?://|:/)([^/].*)")


class Source(Protocol):
    """Protocol of a source of samples. Several threads at a time call ``read``,
    only one at a time calls ``keys``.
    """

    def keys(self) -> Iterable[str]:
        """Return the keys (names) of the samples. The iterable may be endless. The next call may
        return other keys.
        """
        ...

    def read(self, key: str) -> Any:
        """Return the bytes of the sample *key*, as any object with the buffer protocol."""
        ...


class UrlSource:
    """Source of the files below *url*. A key is a file's path relative to *url*.

    Args:
        url: an address that fsspec understands: a directory, "memory://...", "http://...",
            "s3://...", ...
        keys: an iterable of the keys, for a *url* that cannot be listed. Each call of ``keys()``
            returns this iterable, so an iterator, such as a generator, is refused.
        timeout: seconds within which a web server or an asynchronous file system must send one
            whole sample.
        largest: maximum size in bytes of a sample from a web server or s3. Not checked if fsspec's
            own client reads the
            sample: on s3 in place of obstore (see ``ObjectReader``), on the web with *options* or
                "@" in *url*.
        options: keyword arguments for the file system: ``fsspec.filesystem(protocol, **options)``.

    ``read`` raises ``OSError`` for a file that is too large, or whose size differs from the listed
    one: this file is being written or was cut short. A key with a part ".." raises ``ValueError``
    if *url* is on this machine.
    """

    def __init__(
        self,
        url: str,
        keys: Iterable[str] | None = None,
        timeout: float = 60.0,
        largest: int = 1 << 30,
        **options: Any,
    ) -> None:
        if isinstance(keys, Iterator):
            raise TypeError(
                "keys must be a list or another iterable that each listing can go through "
                "again, not an iterator"
            )
        _refuse_slip(url)
        try:
            self._filesystem, root = fsspec.url_to_fs(url, **options)
        except ImportError as error:  # fsspec's error names the package
            remedy = "ftloader's extra 'cache' has what the web needs, 'remote' what s3 needs"
            raise ImportError(f"{error}: pip install it ({remedy})") from error
        # In an archive (zip, tar) the root is "": no path there starts with a slash.
        self._root = ""
        if root or self._filesystem.root_marker:
            self._root = root.rstrip("/") + "/"
        self._is_local = _is_local(self._filesystem)
        self._is_web = self._root.startswith(("http://", "https://"))
        self._given, self._timeout, self._largest, self._options = keys, timeout, largest, options
        # keys() replaces the dict as a whole, so reading needs no lock
        self._sizes: Mapping[str, int | None] = {}
        self._readers: dict[int, Any] = {}  # by thread. No lock: a thread uses only its own entry
        self._bucket: Any = None  # obstore's, which all readers share
        self._opening = fork.rlock()  # guards _bucket

    @property
    def folder(self) -> str | None:
        """The folder of this machine whose files are the samples;
        None if they lie elsewhere or in an archive.
        """
        if self._is_local and self._root.startswith("/"):
            return self._root
        return None

    def keys(self) -> Iterable[str]:
        """Return the constructor's *keys* or, if None, a new listing, sorted. Raise an error if
        *url* cannot be listed.

        If *url* can be listed, but not all directories below it, the iterator raises
        ``PartlyListedError`` at its end.
        """
        if self._given is not None:
            return self._given
        self._filesystem.invalidate_cache()
        if isinstance(self._filesystem, LocalFileSystem) and not self._filesystem.isdir(self._root):
            raise FileNotFoundError(f"there is no directory {self._root}")
        files, error = _find(self._filesystem, self._root)
        if self._is_web:
            files = _without_links_to_the_page(files)
        # A page of the web may link to addresses elsewhere.
        below = sorted(path for path in files if path.startswith(self._root) and path != self._root)
        self._sizes = sizes = {path[len(self._root) :]: files[path].get("size") for path in below}
        if error is None:
            return iter(sizes)
        return _then_raise(sizes, error)

    def read(self, key: str) -> bytes:
        """Return the bytes of the file *key*. Raise ``OSError`` if it is too large or its size is
        not as listed.
        """
        if self._is_local and ".." in key.split("/"):
            raise ValueError(
                f"the key {key!r} leads out of {self._root!r}: take an address that is above both"
            )
        thread = threading.get_ident()
        reader = self._readers.get(thread)
        if reader is None:
            reader = self._readers[thread] = self._new_reader()
        name = key
        if self._is_web:
            name = _ODD.sub(lambda match: quote(match[0]), key)
        data = reader.read(self._root + name)
        expected = self._sizes.get(key)
        if expected is not None and len(data) != expected:
            raise OSError(
                f"{self._root}{key} has {len(data)} bytes, and {expected} by the store's listing"
            )
        return data

    def close(self) -> None:
        """Close all connections. The threads that used them must have ended."""
        while self._readers:
            self._readers.popitem()[1].close()

    def _new_reader(self) -> Any:
        if self._is_web and not self._options and "@" not in self._root:
            return WebReader(self._timeout, self._largest)
        if not isinstance(self._filesystem, AsyncFileSystem):
            return types.SimpleNamespace(read=self._filesystem.cat_file, close=lambda: None)
        with self._opening:
            if self._bucket is None:
                self._bucket = open_bucket(
                    self._filesystem, self._root.partition("/")[0], self._timeout
                )
        if self._bucket is None:
            return LoopReader(self._filesystem, self._timeout)
        return ObjectReader(self._filesystem, self._bucket, self._timeout, self._largest)


class Share:
    """The part of *source* that one of *count* machines reads: the keys at *index*, *index* +
    *count* and so on.
    """

    def __init__(self, source: Source, index: int, count: int) -> None:
        if not 0 <= index < count:
            raise ValueError(f"index must be from 0 to {count - 1}, not {index}")
        self._source, self._index, self._count = source, index, count

    @property
    def folder(self) -> str | None:
        """The folder of this machine whose files are the samples of the whole source; None if that
        is not known.
        """
        return getattr(self._source, "folder", None)

    def keys(self) -> Iterator[str]:
        return itertools.islice(self._source.keys(), self._index, None, self._count)

    def read(self, key: str) -> Any:
        return self._source.read(key)

    def close(self) -> None:
        """Close the whole source, not only this share, if the source has a method ``close()``."""
        close_source(self._source)


def _refuse_slip(url: str) -> None:
    """Raise ``ValueError`` if *url* is a path on this machine
    that looks like a mistyped address.
    """
    if url.startswith(("file:/", "local:/")) or os.path.exists(url):
        return
    slip = _SLIP.match(url)
    if slip and slip[1] in {*fsspec.available_protocols(), "http", "https"}:
        raise ValueError(
            f"{url!r} is a path on this machine: was '{slip[1]}://{slip[2]}' meant? Else write "
            f"'./{url}'"
        )


def _find(filesystem: Any, root: str) -> tuple[dict[str, Any], Exception | None]:
    """Return ({path: details} of the files below *root*, first error in listing a directory below
    *root* or None).
    """
    # fsspec's own ``find`` treats a directory that cannot be listed, even *root*, as empty.
    if not _is_walked(filesystem):
        return filesystem.find(root, detail=True), None
    files: dict[str, Any] = {}
    failed: Exception | None = None
    folders = [filesystem._strip_protocol(root)]
    for folder in folders:
        try:
            for entry in filesystem.ls(folder, detail=True):
                if entry["type"] != "directory":
                    files[entry["name"]] = entry
                elif entry["name"].rstrip("/") != folder.rstrip("/"):
                    folders.append(entry["name"].rstrip("/"))
        except FileNotFoundError as error:
            if folder is folders[0]:
                raise FileNotFoundError(f"there is no directory {root}") from error
            # The directory has been removed, or a page has a dead link to it.
        except Exception as error:
            if folder is folders[0]:
                raise
            if getattr(error, "errno", None) != errno.ELOOP:
                failed = failed or error
    return files, failed


def _is_walked(filesystem: Any) -> bool:
    """Return True if *filesystem* has directories that fsspec's own ``find`` walks; False if it has
    none, as s3.
    """
    # simplecache:: and others of its kind hand the call to another file system.
    kind = type(getattr(filesystem.find, "__self__", filesystem))
    if issubclass(kind, AsyncFileSystem):
        return kind._find is AsyncFileSystem._find
    return kind.find is AbstractFileSystem.find


def _without_links_to_the_page(files: dict[str, Any]) -> dict[str, Any]:
    """Return *files* without links of a web page to itself ("?C=N;O=D"),
    and without the places in other pages.
    """
    linked = {
        path.partition("#")[0]: details for path, details in files.items() if "/?" not in path
    }
    return {path: details for path, details in linked.items() if not path.endswith("/")}


def _then_raise(keys: Iterable[str], error: Exception) -> Iterator[str]:
    yield from keys
    raise PartlyListedError(
        f"a part could not be listed: {type(error).__name__}: {error}"
    ) from error


def _is_local(filesystem: Any) -> bool:
    """Return True if *filesystem*, or one that it wraps (as ``simplecache::`` does),
    reads this machine's files.
    """
    while filesystem is not None and not isinstance(filesystem, LocalFileSystem):
        filesystem = getattr(filesystem, "fs", None) or getattr(filesystem, "sync_fs", None)
    return filesystem is not None


def close_source(source: Any) -> None:
    """Call the source's ``close()``, if it has one."""
    close = getattr(source, "close", None)
    if callable(close):
        close()
