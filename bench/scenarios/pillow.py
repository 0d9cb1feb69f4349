"""JPEG decoding with Pillow: the loading experiment of NVIDIA's free-threading article.

"Improved Data Loading with Threads", NVIDIA Technical Blog, 2024: 640x408 photographs,
decoded by Pillow into batches of 512, by threads and by processes.
"""

from __future__ import annotations

from bench import epochs
from bench.grid import Grid
from bench.scenario import Amount, Scenario

WIDTH, HEIGHT = 640, 408


class PillowDataset:
    """Decoded RGB images: sample i is a (408, 640, 3) uint8 numpy array.

    Immutable after construction, so threads may share it. Images of another size are resized
    after decoding (bilinear), which all contestants then do alike.
    """

    def __init__(self, paths: list[str], variant: str = "loader-thread"):
        # Imported here: the controller reads this module, but decodes nothing.
        import numpy
        from PIL import Image

        self._array, self._open = numpy.array, Image.open
        self._bilinear = Image.Resampling.BILINEAR
        self._paths = tuple(paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int):
        with self._open(self._paths[index]) as file:
            image = file.convert("RGB")
        if image.size != (WIDTH, HEIGHT):
            image = image.resize((WIDTH, HEIGHT), self._bilinear)
        # A copy: torch warns about tensors on read-only memory, which asarray would give.
        return self._array(image)


SCENARIO = Scenario(
    name="pillow",
    group="",
    description="JPEG decoding with Pillow, 640x408, collated into uint8 batches",
    sample="one 640x408 JPEG decoded to RGB uint8",
    sample_bytes=HEIGHT * WIDTH * 3,
    source="images",
    dataset=PillowDataset,
    measure=epochs.measure,
    metrics=("throughput", "time_to_first_batch", "pss_mib"),
    contest=Grid(),
    full=Amount(batch_size=512, batches_per_worker=3),
    quick=Amount(batch_size=64, batches_per_worker=4),
    seconds=560,
    quick_seconds=105,
)
