"""Clients with which a ``UrlSource`` reads files. No locks: one thread at a time uses a reader.

A source has one client, chosen at its first read:

WebReader       the web, without options for fsspec
ObjectReader    s3, if obstore is installed and can do what the options say (``open_bucket``)
LoopReader      other asynchronous file systems of fsspec, also s3 and the web with options

fsspec reads all other addresses itself. fsspec lists every address.
"""

import asyncio
import datetime
import functools
import http.client
import inspect
import io
import select
import socket
import time
from typing import Any
from urllib.parse import SplitResult, quote, urljoin, urlsplit
from urllib.request import getproxies

from fsspec.asyn import AsyncFileSystem

_MOST_REDIRECTS = 5
_MOST_CONNECTIONS = 8
_AT_ONCE = 1 << 18
# not quoted in paths and queries; with a %, an address is quoted already
_SAFE = "/%:=&?~+!$,;'@()*[]"

_KNOWN = {"key", "secret", "token", "anon", "endpoint_url", "profile", "use_ssl"}
"""Options of s3fs that obstore understands: address and credentials. If others are given, s3fs
reads the objects.
"""
# botocore renews credentials 10 minutes or more before they expire
_REFRESH = datetime.timedelta(minutes=5)


class WebReader:
    """Reader for web servers that keeps its connections open.

    fsspec's client takes 1.9 to 4.0 times the CPU time, and bounds neither the size nor the
    encoding of an answer. The figures are in docs/results/2026-11-24-caches/README.md, "Clients for
    the web", also why it is not obstore.

    The server is not trusted. Reading fails if an answer has more than *largest* bytes or, with all
    redirects, takes longer than *timeout* seconds. A redirect must lead to http or https, and not
    from https to http. Error messages leave out the query of an address (the part after ``?``),
    which may contain a signature.
    """

    def __init__(self, timeout: float, largest: int) -> None:
        self._timeout, self._largest = timeout, largest
        self._connections: dict[tuple[str, str], http.client.HTTPConnection] = {}

    def read(self, url: str) -> bytes:
        address, name, deadline = url, url.partition("?")[0], time.monotonic() + self._timeout
        for _ in range(_MOST_REDIRECTS + 1):
            response, data = self._get(address, name, deadline)
            if response.status == http.client.OK:
                encoding = response.getheader("Content-Encoding", "identity")
                if encoding != "identity":
                    raise OSError(
                        f"{name}: the server sends it encoded, as {encoding}, which was not "
                        f"asked for"
                    )
                return data
            location = response.getheader("Location")
            if not 300 <= response.status < 400 or location is None:
                kind = OSError
                if response.status == http.client.NOT_FOUND:
                    kind = FileNotFoundError
                raise kind(f"{name}: the server answers {response.status} {response.reason}")
            scheme, address = urlsplit(address).scheme, urljoin(address, location)
            if urlsplit(address).scheme not in ("https", scheme):
                raise OSError(
                    f"{name}: the server redirects from {scheme} to {address.partition('?')[0]!r}"
                )
        raise OSError(f"{name}: the server redirects more than {_MOST_REDIRECTS} times")

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _get(self, url: str, name: str, deadline: float) -> tuple[http.client.HTTPResponse, bytes]:
        parts, late = urlsplit(url), f"{name}: not all of it came within {self._timeout} seconds"
        target, place = _target(parts), (parts.scheme, parts.netloc)

        def answer(sock: socket.socket, **options: Any) -> http.client.HTTPResponse:
            return http.client.HTTPResponse(_InTime(sock, deadline, late), **options)  # type: ignore[arg-type]

        while True:
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                raise TimeoutError(late)
            connection = self._connection(*place)
            is_kept = connection.sock is not None
            connection.timeout = seconds_left
            connection.response_class = answer  # type: ignore[assignment]
            try:
                if is_kept:
                    connection.sock.settimeout(seconds_left)
                connection.request("GET", target)
                with connection.getresponse() as response:
                    data = self._body(response, name)
            except BaseException as error:
                connection.close()
                if is_kept and isinstance(error, ConnectionError):
                    continue  # the server has closed the kept connection
                raise
            if not response.will_close:
                if len(self._connections) == _MOST_CONNECTIONS:  # redirects lead to many places
                    self.close()
                self._connections[place] = connection
            return response, data

    def _connection(self, scheme: str, netloc: str) -> http.client.HTTPConnection:
        """Return the connection that was kept, if it can still be used,
        or a new one, which has no socket yet.
        """
        kept = self._connections.pop((scheme, netloc), None)
        if kept is not None:
            poll = select.poll()
            poll.register(kept.sock, select.POLLIN)
            if not poll.poll(0):
                return kept
            kept.close()  # the server closed the idle connection, or sent unexpected bytes
        if scheme == "https":
            return http.client.HTTPSConnection(netloc)
        return http.client.HTTPConnection(netloc)

    def _body(self, response: http.client.HTTPResponse, name: str) -> bytes:
        """Return the answer's body. Raise ``IncompleteRead`` if it ends too early, ``OSError`` if
        it is too large.
        """
        parts, size = [], 0
        while size + (response.length or 0) <= self._largest:
            part = response.read1(_AT_ONCE)
            if not part:
                break
            parts.append(part)
            size += len(part)
        else:
            raise OSError(
                f"{name} has more than {self._largest} bytes: if that is right, raise "
                f"UrlSource's largest"
            )
        data = b"".join(parts)
        if response.length:
            raise http.client.IncompleteRead(data, response.length)
        return data


