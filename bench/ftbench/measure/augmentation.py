"""Augmentations of images for training a classifier, with NumPy, Pillow and ftloader.sample_rng.

Random numbers depend on the sample alone, so the images are the same
for any number and kind of workers.
"""

import math

import numpy as np
from PIL import Image, ImageFilter

from ftloader import sample_rng

SIDE = 224
# Mean and deviation of ImageNet's pixels. Most trained networks expect pictures that are
# standardised by them.
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
FILL = tuple(round(255 * float(value)) for value in MEAN)


def random_crop(image: Image.Image, random: np.random.Generator) -> Image.Image:
    """Return a random part of the image, resized to SIDE x SIDE,
    and mirrored with a probability of 1/2.

    The part has 25% to 100% of the area and an aspect ratio of 3:4 to 4:3, as for Inception
    (Szegedy et al., "Going Deeper with Convolutions", CVPR 2015).
    """
    area = image.width * image.height * random.uniform(0.25, 1)
    aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
    width = min(math.sqrt(area * aspect), image.width)
    height = min(math.sqrt(area / aspect), image.height)
    left, top = random.uniform(0, image.width - width), random.uniform(0, image.height - height)
    image = image.resize(
        (SIDE, SIDE), Image.Resampling.BILINEAR, (left, top, left + width, top + height)
    )
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else image


def random_affine(image: Image.Image, random: np.random.Generator) -> Image.Image:
    """Rotate the image by up to 30°, move it by up to 10%, scale it by 0.8 to 1.2, and shear it by
    up to 10°.
    """
    turn, shear = np.radians(random.uniform(-30, 30)), math.tan(np.radians(random.uniform(-10, 10)))
    scale = random.uniform(0.8, 1.2)
    centre = np.array([image.width, image.height]) / 2
    moved = centre * (1 + 0.2 * random.uniform(-1, 1, 2))
    cos, sin = math.cos(turn), math.sin(turn)
    rotation = scale * np.array([[cos, -sin], [sin, cos]]) @ np.array([[1, shear], [0, 1]])
    # Pillow takes the map from the new picture to the old.
    back = np.linalg.inv(rotation)
    offset = centre - back @ moved
    matrix = (*back[0], offset[0], *back[1], offset[1])
    return image.transform(
        image.size,
        Image.Transform.AFFINE,
        tuple(map(float, matrix)),
        Image.Resampling.BILINEAR,
        fillcolor=FILL,
    )


def random_blur(image: Image.Image, random: np.random.Generator) -> Image.Image:
    """Blur the image with a Gaussian of random width, 0.1 to 2 pixels."""
    return image.filter(ImageFilter.GaussianBlur(random.uniform(0.1, 2)))


def random_colours(pixels: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Scale brightness, contrast and saturation by 0.6 to 1.4 each. `pixels` is (height, width, 3)
    float32, 0 to 1.
    """
    brightness, contrast, saturation = random.uniform(0.6, 1.4, 3).astype(np.float32)
    pixels = pixels * brightness
    pixels = (pixels - pixels.mean()) * contrast + pixels.mean()
    grey = pixels.mean(axis=2, keepdims=True)
    return np.clip((pixels - grey) * saturation + grey, 0, 1)


def add_noise(pixels: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Add normally distributed noise to the pixels,
    with a random standard deviation of up to 0.04.
    """
    return pixels + random.standard_normal(pixels.shape, np.float32) * np.float32(
        random.uniform(0, 0.04)
    )


def random_erasing(pixels: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Set a random rectangle, 2% to 20% of the area, to the mean colour,
    in place (Zhong et al., AAAI 2020).
    """
    height, width, _ = pixels.shape
    area, aspect = height * width * random.uniform(0.02, 0.2), math.exp(random.uniform(-1, 1))
    tall = min(height - 1, round(math.sqrt(area / aspect)))
    wide = min(width - 1, round(math.sqrt(area * aspect)))
    top, left = random.integers(height - tall), random.integers(width - wide)
    pixels[top : top + tall, left : left + wide] = MEAN
    return pixels


def light(image: Image.Image, random: np.random.Generator) -> np.ndarray:
    """Return the image after random_crop: (SIDE, SIDE, 3) float32, 0 to 1."""
    return np.asarray(random_crop(image, random), np.float32) / np.float32(255)


def heavy(image: Image.Image, random: np.random.Generator) -> np.ndarray:
    """Return the image after all augmentations of this module:
    (SIDE, SIDE, 3) float32, about 0 to 1.
    """
    image = random_blur(random_crop(random_affine(image, random), random), random)
    pixels = random_colours(np.asarray(image, np.float32) / np.float32(255), random)
    return random_erasing(add_noise(pixels, random), random)


AUGMENTATIONS = {"light": light, "heavy": heavy}


class Augmented:
    """Dataset of augmented and standardised images: sample i is a (3, 224, 224) float32 array."""

    def __init__(self, paths: list[str], amount: str):
        self._paths, self._augment = tuple(paths), AUGMENTATIONS[amount]

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> np.ndarray:
        with Image.open(self._paths[index]) as file:
            image = file.convert("RGB")
        pixels = self._augment(image, sample_rng().numpy)
        return np.ascontiguousarray(((pixels - MEAN) / DEVIATION).transpose(2, 0, 1))
