"""Images to arrays with Pillow, in many threads at once.

The pixels are those of ``np.array(Image.open(file).convert(mode))``, always. What differs is how: see ``jpeg_fast`` for
JPEGs. For other formats the plugins are tried from a list of our own, since ``Image.open`` walks a registry that
another thread may be filling meanwhile.
"""

import io

import numpy as np
from PIL import Image, ImageMode, UnidentifiedImageError

from ftloader import fork_locks
from ftloader.decode import jpeg_fast
from ftloader.decode.output import Out, array_for
from ftloader.decode.source import Encoded

# The usual plugins (BMP, GIF, JPEG, PNG, PPM), loaded under Python's import lock.
Image.preinit()

# Whether jpeg_fast suits this Pillow. Written once, here.
_fast_jpeg = jpeg_fast.works()


class _Formats:
    """The formats to try, in Pillow's order. Owns the loading of Pillow's other plugins."""

    def __init__(self) -> None:
        self._lock = fork_locks.lock()  # for loading the plugins
        self._usual = tuple(Image.ID)
        self._complete = False  # goes to True once; a late reader merely tries the usual first

    def first(self) -> tuple[str, ...]:
        return tuple(Image.ID) if self._complete else self._usual

    def all(self) -> tuple[str, ...]:
        """Every format, also those that a program has registered since."""
        with self._lock:
            if not self._complete:
                Image.init()
                self._complete = True
        return tuple(Image.ID)


_formats = _Formats()


def open_image(encoded: Encoded) -> Image.Image:
    """A Pillow image on *encoded*, its pixels not yet decoded. Raises what Pillow raises."""
    tried = _formats.first()
    try:
        return Image.open(io.BytesIO(encoded.data), formats=tried)
    except UnidentifiedImageError:
        formats = _formats.all()
        if formats == tried:
            raise
    return Image.open(io.BytesIO(encoded.data), formats=formats)


def read_array(encoded: Encoded, mode: str | None, out: Out) -> np.ndarray:
    """*encoded* as an array of *mode*, in *out* if given. See ``ftloader.decode.read_image``."""
    if _fast_jpeg and (mode == "RGB" or mode == "L"):
        array = jpeg_fast.decode(encoded.data, mode, out)
        if array is not None:
            return array
    image = load(encoded, mode)
    return _to_array(image, out)


def load(encoded: Encoded, mode: str | None) -> Image.Image:
    """*encoded* as a Pillow image of *mode* with its pixels decoded.

    Raises ``DecodeError`` for whatever Pillow finds wrong with the data, and ``ValueError`` for a mode that does not
    exist.
    """
    if mode is not None:
        check_mode(mode)
    try:
        image = open_image(encoded)
        if mode is None or image.mode == mode:
            image.load()  # convert() would copy
            return image
        return image.convert(mode)
    except UnidentifiedImageError as error:
        what = "it is empty" if not encoded.data else "it is in no format that Pillow knows"
        raise encoded.error_because(what) from error
    except MemoryError:
        raise
    # Damaged files make the plugins raise nearly anything: OSError, SyntaxError, ValueError,
    # struct.error, zlib.error, IndexError, DecompressionBombError, ...
    except Exception as error:
        raise encoded.error(error) from error


def check_mode(mode: str) -> None:
    """Raises ``ValueError`` unless *mode* is a mode of Pillow's."""
    try:
        ImageMode.getmode(mode)
    except KeyError:
        raise ValueError(
            f"mode={mode!r} is not a mode of Pillow's; usual ones are 'RGB', 'L', 'RGBA', and None for the image's own"
        ) from None


def _to_array(image: Image.Image, out: Out) -> np.ndarray:
    descriptor = ImageMode.getmode(image.mode)
    if descriptor.typestr == "|u1":
        bands = len(descriptor.bands)
        shape = (image.height, image.width) if bands == 1 else (image.height, image.width, bands)
        array = array_for(out, shape)
        jpeg_fast.pack_into(array, image.im, image.mode, image.size)
        return array
    pixels = np.array(image)
    if out is None:
        return pixels
    array = array_for(out, pixels.shape, pixels.dtype)
    array[...] = pixels
    return array
