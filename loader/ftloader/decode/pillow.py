"""Images to arrays with Pillow, in many threads at once.

The pixels are those of ``np.array(Image.open(file).convert(mode))``, always. What differs is how, for JPEGs: see
``jpeg_fast``.
"""

import io

import numpy as np
from PIL import Image, ImageMode, UnidentifiedImageError

from ftloader.decode import jpeg_fast
from ftloader.decode.output import Out, array_for
from ftloader.decode.source import Encoded

# Pillow's plugins, the usual ones first, loaded under Python's import lock: else Image.open would fill its registry,
# and walk it, in several threads at once.
Image.preinit()
Image.init()

# Whether jpeg_fast suits this Pillow. Written once, here.
_fast_jpeg = jpeg_fast.works()


def read_array(encoded: Encoded, mode: str | None, out: Out) -> np.ndarray:
    """*encoded* as an array of *mode*, in *out* if given. See ``ftloader.decode.read_image``."""
    if _fast_jpeg and (mode == "RGB" or mode == "L"):
        array = jpeg_fast.decode(encoded.data, mode, out)
        if array is not None:
            return array
    image = load(encoded, mode)
    descriptor = ImageMode.getmode(image.mode)
    if descriptor.typestr == "|u1":
        bands = len(descriptor.bands)
        plane = image.height, image.width
        array = array_for(out, plane if bands == 1 else (*plane, bands))
        jpeg_fast.pack_into(array, image.im, image.mode, image.size)
        return array
    pixels = np.array(image)
    if out is None:
        return pixels
    array = array_for(out, pixels.shape, pixels.dtype)
    array[...] = pixels
    return array


def load(encoded: Encoded, mode: str | None) -> Image.Image:
    """*encoded* as a Pillow image of *mode* with its pixels decoded.

    Raises ``DecodeError`` for whatever Pillow finds wrong with the data, and ``ValueError`` for a mode that does not
    exist.
    """
    try:
        if mode is not None:
            ImageMode.getmode(mode)
    except KeyError:
        raise ValueError(
            f"mode={mode!r} is not a mode of Pillow's; usual ones are 'RGB', 'L', 'RGBA', and None for the image's own"
        ) from None
    try:
        image = Image.open(io.BytesIO(encoded.data))
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
