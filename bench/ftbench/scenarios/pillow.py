"""JPEG decoding with Pillow: the experiment of "Improved Data Loading with Threads", NVIDIA
Technical Blog, 2024.

The work after decoding determines how many bytes are copied. So there are three cases: the
article's (the pixels become an array, then part of a batch), the decoder alone, and the usual
pipeline, which makes the pictures smaller.
"""

from __future__ import annotations

import functools

from ftbench.measure import epochs
from ftbench.plan.case import Amount, Case
from ftbench.plan.scenario import Scenario, Task
from ftbench.plan.waterfall import WaterfallPlan

WIDTH, HEIGHT = 640, 408
# The usual input size of classifiers.
SIDE = 224
# Pixels that are read in each direction if all others stay in Pillow's memory.
GRID = 8


class PillowDataset:
    """Dataset of RGB images, resized (bilinear) if they have another size: sample i is a (408, 640,
    3) uint8 array.
    """

    def __init__(self, paths: list[str]):
        import numpy
        from PIL import Image

        self._array, self._open = numpy.array, Image.open
        self._bilinear, self._nearest = Image.Resampling.BILINEAR, Image.Resampling.NEAREST
        self._paths = tuple(paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int):
        with self._open(self._paths[index]) as file:
            image = file.convert("RGB")
        if image.size != (WIDTH, HEIGHT):
            image = image.resize((WIDTH, HEIGHT), self._bilinear)
        # A copy: asarray would give read-only memory, and torch would warn.
        return self._array(image)


class DecodedImages(PillowDataset):
    """Dataset like PillowDataset, bit for bit, but decoded by ftloader.decode, straight into the
    batch if possible.
    """

    def __init__(self, paths: list[str], backend: str = "auto"):
        from PIL import Image

        from ftloader import empty_sample
        from ftloader.decode import read_image

        super().__init__(paths)
        self._read = functools.partial(read_image, backend=backend, out=empty_sample)
        self._from_array = Image.fromarray

    def __getitem__(self, index: int):
        image = self._read(self._paths[index])
        if image.shape == (HEIGHT, WIDTH, 3):
            return image
        return self._array(self._from_array(image).resize((WIDTH, HEIGHT), self._bilinear))


class DecodedOnly(PillowDataset):
    """Dataset of images that are only decoded. Sample i has a few pixels of image i:
    an (8, 8, 3) uint8 array.
    """

    def __getitem__(self, index: int):
        with self._open(self._paths[index]) as file:
            return self._array(file.resize((GRID, GRID), self._nearest).convert("RGB"))


class Resized(PillowDataset):
    """Dataset of images resized for a classifier: sample i is a (224,
    224, 3) uint8 array (bilinear).
    """

    def __getitem__(self, index: int):
        with self._open(self._paths[index]) as file:
            image = file.convert("RGB")
        return self._array(image.resize((SIDE, SIDE), self._bilinear))


DATASETS = {"all": PillowDataset, "some": DecodedOnly, "resized": Resized}
# The first case is the article's. It has no name, so that its candidates have the same keys as in
# runs from before there were cases, and can be compared with them.
CASES = (
    Case("", "decode, convert to an RGB array"),
    Case(
        "decode",
        "decode only, pixels stay in Pillow",
        {"pixels": "some"},
        sample_bytes=GRID * GRID * 3,
    ),
    Case(
        "resize",
        f"decode, convert, resize to {SIDE}x{SIDE}",
        {"pixels": "resized"},
        sample_bytes=SIDE * SIDE * 3,
    ),
)


def dataset(task: Task) -> PillowDataset:
    """Return the dataset of the task's case."""
    return DATASETS[task.parameters.get("pixels", "all")](task.paths)


# A scenario of these images, with the defaults of all such scenarios.
of_images = functools.partial(
    Scenario, sample_bytes=HEIGHT * WIDTH * 3, source="images", dataset=dataset
)

SCENARIO = of_images(
    name="pillow",
    description="JPEG decoding with Pillow, 640x408, collated into uint8 batches",
    measure=epochs.measure,
    metrics=epochs.METRICS,
    plan=WaterfallPlan(CASES),
    full=Amount(batch_size=32, batches_per_worker=6, turns=10, seconds=600),
    quick=Amount(batch_size=16, batches_per_worker=6, turns=10, seconds=150),
    question="Where the GIL is released already, as in decoding with Pillow: threads or processes?",
    case_axis="what is done with the pixels",
)
