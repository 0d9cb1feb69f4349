"""Reads an encoded image into memory from a path, an open file or bytes."""

import os
from typing import Any, BinaryIO, NamedTuple

from ftloader.decode.errors import DecodeError

# The sources that read_image accepts. bytes are always the encoded image, never a path.
ImageSource = str | os.PathLike | bytes | bytearray | memoryview | BinaryIO


class Encoded(NamedTuple):
    """Encoded image in memory, with a name for error messages."""

    data: bytes
    path: str | None
    name: str

    def error(self, cause: BaseException) -> DecodeError:
        return DecodeError.of(self.name, self.path, cause)

    def error_because(self, reason: str) -> DecodeError:
        return DecodeError(f"cannot decode {self.name}: {reason}", self.path)


def fetch(source: Any) -> Encoded:
    """Read *source* into memory. Raise ``DecodeError`` if that fails, ``TypeError`` if it is no ``ImageSource``."""
    # The two usual cases first. str before os.fspath, which treats bytes as a path.
    if isinstance(source, str):
        return _read_file(source)
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)  # the same object if it is bytes already
        return Encoded(data, None, f"an image of {len(data)} bytes in memory")
    if isinstance(source, os.PathLike):
        return _read_file(os.fsdecode(os.fspath(source)))
    if hasattr(source, "read"):
        return _read_stream(source)
    raise TypeError(
        "an image is given as a path (str or os.PathLike), as its encoded bytes or as a binary "
        f"file, not as {type(source).__name__}"
    )


def _read_file(path: str) -> Encoded:
    name = f"image {path!r}"  # repr prints names that are not valid UTF-8, too
    try:
        # Unbuffered: one read of the whole file instead of a copy through a buffer.
        with open(path, "rb", buffering=0) as file:
            data = file.read()
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise DecodeError.of(name, path, error) from error
    return Encoded(data, path, name)


def _read_stream(stream: Any) -> Encoded:
    path = stream.name if isinstance(getattr(stream, "name", None), str) else None
    name = f"image {path!r}" if path else "an image from an open file"
    try:
        data = stream.read()
    except OSError as error:
        raise DecodeError.of(name, path, error) from error
    if not isinstance(data, bytes):
        raise TypeError(f"{name} must be opened in binary mode ('rb'): it gave {type(data)}")
    return Encoded(data, path, name)
