"""Download of the extension modules in a wheel on a server. Only these and the wheel's ZIP
directory are fetched.

If the server ignores range requests, the whole wheel is fetched into a temporary file.
"""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator

import requests
from urllib3.exceptions import HTTPError

from ftrun.errors import BadArchive

TIMEOUT = 30.0
"""Seconds to wait for a connection, and for each part of an answer."""
_LONGEST = 600.0  # seconds for a whole answer
_PART = 1 << 16  # bytes fetched at least at once
_GROUP = 8 << 20  # bytes of modules fetched at once: a request takes longer than its bytes
_GAP = 1 << 18  # bytes between two modules that are fetched with them
_MOST_AT_ONCE = 512 << 20
_MOST_IN_MODULES = 1 << 30
_MOST_WHOLE = 8 << 30
_MOST_IN_DIRECTORY = 64 << 20
_MOST_MEMBERS = 200_000
_MOST_MODULES = 5_000
# With the tag of an interpreter or of a stable ABI, or without: then it may also be a library.
_EXTENSION = re.compile(
    r"(?:.*/)?[^./]+(?:\.cpython-(?P<cpython>\d+t?)-[\w-]+|\.(?P<stable>abi3t?))?\.so"
)
# torchaudio has modules in a folder lib.
_LIBRARY = re.compile(r"(?:.*/)?(?:(?:[^/]+\.libs|lib64|bin)/[^/]+|libs?/lib[^/]+)", re.DOTALL)


def received(answer: requests.Response, most: int, decoded: bool = False) -> bytes:
    """Return up to *most* bytes of the body of a streamed answer.
    If *decoded* is true, unpack a compressed body.

    Raises urllib3's ``HTTPError`` if the body ends too early, or takes more than ten minutes.
    """
    parts = []
    end = time.monotonic() + _LONGEST
    while most:
        part = answer.raw.read1(min(most, 1 << 20), decode_content=decoded)
        if not part:
            break
        parts.append(part)
        most -= len(part)
        if time.monotonic() > end:
            raise HTTPError(f"the server took more than {_LONGEST:.0f} s for a part of it")
    return b"".join(parts)


class _Failed(Exception):
    """A request failed; ``__cause__`` says why. Not an OSError,
    which zipfile would report as a damaged archive.
    """


class _Ranges(io.RawIOBase):
    """A file on a server, read by range requests. Only one thread may use this object."""

    def __init__(self, session: requests.Session, url: str, size: int) -> None:
        super().__init__()
        self._session = session
        self._url = url
        self._size = size
        self._position = 0
        self._begin = 0
        self._fetched = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset += self._position
        elif whence == io.SEEK_END:
            offset += self._size
        if offset < 0:
            raise OSError("a place before the first byte")  # as of a file; zipfile expects it
        self._position = offset
        return self._position

    def fetch(self, begin: int, length: int) -> None:
        """Fetch *length* bytes, starting at offset *begin*,
        in one request; keep them for the next reads.
        """
        length = min(length, self._size - begin)
        if not 0 < length <= _MOST_AT_ONCE:
            raise BadArchive(f"a part of it takes {length} bytes")
        try:
            answer = self._session.get(
                self._url, headers=_range(begin, length), stream=True, timeout=TIMEOUT
            )
        except requests.RequestException as error:
            raise _Failed from error
        with answer:
            data = _part(answer, begin, length)
        if len(data) != length:
            raise BadArchive(
                f"the server did not send the bytes from {begin} on ({answer.status_code})"
            )
        self._begin, self._fetched = begin, data

    def readinto(self, buffer) -> int:
        size = min(len(buffer), self._size - self._position)
        if size <= 0:
            return 0
        if not self._begin <= self._position < self._begin + len(self._fetched):
            self.fetch(self._position, max(size, _PART))
        offset = self._position - self._begin
        part = self._fetched[offset : offset + size]
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)


class _WheelReader(io.BufferedReader):
    """Buffered reader of a wheel. A `read` of more than `most` bytes raises BadArchive.

    This limits a ZIP directory too, since zipfile reads the whole directory in one call.
    """

    most = _MOST_IN_DIRECTORY

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > self.most:
            raise BadArchive(f"a part of it takes {size} bytes")
        return super().read(size)


def _part(answer: requests.Response, begin: int, length: int) -> bytes:
    """Return what an answer has of a range of bytes; b"" if it is an answer to something else."""
    content_range = answer.headers.get("Content-Range", "")
    if answer.status_code != 206 or not content_range.startswith(f"bytes {begin}-"):
        return b""
    return received(answer, length + 1)


def _range(begin: int, length: int) -> dict[str, str]:
    return {"Range": f"bytes={begin}-{begin + length - 1}", "Accept-Encoding": "identity"}


