"""Decodes JPEGs with libjpeg-turbo's own library,
straight into the array, in any number of threads.

``np.array(Image.open(path).convert("RGB"))`` decodes into Pillow's arena of image memory, which all
threads share behind a mutex (python-pillow/Pillow #8692), and copies the pixels three times. Here
``tjDecompress2`` writes them into the array, without the GIL, the arena and Pillow's plugin
registry.

``decode`` returns pixels only if they equal Pillow's. For all other files it returns None: the
caller then uses Pillow, and reports Pillow's errors. Damaged files are left to Pillow. So are all
progressive files, since versions of libjpeg-turbo fill in missing scans in different ways. So are
files whose header has what Pillow refuses and libjpeg-turbo passes over, such as a JFIF segment
that is cut short.

The library is Debian's package libturbojpeg0, Ubuntu's libturbojpeg.
API 2: https://libjpeg-turbo.org/Documentation
"""

import ctypes
import io
from typing import Literal

import numpy as np
from PIL import Image

from ftloader.decode.source import Out, Size, array_for

_RGB, _GRAY = 0, 6  # TJPF_RGB, TJPF_GRAY
# TJCS_RGB, TJCS_YCbCr, TJCS_GRAY; others are Pillow's
_COLOUR_SPACES = {0: "RGB", 1: "RGB", 2: "L"}


