"""Backend that decodes images to arrays in any number of threads: JPEGs with libjpeg-turbo, all
others with Pillow.

The pixels always equal those of ``np.array(Image.open(file).convert(mode))``. With
``at_least=(height, width)``, they equal those after a call of ``image.draft(None, (width,
height))`` before ``convert``.
"""

import io
from collections.abc import Iterable, Sequence

import numpy as np
from PIL import Image, ImageMode, UnidentifiedImageError

from ftloader.decode import turbojpeg
from ftloader.decode.source import Encoded, Out, Size, put

# Load all plugins under Python's import lock, the usual ones first. Image.open would fill its
# registry, and walk it, in several threads at once.
Image.preinit()
Image.init()

_turbo = turbojpeg.load()  # never written again


def read_arrays(
    encoded: Iterable[Encoded], mode: str | None, outs: Sequence[Out], at_least: Size = None
) -> list[np.ndarray]:
    """Decode a batch of images, one after the other. See ``ftloader.decode.read_images``."""
    return [
        read_array(image, mode, out, at_least) for image, out in zip(encoded, outs, strict=True)
    ]


def read_array(encoded: Encoded, mode: str | None, out: Out, at_least: Size = None) -> np.ndarray:
    """Decode an image to an array of *mode*, into *out*
    if given. See ``ftloader.decode.read_image``.
    """
    if _turbo is not None and (mode == "RGB" or mode == "L"):
        array, out = _turbo.decode(encoded.data, mode, out, at_least)
        if array is not None:
            return array
    return put(np.array(load(encoded, mode, at_least)), out)


def load(encoded: Encoded, mode: str | None, at_least: Size = None) -> Image.Image:
    """Decode to a Pillow image of *mode*; *at_least*: see ``read_image``.

    Raise ``DecodeError`` for bad data, ``ValueError`` for an unknown mode.
    """
    try:
        if mode is not None:
            ImageMode.getmode(mode)
    except KeyError:
        raise ValueError(
            f"mode={mode!r} is not a mode of Pillow's; usual ones are 'RGB', 'L', 'RGBA', and "
            f"None for the image's own"
        ) from None
    try:
        image = Image.open(io.BytesIO(encoded.data))
        if at_least is not None:
            # not to *mode*: the gray of draft() differs from that of convert()
            image.draft(None, at_least[::-1])
        if mode is None or image.mode == mode:
            image.load()  # convert() would copy
            return image
        return image.convert(mode)
    except UnidentifiedImageError as error:
        reason = "it is in no format that Pillow knows"
        if not encoded.data:
            reason = "it is empty"
        raise encoded.error_because(reason) from error
    except MemoryError:
        raise
    # Damaged files make plugins raise nearly anything: SyntaxError,
    # struct.error, zlib.error, IndexError, ...
    except Exception as error:
        raise encoded.error(error) from error
