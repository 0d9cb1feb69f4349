"""The generated images cost what photographs cost: within 20% as many bits per pixel, and sizes that differ as much.

The photographs are the twelve of Debian's package mate-backgrounds 1.26.0-1 (mate/nature), cut and resized to the
scenario's size and saved with its JPEG settings. Their decoding time was within 20% too.
"""

import io
import statistics

import pytest

from ftbench.data import images, synthesis

BITS_PER_PIXEL, SPREAD = 1.963, 0.291
"""Of the photographs: the mean, and the standard deviation of their sizes over their mean."""


def test_generated_images_are_as_large_as_photographs_and_differ_as_much():
    sizes = []
    for number in range(24):
        buffer = io.BytesIO()
        synthesis.photograph(images.SEED + number).save(buffer, "JPEG", **synthesis.JPEG_SETTINGS)
        sizes.append(buffer.tell())
    mean = statistics.mean(sizes)
    assert 8 * mean / (synthesis.WIDTH * synthesis.HEIGHT) == pytest.approx(BITS_PER_PIXEL, rel=0.2)
    assert statistics.stdev(sizes) / mean > SPREAD / 2