class TurboJpeg:
    """The shared library libturbojpeg. Its methods may be called by several threads at once."""

    def __init__(self, name: str = "libturbojpeg.so.0") -> None:
        """Load the library *name*. Raise ``OSError`` if it is missing,
        ``AttributeError`` if it is not libturbojpeg.
        """
        library = ctypes.CDLL(name)  # its functions are called without the GIL
        number, pointer, numbers = ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)
        data = (pointer, ctypes.c_char_p, ctypes.c_ulong)
        library.tjInitDecompress.restype = pointer
        library.tjDestroy.argtypes = (pointer,)
        library.tjDecompressHeader3.argtypes = (*data, numbers, numbers, numbers, numbers)
        library.tjDecompress2.argtypes = (*data, pointer, number, number, number, number, number)
        self._library = library
        # The sum of the N of the sizes 1/N that decode() may give. No set: threads would contend
        # for its lock.
        self.scales = 1 + 2 + 4 + 8  # only load() changes it

    def decode(
        self, data: bytes, mode: str, out: Out, at_least: Size = None
    ) -> tuple[np.ndarray | None, Out]:
        """Decode the JPEG *data* to uint8 pixels: HWC for *mode* "RGB",
        HW for "L". *at_least*: see ``read_image``.

        Returns:
            (array, *out*). If Pillow must decode the image, the array is None. Then the second
            element says where Pillow must write: it is *out*, or the array that *out* returned if
            *out* is a function and was called.
        """
        if not _is_plain(data):
            return None, out
        # For this image alone: a handle keeps the tables of one image for the next,
        # which may lack its own.
        handle = self._library.tjInitDecompress()
        if not handle:
            raise MemoryError("libturbojpeg could not make a decompressor")
        try:
            return self._decode(handle, data, mode, out, at_least)
        finally:
            self._library.tjDestroy(handle)

    def _decode(
        self, handle: int, data: bytes, mode: str, out: Out, at_least: Size
    ) -> tuple[np.ndarray | None, Out]:
        size = self._decoded_size(handle, data, mode, at_least)
        if size is None:
            return None, out
        shape: tuple[int, ...] = size
        pixel_format = _GRAY
        if mode == "RGB":
            shape, pixel_format = (*size, 3), _RGB
        array = dense = array_for(out, shape)
        if not array.flags.carray:
            dense = np.empty(array.shape, np.uint8)
        layout = size[1], 0, size[0], pixel_format  # 0: lines without padding
        # Not 0 for a warning too, such as of a truncated file.
        if self._library.tjDecompress2(handle, data, len(data), dense.ctypes.data, *layout, 0):
            if out is not None:
                out = array
            return None, out
        if dense is not array:
            array[...] = dense
        return array, out

    def _decoded_size(
        self, handle: int, data: bytes, mode: str, at_least: Size
    ) -> tuple[int, int] | None:
        """Return the (height, width) to which the image is decoded;
        None if Pillow must decode it.
        """
        width, height, sampling, colours = (ctypes.c_int() for _ in range(4))
        fields = map(ctypes.byref, (width, height, sampling, colours))
        if self._library.tjDecompressHeader3(handle, data, len(data), *fields):
            return None
        stored = _COLOUR_SPACES.get(colours.value)
        # Colour to "L" is left to Pillow's convert(): libjpeg rounds differently.
        if stored is None or (stored != mode and mode != "RGB"):
            return None
        size = height.value, width.value
        limit = Image.MAX_IMAGE_PIXELS
        if limit is not None and size[0] * size[1] > limit:
            return None  # Pillow warns or raises an error
        if at_least is None:
            return size
        scale = _scale(size, at_least)
        # libjpeg-turbo takes the result's size, and chooses one of 16 scales from it: ambiguous for
        # a few pixels.
        if not scale & self.scales or (scale > 1 and max(size) < 8):
            return None
        return -(-size[0] // scale), -(-size[1] // scale)


def _is_plain(data: bytes) -> bool:
    """True if *data* begins like a sequential JPEG with Huffman coding,
    and Pillow reads its header, too.

    Source: ITU-T T.81, annex B.
    """
    # Literals, not names of the module: threads without the GIL contend for the reference count of
    # a global object.
    if data[:2] != b"\xff\xd8":  # SOI
        return False
    at, end, frame = 2, len(data), False
    while at + 4 <= end and data[at] == 0xFF:
        marker, start, at = data[at + 1], at + 4, at + 2 + (data[at + 2] << 8 | data[at + 3])
        if at > end:
            return False
        if marker == 0xDA:  # a scan
            return frame
        if marker == 0xC0 or marker == 0xC1:  # a sequential frame
            frame = True
        elif 0xE0 <= marker <= 0xEF:  # APPn
            if not _is_read_by_pillow(data, marker, start, at):
                return False
        elif marker not in (0xC4, 0xDB, 0xDD, 0xFE):
            # Huffman and quantization tables, restart interval, comment
            return False
    return False


def _is_read_by_pillow(data: bytes, marker: int, start: int, end: int) -> bool:
    """True if Pillow reads the application segment *data*[*start*:*end*].
    It refuses files for some damaged ones.

    False also for rare segments whose check would take long.
    """
    if marker == 0xE0 or marker == 0xEE:
        return end - start >= 7 or not data.startswith((b"JFIF", b"Adobe"), start, end)
    if marker == 0xE1 and data.startswith(b"Exif\0\0", start, end):
        return _has_plain_resolution(data[start + 6 : end])
    if marker == 0xE2:
        if data.startswith(b"ICC_PROFILE\0", start, end):
            return end - start >= 14
        return not data.startswith(b"MPF\0", start, end)  # an index of several pictures
    if marker == 0xED and data.startswith(b"Photoshop 3.0\0", start, end):
        at = start + 14
        while data.startswith(b"8BIM", at, end):
            # a kind, a name, a size and data, both padded to even lengths
            at += 6
            if at >= end:
                return False
            at += 1 + data[at]
            at += at - start & 1
            at += 4 + int.from_bytes(data[at : at + 4])
            at += at - start & 1
    return True


def _has_plain_resolution(exif: bytes) -> bool:
    """True if the first directory of *exif*, a TIFF file, has no XResolution, or one fraction.
    False in rare cases.
    """
    order: Literal["little", "big"]
    if exif[:4] == b"II*\0":
        order, tag, fraction = "little", b"\x1a\x01", b"\5\0\1\0\0\0"
    elif exif[:4] == b"MM\0*":
        order, tag, fraction = "big", b"\x01\x1a", b"\0\5\0\0\0\1"
    else:
        return False
    begin = int.from_bytes(exif[4:8], order) + 2
    end = begin + 12 * int.from_bytes(exif[begin - 2 : begin], order)
    if end > len(exif):  # the next segment may have the rest
        return False
    at = exif.find(tag, begin, end)
    return (
        at < 0
        or exif[at + 2 : at + 8] == fraction
        and (at - begin) % 12 == 0
        and exif.find(tag, at + 1, end) < 0
    )


def _scale(size: tuple[int, int], at_least: tuple[int, int]) -> int:
    """Return the largest N of 2, 4 and 8 for which *size* is N times *at_least* or more;
    else 1. As in Pillow.
    """
    ratio = min(size[0] // at_least[0], size[1] // at_least[1])
    for scale in (8, 4, 2):
        if ratio >= scale:
            return scale
    return 1


def load() -> TurboJpeg | None:
    """Return the library; None if it is not installed,
    or if it decodes test JPEGs to other pixels than Pillow.

    If only the pixels at 1/2, 1/4 or 1/8 of the size differ,
    the library is used, but not for this size.
    """
    pixels = np.arange(19 * 23 * 3, dtype=np.uint8).reshape(19, 23, 3)
    colour, gray = Image.fromarray(pixels), Image.fromarray(pixels[:, :, 0].copy())
    try:
        library = TurboJpeg()
        for picture, sampling in ((colour, 0), (colour, 1), (colour, 2), (gray, 0)):
            file = io.BytesIO()
            picture.save(file, "JPEG", subsampling=sampling)
            for scale in (1, 2, 4, 8):
                size = 19 // scale, 23 // scale
                decoded, _ = library.decode(file.getvalue(), "RGB", None, size)
                image = Image.open(file)
                image.draft(None, size[::-1])
                if not np.array_equal(decoded, np.array(image.convert("RGB"))):
                    library.scales &= ~scale
    except Exception:  # no library, or a Pillow without JPEG
        return None
    if not library.scales & 1:
        return None
    return library