def _target(parts: SplitResult) -> str:
    """Return the path and the query of an address, quoted, as a request names them."""
    target = parts.path or "/"
    if parts.query:
        target += f"?{parts.query}"
    return quote(target, safe=_SAFE)


class _InTime(io.RawIOBase):
    """Reader of a socket, for ``HTTPResponse``. Raises ``TimeoutError``
    after *deadline* (``time.monotonic()``).
    """

    # A socket's own time-out is not enough: it starts again with each byte.
    def __init__(self, sock: socket.socket, deadline: float, late: str) -> None:
        self._socket, self._deadline, self._late = sock, deadline, late
        self._raw = sock.makefile("rb", buffering=0)

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        seconds_left = self._deadline - time.monotonic()
        if seconds_left <= 0:
            raise TimeoutError(self._late)
        self._socket.settimeout(seconds_left)
        try:
            return self._raw.readinto(buffer)
        except TimeoutError:
            raise TimeoutError(self._late) from None

    def close(self) -> None:
        self._raw.close()
        super().close()


class LoopReader:
    """Reader for an asynchronous file system of fsspec.
    Runs its own event loop in the calling thread.
    """

    # fsspec itself runs one loop in one thread for the whole process, which slows down many
    # requests at a time.

    def __init__(self, like: AsyncFileSystem, timeout: float) -> None:
        self._timeout = timeout
        self._loop = asyncio.new_event_loop()
        self._filesystem = type(like)(
            **{**like.storage_options, "asynchronous": True, "skip_instance_cache": True}
        )

    def read(self, path: str) -> bytes:
        reading = asyncio.wait_for(self._filesystem._cat_file(path), self._timeout)
        return self._loop.run_until_complete(reading)

    def close(self) -> None:
        # fsspec has no common name for connections: _session for http and gs, _s3 for s3.
        for name in ("_session", "_s3"):
            close = getattr(getattr(self._filesystem, name, None), "close", None)
            if inspect.iscoroutinefunction(close):
                self._loop.run_until_complete(close())
        self._loop.close()


def open_bucket(filesystem: AsyncFileSystem, bucket: str, timeout: float) -> Any:
    """Return an obstore client for *bucket*, or None if s3fs has to read the bucket. Threads may
    share the client.

    s3fs reads if obstore is missing, with options or credentials that obstore does not know, and
    where a proxy or a file of certificates (AWS_CA_BUNDLE) is configured. Raise s3fs's error if the
    region has to be asked and cannot.
    """
    # The address, the region and the credentials are those that s3fs would use:
    # botocore finds them for both.
    options = filesystem.storage_options
    if (
        not bucket
        or "s3" not in filesystem.protocol
        or not options.keys() <= _KNOWN
        or getproxies()
    ):
        return None
    try:
        from botocore.session import Session
        from obstore.store import S3Store
    except ImportError:
        return None
    session = Session(profile=options.get("profile"))
    if "key" in options:
        session.set_credentials(options["key"], options.get("secret"), options.get("token"))
    return _new_store(filesystem, bucket, timeout, session, S3Store)


