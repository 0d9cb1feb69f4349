"""Small pictures, encoded in memory, and the pixels that Pillow makes of them."""

import io

import numpy as np
from PIL import Image


def picture(
    width: int = 40, height: int = 30, mode: str = "RGB", seed: int = 0, sharp: bool = True
) -> Image.Image:
    """Return a picture with smooth parts and, if *sharp*, with noise in a quarter."""
    noise = np.random.default_rng(seed)
    smooth = Image.fromarray(noise.integers(0, 256, (8, 8, 3), dtype=np.uint8)).resize(
        (width, height), Image.BICUBIC
    )
    pixels = np.asarray(smooth).copy()
    if sharp:
        pixels[: height // 2, : width // 2] = noise.integers(0, 256, (height // 2, width // 2, 3))
    return Image.fromarray(pixels).convert(mode)


def encoded(image: Image.Image, kind: str = "JPEG", **options: object) -> bytes:
    """Return the file of *image* in a format of Pillow's."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def plain(data: bytes, mode: str | None = "RGB") -> np.ndarray:
    """Return the pixels as users read them with Pillow alone."""
    image = Image.open(io.BytesIO(data))
    return np.array(image if mode is None else image.convert(mode))
