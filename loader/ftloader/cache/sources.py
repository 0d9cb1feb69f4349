"""Where samples come from: anything with ``keys()`` and ``read(key)``; here, what has an address.

fsspec sends all that is asked of an asynchronous file system (http, s3, gs, ...) through one thread of the process, in
which its event loop runs. With many requests at a time everybody waits for that thread. So each thread that reads here
has a file system and an event loop of its own, and runs that itself.
"""

import asyncio
import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import fsspec
from fsspec.asyn import AsyncFileSystem


class Source(Protocol):
    """What a cache fetches from. ``read`` is called by several threads at a time, ``keys`` by one."""

    def keys(self) -> Iterable[str]:
        """The samples' names. It may go on for ever, or give more the next time."""
        ...

    def read(self, key: str) -> Any:
        """The sample's bytes (anything with the buffer protocol)."""
        ...


class UrlSource:
    """The files below *url*, by their path from there; or the *keys* given, each added to *url*.

    Args:
        url: an address that fsspec understands: a directory, "memory://...", "http://...", "s3://...", ...
        keys: where the store cannot be listed, or not at once: an iterable, gone through anew each time.
        timeout: seconds for one sample. A source that stalls longer has failed, and is tried again. (In an asynchronous
            file system; in others the call to it is waited for.)
        options: for the file system: ``fsspec.filesystem(protocol, **options)``.

    A file that is longer or shorter than the listing says is refused: it is being written, or was cut short.
    """

    def __init__(self, url: str, keys: Iterable[str] | None = None, timeout: float = 60.0, **options: Any) -> None:
        self._filesystem, root = fsspec.url_to_fs(url, **options)
        self._root = root.rstrip("/") + "/"
        self._given, self._timeout = keys, timeout
        self._sizes: Mapping[str, int | None] = {}  # replaced as a whole by keys(), and read without a lock
        self._local = threading.local()
        self._own: list[_Own] = []
        self._lock = threading.Lock()  # guards _own

    def keys(self) -> Iterable[str]:
        if self._given is not None:
            return self._given
        self._filesystem.invalidate_cache()
        found = self._filesystem.find(self._root, detail=True)
        sizes = {path[len(self._root) :]: entry.get("size") for path, entry in sorted(found.items())}
        self._sizes = {key: size for key, size in sizes.items() if key}
        return iter(self._sizes)

    def read(self, key: str) -> bytes:
        data = self._read(self._root + key)
        expected = self._sizes.get(key)
        if expected is not None and len(data) != expected:
            raise OSError(f"{self._root}{key} has {len(data)} bytes, and {expected} by the store's listing")
        return data

    def close(self) -> None:
        """Closes what threads that have ended used."""
        with self._lock:
            own, self._own = self._own, []
        for each in own:
            each.close()

    def _read(self, path: str) -> bytes:
        if not isinstance(self._filesystem, AsyncFileSystem):
            return self._filesystem.cat_file(path)
        own = getattr(self._local, "own", None)
        if own is None:
            own = self._local.own = _Own(self._filesystem)
            with self._lock:
                self._own.append(own)
        return own.read(path, self._timeout)


class _Own:
    """A file system and an event loop of one thread."""

    def __init__(self, like: AsyncFileSystem) -> None:
        self._loop = asyncio.new_event_loop()
        self._filesystem = type(like)(**{**like.storage_options, "asynchronous": True, "skip_instance_cache": True})

    def read(self, path: str, timeout: float) -> bytes:
        return self._loop.run_until_complete(asyncio.wait_for(self._filesystem._cat_file(path), timeout))

    def close(self) -> None:
        session = getattr(self._filesystem, "_session", None)
        if session is not None and hasattr(session, "close"):
            self._loop.run_until_complete(session.close())
        self._loop.close()


class Share:
    """Every *count*-th key of *source*, from *index* on: one machine's share of it."""

    def __init__(self, source: Source, index: int, count: int) -> None:
        if not 0 <= index < count:
            raise ValueError(f"index must be from 0 to {count - 1}, not {index}")
        self._source, self._index, self._count = source, index, count

    def keys(self) -> Iterator[str]:
        return itertools.islice(self._source.keys(), self._index, None, self._count)

    def read(self, key: str) -> Any:
        return self._source.read(key)

    def close(self) -> None:
        close_source(self._source)


def close_source(source: Any) -> None:
    """Calls the source's ``close()``, if it has one."""
    if callable(close := getattr(source, "close", None)):
        close()