def _new_store(
    filesystem: AsyncFileSystem, bucket: str, timeout: float, session: Any, store_class: Any
) -> Any:
    """See ``open_bucket``. *session* is botocore's, *store_class* obstore's:
    both packages may be missing.
    """
    options = filesystem.storage_options
    credentials, anonymous = session.get_credentials(), bool(options.get("anon"))
    if credentials is None and not anonymous:
        return None
    endpoint_url, use_ssl = options.get("endpoint_url"), options.get("use_ssl", True)
    client = session.create_client("s3", endpoint_url=endpoint_url, use_ssl=use_ssl).meta
    is_plain = client.endpoint_url.startswith("http://")
    if session.get_config_variable("ca_bundle") and not is_plain:
        return None
    region = None
    if endpoint_url is None:
        region = _bucket_region(filesystem, bucket)
    return store_class(
        bucket,
        endpoint=client.endpoint_url,
        region=region or client.region_name or "us-east-1",
        skip_signature=anonymous,
        credential_provider=None if anonymous else functools.partial(_current_keys, credentials),
        # Without allow_http no redirect leads from https to http either.
        client_options={"timeout": f"{timeout}s", "allow_http": is_plain},
        retry_config={"max_retries": 0},
    )


def _current_keys(credentials: Any) -> dict[str, Any]:
    """Return botocore's *credentials*, renewed where they have to be,
    in the form that obstore takes.
    """
    frozen = credentials.get_frozen_credentials()
    return {
        "access_key_id": frozen.access_key,
        "secret_access_key": frozen.secret_key,
        "token": frozen.token,
        "expires_at": datetime.datetime.now(datetime.UTC) + _REFRESH,
    }


def _bucket_region(filesystem: Any, bucket: str) -> str | None:
    """Return the region of an AWS bucket, which s3fs finds by itself, and obstore does not; None if
    AWS hides it.
    """
    try:
        return filesystem.call_s3("head_bucket", Bucket=bucket).get("BucketRegion")
    except PermissionError:  # who may read the objects need not have the permission to list them
        return None


class ObjectReader:
    """Reader for the objects of one bucket in s3, by obstore, used by one thread.

    The server is not trusted: an object must come within *timeout* seconds, and obstore reads at
    most *largest* bytes. s3fs (*like*) reads the keys that obstore cannot name: with empty parts,
    or with a part "." or "..". Figures that speak for obstore are in
    docs/results/2026-11-24-caches/README.md, "Clients for s3".
    """

    def __init__(self, like: AsyncFileSystem, bucket: Any, timeout: float, largest: int) -> None:
        self._like, self._bucket, self._timeout, self._largest = like, bucket, timeout, largest
        self._s3fs: LoopReader | None = None  # made at its first use

    def read(self, path: str) -> bytes:
        key = path.partition("/")[2]
        if key.strip("/") == key:  # obstore would drop these slashes and read another object
            try:
                return self._get(path, key)
            except ValueError:  # obstore refuses the key
                pass
        if self._s3fs is None:
            self._s3fs = LoopReader(self._like, self._timeout)
        return self._s3fs.read(path)

    def close(self) -> None:
        if self._s3fs is not None:
            self._s3fs.close()

    def _get(self, path: str, key: str) -> bytes:
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        deadline = time.monotonic() + self._timeout
        try:
            answer = self._bucket.get(key)
            if answer.meta["size"] > self._largest:
                raise OSError(
                    f"{path} has more than {self._largest} bytes: if that is right, raise "
                    f"UrlSource's largest"
                )
            return bytes(answer.bytes())
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no object {path}") from None
        except BaseError as error:
            if time.monotonic() >= deadline:
                late = f"{path}: not all of it came within {self._timeout} seconds"
                raise TimeoutError(late) from None
            kind = OSError
            if isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
                kind = PermissionError
            raise kind(f"{path}: {str(error).partition('\n')[0]}") from None
