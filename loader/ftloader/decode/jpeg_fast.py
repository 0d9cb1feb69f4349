"""Decodes JPEGs to arrays with Pillow's codecs, without the copies and the shared memory arena of Pillow's images.

``np.array(Image.open(path).convert("RGB"))`` allocates and clears an image in Pillow's arena, which all threads share
behind a mutex (python-pillow/Pillow #8692). Pillow copies the pixels, packs them into pieces, joins these and copies
the result. Here the same libjpeg code decodes into scratch memory that the thread keeps: a *core image*, Pillow's image
object in C. The pixels are packed from there straight into the array: one copy, no arena, no plugin registry.

``decode`` returns pixels only if they are certain to equal Pillow's, and None for an unusual or damaged file. Then the
caller uses Pillow's public functions, and reports their errors. ``works`` tells if the installed Pillow is suitable.
"""

import io
import threading
from typing import Any

import numpy as np
from PIL import Image, ImageFile

from ftloader.decode.source import Out, array_for

_KEPT_PIXELS = 4 << 20  # of 4 bytes: largest scratch image that a thread keeps
_PIECE = 96 << 10  # bytes, few enough to stay in the processor's cache between pack and copy
_CORE: Any = Image.core

_scratch = threading.local()  # for each mode an ImagingCore and its size, of this thread alone


def decode(data: bytes, mode: str, out: Out) -> np.ndarray | None:
    """Return the JPEG *data* as uint8 pixels, HWC for *mode* "RGB", HW for "L"; None if Pillow itself must decode."""
    header = parse_header(data)
    if header is None:
        return None
    size, stored = header[:2], {1: "L", 3: "RGB"}.get(header[2])
    # Colour to "L" is left to Pillow's convert(): libjpeg rounds differently.
    if stored is None or (stored != mode and mode != "RGB"):
        return None
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and size[0] * size[1] > limit:
        return None  # Pillow warns or raises an error
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        return None  # old pixels of the scratch memory would show where the file has none
    image = _scratch_image(stored, size)
    if not _decode_into(image, data, stored, size):
        return None
    plane = size[1], size[0]
    array = array_for(out, (*plane, 3) if mode == "RGB" else plane)
    if stored == mode:
        pack_into(array, image, stored, size)
    else:
        gray = np.empty(plane, np.uint8)
        pack_into(gray, image, stored, size)
        array[...] = gray[:, :, np.newaxis]
    return array


def parse_header(data: bytes) -> tuple[int, int, int] | None:
    """Return (width, height, number of components) of the JPEG *data*; None if *data* is not a plain 8-bit JPEG."""
    # Source: ITU-T T.81, annex B. The parser is strict on purpose. It returns None for anything unusual, such as fill
    # bytes, junk between segments, arithmetic coding, 12 bits or a height given later: a full parser has to read those.
    # It reads what it accepts exactly as libjpeg does, so both agree on the size.
    # The markers are literals, not names of the module. Without the GIL, threads contend for the reference count of a
    # global object at each marker; constants are immortal.
    if data[:2] != b"\xff\xd8":  # SOI
        return None
    header = None
    at, end = 2, len(data)
    while at + 4 <= end:
        marker = data[at + 1]
        length = data[at + 2] << 8 | data[at + 3]  # counts its own two bytes, not the marker's
        start, at = at, at + 2 + length
        if data[start] != 0xFF or length < 2 or at > end:
            return None
        if 0xE0 <= marker <= 0xEF or marker in (0xC4, 0xDD, 0xFE):
            continue  # APPn, Huffman tables, restart interval, comment
        if marker == 0xDB:  # quantization tables of 64 values, which must fill the segment (B.2.4.1)
            table = start + 4
            while table < at:
                table += 1 + (64 if data[table] >> 4 == 0 else 128)
            if table != at:
                return None
        elif marker == 0xDA:  # the first scan
            return header
        # Frames that libjpeg decodes everywhere: baseline, extended, progressive; of 8 bits.
        elif marker in (0xC0, 0xC1, 0xC2) and not header and length >= 8 and data[start + 4] == 8:
            width, height = data[start + 7] << 8 | data[start + 8], data[start + 5] << 8 | data[start + 6]
            header = width, height, data[start + 9]
            if length != 8 + 3 * header[2] or not (width and height):
                return None
        else:
            return None
    return None


def pack_into(array: np.ndarray, image: Any, mode: str, size: tuple[int, int]) -> None:
    """Write the top left *size* = (width, height) pixels of *image*, a core image, into *array*, which is uint8."""
    if not array.flags.c_contiguous:
        dense = np.empty(array.shape, np.uint8)
        pack_into(dense, image, mode, size)
        array[...] = dense
        return
    target = memoryview(array).cast("B")
    line = target.nbytes // size[1]
    encoder = _CORE.raw_encoder(mode, mode, 0, 1)
    encoder.setimage(image, (0, 0, *size))
    at = 0
    while True:
        # The encoder writes whole lines, so a piece holds at least one.
        _, status, piece = encoder.encode(max(_PIECE, line))
        target[at : at + len(piece)] = piece  # ValueError if that is too much
        at += len(piece)
        if status:
            break
    if status < 0 or at != target.nbytes:
        raise RuntimeError(f"Pillow packed {at} of {target.nbytes} bytes (status {status})")


def _decode_into(image: Any, data: bytes, mode: str, size: tuple[int, int]) -> bool:
    """Decode the JPEG *data* into the top left of *image*, a core image. Return True if all of *data* was decoded."""
    # Mode, raw mode, JPEG mode, scale and draft of JpegImageFile.
    decoder = _CORE.jpeg_decoder(mode, mode, "", 1, 0)
    try:
        decoder.setimage(image, (0, 0, *size))
        consumed, error = decoder.decode(data)
    except (OSError, ValueError):
        return False
    finally:
        decoder.cleanup()
    # Negative once the decoder has finished. Otherwise it waits for more: the file is truncated.
    return consumed < 0 and error == 0


def _scratch_image(mode: str, size: tuple[int, int]) -> Any:
    """Return this thread's core image of *mode*, at least *size* = (width, height), with arbitrary pixel values."""
    width, height = size
    kept = getattr(_scratch, mode, None)
    if kept is not None:
        image, (kept_width, kept_height) = kept
        if width <= kept_width and height <= kept_height:
            return image
        # Grow in both directions, so that alternating portraits and landscapes share one image.
        grown = max(width, kept_width), max(height, kept_height)
        if grown[0] * grown[1] <= _KEPT_PIXELS:
            width, height = grown
    image = _CORE.new(mode, (width, height))
    if width * height <= _KEPT_PIXELS:
        setattr(_scratch, mode, (image, (width, height)))
    return image


def works() -> bool:
    """Return True if ``decode`` and the installed Pillow's public functions give equal pixels for test JPEGs."""
    pixels = np.arange(19 * 23 * 3, dtype=np.uint8).reshape(19, 23, 3)
    try:
        for picture in (Image.fromarray(pixels), Image.fromarray(pixels[:, :, 0].copy())):
            file = io.BytesIO()
            picture.save(file, "JPEG")
            decoded = decode(file.getvalue(), "RGB", None)
            if decoded is None or not np.array_equal(decoded, np.array(Image.open(file).convert("RGB"))):
                return False
    except Exception:
        return False  # this Pillow has no JPEG, or other codecs
    return True