def extensions(session: requests.Session, url: str, abi: str) -> Iterator[tuple[str, bytes]]:
    """Yield (dotted name, content) of each extension module for *abi* (such as ``cp313t``) in the
    wheel at *url*.

    A ``.so`` file without a tag in its name may be a module or a library, and is yielded too.
    Raises ``BadArchive``; or ``requests.RequestException`` if the server cannot be reached or
    refuses.
    """
    try:
        with contextlib.ExitStack() as stack:
            file, ranges = _open(session, url, stack)
            archive = stack.enter_context(zipfile.ZipFile(file))
            file.most = _MOST_AT_ONCE
            yield from _modules(archive, ranges, abi)
    except requests.RequestException:
        raise
    except _Failed as error:
        raise error.__cause__ or error from None
    # RuntimeError: an encryption. HTTPError: an answer that ends too early or is late, read from
    # requests' raw answer.
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        RuntimeError,
        ValueError,
        OSError,
        HTTPError,
    ) as error:
        raise BadArchive(str(error) or type(error).__name__) from error


def _open(
    session: requests.Session, url: str, stack: contextlib.ExitStack
) -> tuple[_WheelReader, _Ranges | None]:
    answer = session.get(url, headers=_range(0, 1), stream=True, timeout=TIMEOUT)
    stack.enter_context(answer)
    answer.raise_for_status()
    if answer.status_code == 206:
        size = answer.headers.get("Content-Range", "").rpartition("/")[2]
        if not size.isdecimal():
            raise BadArchive("the server does not say its size")
        ranges = _Ranges(session, url, int(size))
        return _WheelReader(ranges, _PART), ranges
    file = stack.enter_context(tempfile.TemporaryFile("w+b", 0))
    end = time.monotonic() + 6 * _LONGEST
    for part in answer.iter_content(1 << 20):
        file.write(part)
        if file.tell() > _MOST_WHOLE or time.monotonic() > end:
            raise BadArchive(f"larger than {_MOST_WHOLE >> 30} GiB, or sent over more than an hour")
    return _WheelReader(file, _PART), None


def _modules(
    archive: zipfile.ZipFile, ranges: _Ranges | None, abi: str
) -> Iterator[tuple[str, bytes]]:
    members = _members(archive, abi)
    fetched = 0  # offset up to which the file is fetched
    for number, member in enumerate(members):
        if ranges is not None and _end(member) > fetched:
            fetched = _group_end(members[number:])
            ranges.fetch(member.header_offset, fetched - member.header_offset)
        with archive.open(member) as file:
            data = file.read(member.file_size + 1)
        if len(data) != member.file_size:
            raise BadArchive(f"{member.filename} has another size than its directory says")
        name = member.filename.split(".", 1)[0]
        yield name.replace("/", "."), data


def _end(member: zipfile.ZipInfo) -> int:
    """Return an offset at or after the end of *member*. The ZIP directory does not say where a
    member ends exactly.
    """
    return member.header_offset + member.compress_size + len(member.filename) + 1024


def _group_end(members: list[zipfile.ZipInfo]) -> int:
    """Return the end of the first members that are close enough
    to each other to be fetched at once.
    """
    begin = members[0].header_offset
    end = _end(members[0])
    for member in members[1:]:
        if member.header_offset > end + _GAP or _end(member) > begin + _GROUP:
            break
        end = max(end, _end(member))
    return end


def _members(archive: zipfile.ZipFile, abi: str) -> list[zipfile.ZipInfo]:
    """Return the members that may be extension modules for *abi*,
    in the order of their offsets in the file.
    """
    members = archive.infolist()
    if len(members) > _MOST_MEMBERS:
        raise BadArchive(f"{len(members)} files")
    modules = [member for member in members if _is_module(member.filename, abi)]
    _check_modules(modules)
    return sorted(modules, key=lambda member: member.header_offset)


def _check_modules(modules: list[zipfile.ZipInfo]) -> None:
    """Raise BadArchive if there are too many modules,
    or if they are too large or packed in an unusual way.
    """
    if len(modules) > _MOST_MODULES:
        raise BadArchive(f"over {_MOST_MODULES} modules")
    for member in modules:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # others may unpack to any size
            raise BadArchive(f"{member.filename} is compressed by method {member.compress_type}")
    sizes = [member.file_size for member in modules]
    if sum(sizes) > _MOST_IN_MODULES or max(sizes, default=0) > _MOST_AT_ONCE:
        raise BadArchive("its modules take over 1 GiB, or one of them over 512 MiB")


def _is_module(filename: str, abi: str) -> bool:
    match = _EXTENSION.fullmatch(filename)
    if match is None:
        return False
    if match["cpython"]:
        return f"cp{match['cpython']}" == abi
    if _LIBRARY.fullmatch(filename):
        return False
    if match["stable"] == "abi3t":  # since 3.15
        return abi not in ("cp313t", "cp314t")
    return not match["stable"]
