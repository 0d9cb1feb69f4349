"""Inputs and outputs of decoders: encoded images in memory,
and the arrays to which their pixels are written.
"""

import operator
import os
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ftloader.errors import DecodeError

# The sources that read_image accepts. bytes are always the encoded image, never a path.
ImageSource = str | os.PathLike | bytes | bytearray | memoryview | BinaryIO

# The out argument on the CPU. A function is called like numpy.empty: (shape, dtype).
type Out = np.ndarray | Callable[[tuple[int, ...], Any], np.ndarray] | None

# The at_least argument: (height, width).
type Size = tuple[int, int] | None


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
    """Read *source* into memory. Raise ``DecodeError`` if that fails,
    ``TypeError`` if it is no ``ImageSource``.
    """
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
    path = getattr(stream, "name", None)
    if not isinstance(path, str):
        path = None
    name = "an image from an open file"
    if path:
        name = f"image {path!r}"
    try:
        data = stream.read()
    except Exception as error:
        # of a file, an archive or a library: zipfile, zlib, tarfile and others have their own
        raise DecodeError.of(name, path, error) from error
    if not isinstance(data, bytes):
        raise TypeError(f"{name} must be opened in binary mode ('rb'): it gave {type(data)}")
    return Encoded(bytes(data), path, name)


def check_type(out: Any) -> None:
    """Raise ``TypeError`` unless *out* is an array, a function or None.
    Raise ``ValueError`` for a read-only array.
    """
    if out is None or callable(out):
        return
    if not isinstance(out, np.ndarray):
        raise TypeError(
            "out must be a numpy.ndarray or a function that gives one on the CPU, not "
            f"{type(out).__name__} (a tensor's .numpy() shares its memory)"
        )
    if not out.flags.writeable:
        raise ValueError("out is read-only")


def check_size(at_least: Any) -> Size:
    """Return *at_least* as a tuple, or None. Raise ``ValueError``
    unless it is None or two positive integers.
    """
    if at_least is None:
        return None
    try:
        height, width = map(operator.index, at_least)
    except (TypeError, ValueError):
        height = width = 0
    if height < 1 or width < 1:
        raise ValueError(
            f"at_least must be two positive integers, (height, width), not {at_least!r}"
        )
    return height, width


def put(pixels: np.ndarray, out: Out) -> np.ndarray:
    """Return *pixels* itself if *out* is None. Else copy *pixels* to the array of *out*,
    and return that array.
    """
    if out is None:
        return pixels
    array = array_for(out, pixels.shape, pixels.dtype.type)
    array[...] = pixels
    return array


def array_for(out: Out, shape: tuple[int, ...], dtype: Any = np.uint8) -> np.ndarray:
    """Return the array to write an image to. Raise ``ValueError`` if *out* gives one of another
    *shape* or *dtype*.
    """
    if out is None:
        return np.empty(shape, dtype)
    array = out(shape, dtype) if callable(out) else out
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(
            f"out has shape {array.shape} and dtype {array.dtype}, the image has shape {shape} "
            f"and dtype {np.dtype(dtype)}; images of varying size need out=None or a function"
        )
    return array
