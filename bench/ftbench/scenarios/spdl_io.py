"""spdl with FFmpeg as the decoder. FFmpeg's pixels differ from Pillow's, so each decoder is a case
of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ftbench.measure import epochs
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import FT, SPDL, Comparison, ComparisonPlan, Side
from ftbench.plan.scenario import Task
from ftbench.scenarios.pillow import HEIGHT, WIDTH, DecodedImages, PillowDataset, of_images


class FfmpegImages(PillowDataset):
    """Dataset of RGB images decoded by spdl.io, resized if they have another size: a (408, 640, 3)
    uint8 array each.
    """

    def __init__(self, paths: list[str]):
        import spdl.io

        super().__init__(paths)
        self._load, self._load_all = spdl.io.load_image, spdl.io.load_image_batch
        self._to_numpy, self._to_torch = spdl.io.to_numpy, spdl.io.to_torch
        # Without padding, a filter that only converts the colours of pictures that have this size.
        self._filter = spdl.io.get_video_filter_desc(
            scale_width=WIDTH, scale_height=HEIGHT, scale_mode=None
        )

    def __getitem__(self, index: int):
        return self._to_numpy(self._load(self._paths[index], filter_desc=self._filter))

    def batch(self, indices: Sequence[int]) -> Any:
        """Return the images as one (N, 408, 640, 3) uint8 tensor, put together by spdl.io."""
        paths = [self._paths[index] for index in indices]
        return self._to_torch(
            self._load_all(paths, width=None, height=None, filter_desc=self._filter)
        )


def images(task: Task) -> PillowDataset:
    """Return the dataset of the images.

    The variant loader-decode decodes with ftloader.decode, the others with the case's decoder:
    FFmpeg or Pillow.
    """
    if task.variant == "loader-decode":
        return DecodedImages(task.paths)
    return (FfmpegImages if task.parameters["decoder"] == "ffmpeg" else PillowDataset)(task.paths)


def without_ffmpeg() -> str | None:
    """Return the reason why spdl.io cannot decode here, and what to do; None if it can."""
    try:
        import spdl.io

        spdl.io.demux_config()  # the first call loads FFmpeg's libraries
    except Exception as error:  # spdl.io lists all libraries that it tried
        return (
            f"spdl.io cannot load FFmpeg's shared libraries ({type(error).__name__}): sudo apt-get "
            "install ffmpeg; for containers, in an image made from ft-env"
        )
    return None


_io, _ours = Side("ft", "spdl-io", case="ffmpeg"), replace(FT, case="")
SCENARIO = of_images(
    name="peers-spdl-io",
    group="peers",
    description="JPEG decoding, 640x408, plain dataset: Pillow, or FFmpeg through spdl.io, whose "
    "pixels differ",
    dataset=images,
    measure=epochs.measure,
    metrics=epochs.METRICS,
    plan=ComparisonPlan(
        (
            Comparison(_ours, _io, "Pillow against spdl's decoder and pipeline", asked=True),
            Comparison(
                replace(_ours, variant="loader-decode"), _io, why="ftloader.decode against them"
            ),
            Comparison(replace(_ours, case="ffmpeg"), _io, why="the same decoder, in this loader"),
            Comparison(_ours, replace(SPDL, case=""), why="spdl-core around Pillow"),
        ),
        (
            Case("", "Pillow", {"decoder": "pillow"}),
            Case("ffmpeg", "FFmpeg (spdl.io)", {"decoder": "ffmpeg"}),
        ),
    ),
    case_axis="decoder",
    unavailable=without_ffmpeg,
    full=Amount(batch_size=128, batches_per_worker=8, turns=3, seconds=300),
    quick=Amount(batch_size=32, batches_per_worker=8, turns=3, seconds=100),
)
