"""Synthetic photographs: decoding their JPEG files takes as long
as decoding those of real photographs.

Decoding time depends on the statistics that photographs share:

- amplitude spectra that fall as 1/f^a (Field, "Relations between the statistics of natural images",
  JOSA A 4, 1987);
- edges of objects that occlude each other, with a power law of sizes: the "dead leaves" model (Lee,
  Mumford, Huang, "Occlusion models for natural images", IJCV 41, 2001);
- large smooth regions next to textured ones, little chroma detail, and sensor noise.

The constants were fitted to real photographs of the same size, saved with the same settings.
tests/unit/bench/test_images.py checks that the statistics agree within 20%.
"""

import functools

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

WIDTH, HEIGHT = 640, 408
JPEG_SETTINGS = {"quality": 95, "subsampling": "4:2:0"}

LEAVES = 75  # median
SMALLEST, LARGEST = 6.0, 260.0  # radii in pixels
TEXTURE = 2.6  # median standard deviation of texture, in grey levels
CHROMA_TEXTURE = 3.0
NOISE = 0.4


# Slopes of the spectra of the random textures, by their kind.
SLOPES = {
    "luminance": (0.9, 1.0, 1.1, 1.2, 1.3),
    "chroma": (1.4,) * 4,
    "shading": (2.0,) * 3,
    "noise": (0.0,) * 3,
}


@functools.cache
def _fields(kind: str) -> np.ndarray:
    """Return n random textures ("fields") of this kind: (n, HEIGHT,
    WIDTH) float32, periodic, with variance 1.

    Their spectra fall as 1/f^slope. All photographs use these fields, shifted and mirrored, to save
    most of the work.
    """
    rng = np.random.default_rng([len(kind), *kind.encode()])
    fy = np.fft.fftfreq(HEIGHT)[:, None]
    fx = np.fft.rfftfreq(WIDTH)[None, :]
    frequency = np.sqrt(fy * fy + fx * fx)
    frequency[0, 0] = np.inf  # no mean
    fields = []
    # Below a few cycles per picture the leaves make the structure.
    limited = np.maximum(frequency, 4 / WIDTH)
    for slope in SLOPES[kind]:
        spectrum = np.fft.rfft2(rng.standard_normal((HEIGHT, WIDTH)))
        field = np.fft.irfft2(spectrum * limited**-slope, s=(HEIGHT, WIDTH))
        fields.append(field / field.std())
    return np.array(fields, dtype=np.float32)


def _field(rng: np.random.Generator, kind: str) -> np.ndarray:
    """Return one of the fields of this kind, chosen,
    mirrored and shifted at random: (HEIGHT, WIDTH).
    """
    fields = _fields(kind)
    field = fields[rng.integers(len(fields))]
    mirrored = field[:: rng.choice((-1, 1)), :: rng.choice((-1, 1))]
    shift = rng.integers(HEIGHT), rng.integers(WIDTH)
    return np.roll(mirrored, shift, axis=(0, 1))


def _leaves(rng: np.random.Generator) -> tuple[Image.Image, Image.Image]:
    """Draw overlapping shapes; return two images: their colours (RGB),
    and the strength of their textures (grey).
    """
    # A few related, muted colours: photographs are seldom colourful.
    grey = rng.uniform(40, 200, size=(6, 1))
    palette = grey + rng.normal(0, 22, size=(6, 3))
    colours = Image.new("RGB", (WIDTH, HEIGHT), _rgb(palette[0]))
    textures = Image.new("L", (WIDTH, HEIGHT), 40)
    draw_colour = ImageDraw.Draw(colours)
    draw_texture = ImageDraw.Draw(textures)
    # Radii with density r^-3, by inversion; painting from far to near needs no order.
    count = round(LEAVES * rng.lognormal(0, 0.6))
    u = rng.random(count)
    radii = (SMALLEST**-2 - u * (SMALLEST**-2 - LARGEST**-2)) ** -0.5
    # large shapes in the background fill the picture
    radii[:12] = rng.uniform(120, LARGEST, len(radii[:12]))
    for radius in radii:
        outline = _outline(rng, radius)
        base = palette[rng.integers(len(palette))]
        colour = base + rng.normal(0, 14) + rng.normal(0, 6, 3)
        draw_colour.polygon(outline, fill=_rgb(colour))
        # Most surfaces are smooth or out of focus, some are grass: a skewed distribution.
        draw_texture.polygon(outline, fill=int(255 * rng.beta(0.7, 1.8)))
    return colours, textures


def _rgb(colour: np.ndarray) -> tuple[int, ...]:
    """Return a colour with each channel cut off to 0...255."""
    return tuple(np.clip(colour, 0, 255).astype(int).tolist())


def _outline(rng: np.random.Generator, radius: float) -> list[tuple[float, float]]:
    """Return the corners (x, y) of a shape at a random place."""
    x, y = rng.random(2) * (WIDTH, HEIGHT)
    corners = int(rng.integers(5, 24))
    angles = np.sort(rng.random(corners)) * 2 * np.pi
    reach = radius * rng.uniform(0.6, 1.3, corners)
    across = x + reach * np.cos(angles)
    down = y + reach * np.sin(angles)
    return list(zip(across.tolist(), down.tolist(), strict=True))


def _blurred(image: Image.Image, radius: float) -> np.ndarray:
    return np.array(image.filter(ImageFilter.GaussianBlur(radius)), dtype=np.float32)


def photograph(seed: int) -> Image.Image:
    """Return a synthetic photograph, an RGB image of WIDTH x HEIGHT pixels
    that depends only on `seed`.
    """
    rng = np.random.default_rng(seed)
    colours, textures = _leaves(rng)
    focus = rng.uniform(0.7, 1.8)
    picture = _blurred(colours, focus)
    contrast = _blurred(textures, 2) / 64
    strength = TEXTURE * rng.lognormal(0, 0.6)
    luminance = _field(rng, "luminance") * strength
    blue = _field(rng, "chroma") * CHROMA_TEXTURE
    red = _field(rng, "chroma") * CHROMA_TEXTURE
    shading = _field(rng, "shading") * 12
    # Chroma detail in RGB: green is chosen so that luminance stays as it is.
    green = -0.5 * red - 0.2 * blue
    for channel, tint in enumerate((red, green, blue)):
        detail = (luminance + tint) * contrast
        picture[..., channel] += shading + detail + _field(rng, "noise") * NOISE
    return Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8))
