"""Decodes JPEGs with libjpeg-turbo's own library, straight into the array, in any number of threads.

``np.array(Image.open(path).convert("RGB"))`` decodes into Pillow's arena of image memory, which all threads share
behind a mutex (python-pillow/Pillow #8692), and copies the pixels three times. Here ``tjDecompress2`` writes them into
the array, without the GIL, the arena and Pillow's plugin registry.

``decode`` returns pixels only if they equal Pillow's, and None for an unusual or damaged file. Then the caller uses
Pillow, and reports Pillow's errors. A library older than Pillow's own rarely decodes a damaged file that Pillow
refuses: version 2.1 did so for one of 40,000 files with random damage.

The library is Debian's package libturbojpeg0, Ubuntu's libturbojpeg.

Source: TurboJPEG API 2, https://libjpeg-turbo.org/Documentation
"""

import ctypes
import io
import threading
from typing import Any

import numpy as np
from PIL import Image

from ftloader.decode.source import Out, array_for

_RGB, _GRAY = 0, 6  # TJPF_RGB, TJPF_GRAY
_COLOUR_SPACES = {0: "RGB", 1: "RGB", 2: "L"}  # TJCS_RGB, TJCS_YCbCr, TJCS_GRAY; others are Pillow's

_local = threading.local()  # has the thread's decompressor, which only one thread may use at a time


class _Decompressor:
    """A handle of the library, freed together with its thread."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.handle = library.tjInitDecompress()
        if not self.handle:
            raise MemoryError("libturbojpeg could not make a decompressor")

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._library.tjDestroy(self.handle)


class TurboJpeg:
    """The shared library. Its methods may be called by several threads at once."""

    def __init__(self, name: str = "libturbojpeg.so.0") -> None:
        """Load the library *name*. Raise ``OSError`` if there is none, ``AttributeError`` if it is another one."""
        library = ctypes.CDLL(name)  # its functions are called without the GIL
        number, pointer, numbers = ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)
        data = (pointer, ctypes.c_char_p, ctypes.c_ulong)
        library.tjInitDecompress.restype = pointer
        library.tjDestroy.argtypes = (pointer,)
        library.tjDecompressHeader3.argtypes = (*data, numbers, numbers, numbers, numbers)
        library.tjDecompress2.argtypes = (*data, pointer, number, number, number, number, number)
        self._library = library

    def decode(self, data: bytes, mode: str, out: Out) -> tuple[np.ndarray | None, Out]:
        """Decode the JPEG *data* to uint8 pixels: HWC for *mode* "RGB", HW for "L".

        Returns:
            The array, and *out*. The array is None if Pillow itself must decode. Then the second element is what
            Pillow must write to: the array that *out* gave, if *out* is a function and was called.
        """
        if data[:3] != b"\xff\xd8\xff":  # Pillow wants a marker right after the first one
            return None, out
        handle = self._handle()
        width, height, sampling, colours = (ctypes.c_int() for _ in range(4))
        parts = (ctypes.byref(part) for part in (width, height, sampling, colours))
        if self._library.tjDecompressHeader3(handle, data, len(data), *parts):
            del _local.decompressor  # after some errors it takes no further image
            return None, out
        stored = _COLOUR_SPACES.get(colours.value)
        # Colour to "L" is left to Pillow's convert(): libjpeg rounds differently.
        if stored is None or (stored != mode and mode != "RGB"):
            return None, out
        plane = height.value, width.value
        limit = Image.MAX_IMAGE_PIXELS
        if limit is not None and plane[0] * plane[1] > limit:
            return None, out  # Pillow warns or raises an error
        array = array_for(out, (*plane, 3) if mode == "RGB" else plane)
        dense = array if array.flags.carray else np.empty(array.shape, np.uint8)
        size = width, 0, height, _RGB if mode == "RGB" else _GRAY  # 0: lines without padding
        # Not 0 for a warning too, such as of a truncated file.
        if self._library.tjDecompress2(handle, data, len(data), dense.ctypes.data, *size, 0):
            del _local.decompressor
            return None, None if out is None else array
        if dense is not array:
            array[...] = dense
        return array, out

    def _handle(self) -> Any:
        made = getattr(_local, "decompressor", None)
        if made is None:
            made = _local.decompressor = _Decompressor(self._library)
        return made.handle


def load() -> TurboJpeg | None:
    """Return the library; None if it is not installed, or if its pixels of two test JPEGs are not Pillow's."""
    pixels = np.arange(19 * 23 * 3, dtype=np.uint8).reshape(19, 23, 3)
    try:
        library = TurboJpeg()
        for picture in (Image.fromarray(pixels), Image.fromarray(pixels[:, :, 0].copy())):
            file = io.BytesIO()
            picture.save(file, "JPEG")
            decoded, _ = library.decode(file.getvalue(), "RGB", None)
            if decoded is None or not np.array_equal(decoded, np.array(Image.open(file).convert("RGB"))):
                return None
    except (OSError, AttributeError):
        return None
    return library
