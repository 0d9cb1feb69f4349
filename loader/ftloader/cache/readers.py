"""Clients with which a ``UrlSource`` reads files. No locks: one thread at a time uses a reader."""

import asyncio
import http.client
import inspect
import io
import select
import socket
import time
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from fsspec.asyn import AsyncFileSystem

_MOST_REDIRECTS = 5
_MOST_CONNECTIONS = 8
_AT_ONCE = 1 << 18
_SAFE = "/%:=&?~+!$,;'@()*[]"  # not quoted in paths and queries; with a %, an address is quoted already


class WebReader:
    """Reader for web servers that keeps connections open. fsspec's reader takes three times the CPU time or more.

    The server is not trusted. An answer is refused if it has more than *largest* bytes or takes longer than *timeout*
    seconds, redirects included. A redirect must lead to http or https, and not from https to http. Errors leave out the
    query of an address (after ``?``), which may be a signature.
    """

    # obstore, which reads s3, cannot replace this: it quotes the ``?`` of a key, refuses an answer without a length,
    # accepts an encoded one, and shows the query in its errors.

    def __init__(self, timeout: float, largest: int) -> None:
        self._timeout, self._largest = timeout, largest
        self._connections: dict[tuple[str, str], http.client.HTTPConnection] = {}

    def read(self, url: str) -> bytes:
        at, name, deadline = url, url.partition("?")[0], time.monotonic() + self._timeout
        for _ in range(_MOST_REDIRECTS + 1):
            response, data = self._get(at, name, deadline)
            if response.status == http.client.OK:
                if (encoding := response.getheader("Content-Encoding", "identity")) != "identity":
                    raise OSError(f"{name}: the server sends it encoded, as {encoding}, which was not asked for")
                return data
            location = response.getheader("Location")
            if not 300 <= response.status < 400 or location is None:
                raise (FileNotFoundError if response.status == http.client.NOT_FOUND else OSError)(
                    f"{name}: the server answers {response.status} {response.reason}"
                )
            scheme, at = urlsplit(at).scheme, urljoin(at, location)
            if urlsplit(at).scheme not in ("https", scheme):
                raise OSError(f"{name}: the server redirects from {scheme} to {at.partition('?')[0]!r}")
        raise OSError(f"{name}: the server redirects more than {_MOST_REDIRECTS} times")

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _get(self, url: str, name: str, deadline: float) -> tuple[http.client.HTTPResponse, bytes]:
        parts, late = urlsplit(url), f"{name}: not all of it came within {self._timeout} seconds"
        target = quote(f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/", safe=_SAFE)
        where = parts.scheme, parts.netloc

        def answer(sock: socket.socket, **options: Any) -> http.client.HTTPResponse:
            return http.client.HTTPResponse(_InTime(sock, deadline, late), **options)  # type: ignore[arg-type]

        while True:
            if (left := deadline - time.monotonic()) <= 0:
                raise TimeoutError(late)
            kept = self._connections.pop(where, None)
            if kept is not None and _is_readable(kept.sock):
                kept.close()
                kept = None
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            connection = kept or kind(parts.netloc)
            connection.timeout = left
            connection.response_class = answer  # type: ignore[assignment]
            try:
                if kept is not None:
                    kept.sock.settimeout(left)
                connection.request("GET", target)
                with connection.getresponse() as response:
                    data = self._body(response, name)
            except BaseException as error:
                connection.close()
                if kept is not None and isinstance(error, ConnectionError):
                    continue  # the server has closed the kept connection
                raise
            if not response.will_close:
                if len(self._connections) == _MOST_CONNECTIONS:  # redirects lead to many places
                    self.close()
                self._connections[where] = connection
            return response, data

    def _body(self, response: http.client.HTTPResponse, name: str) -> bytes:
        """Return the answer's body. Raise ``IncompleteRead`` if it ends too early, ``OSError`` if it is too large."""
        parts, size = [], 0
        while size + (response.length or 0) <= self._largest:
            if not (part := response.read1(_AT_ONCE)):
                break
            parts.append(part)
            size += len(part)
        else:
            raise OSError(f"{name} has more than {self._largest} bytes: if that is right, raise UrlSource's largest")
        data = b"".join(parts)
        if response.length:
            raise http.client.IncompleteRead(data, response.length)
        return data


class _InTime(io.RawIOBase):
    """Stream of a socket's bytes that raises ``TimeoutError`` after *deadline*. ``HTTPResponse`` reads from it."""

    # A socket's own time-out is not enough: it starts again with each byte.
    def __init__(self, sock: socket.socket, deadline: float, late: str) -> None:
        self._socket, self._deadline, self._late = sock, deadline, late
        self._raw = sock.makefile("rb", buffering=0)

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if (left := self._deadline - time.monotonic()) <= 0:
            raise TimeoutError(self._late)
        self._socket.settimeout(left)
        try:
            return self._raw.readinto(buffer)
        except TimeoutError:
            raise TimeoutError(self._late) from None

    def close(self) -> None:
        self._raw.close()
        super().close()


def _is_readable(sock: socket.socket) -> bool:
    """Return True if an idle connection cannot be reused: the server closed it, or sent unexpected bytes."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


class LoopReader:
    """Reader for an asynchronous file system of fsspec. Runs its own event loop in the calling thread.

    fsspec itself runs one loop in one thread for the whole process, which slows down many requests at a time.
    """

    def __init__(self, like: AsyncFileSystem, timeout: float) -> None:
        self._timeout = timeout
        self._loop = asyncio.new_event_loop()
        self._filesystem = type(like)(**{**like.storage_options, "asynchronous": True, "skip_instance_cache": True})

    def read(self, path: str) -> bytes:
        return self._cat(path, self._timeout)

    def _cat(self, path: str, seconds: float) -> bytes:
        return self._loop.run_until_complete(asyncio.wait_for(self._filesystem._cat_file(path), seconds))

    def close(self) -> None:
        # fsspec has no common name for connections: _session for http and gs, _s3 for s3.
        for name in ("_session", "_s3"):
            close = getattr(getattr(self._filesystem, name, None), "close", None)
            if inspect.iscoroutinefunction(close):
                self._loop.run_until_complete(close())
        self._loop.close()
