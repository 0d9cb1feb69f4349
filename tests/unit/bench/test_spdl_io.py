"""spdl's own decoder as a candidate. It needs FFmpeg's shared libraries,
which Debian's package ffmpeg brings.
"""

import ctypes.util

import numpy
import pytest
import torch

from ftbench.measure.loaders import open_loader
from ftbench.plan.scenario import Task
from ftbench.scenarios import SCENARIOS
from ftbench.scenarios.pillow import PillowDataset
from ftbench.scenarios.spdl_io import FfmpegImages, without_ffmpeg

pytest.importorskip(
    "spdl.io", reason="spdl-io is not installed here; it is in docker/requirements.lock"
)
LIBRARIES = all(ctypes.util.find_library(name) for name in ("avdevice", "avfilter", "avformat"))


def test_without_its_libraries_the_scenario_says_what_to_install():
    why = SCENARIOS["peers-spdl-io"].unavailable()
    assert (why is None) == LIBRARIES
    assert LIBRARIES or "apt-get install ffmpeg" in why


@pytest.mark.skipif(without_ffmpeg() is not None, reason="FFmpeg's libraries are not installed")
def test_the_pipeline_gives_the_pixels_of_the_dataset_which_are_nearly_pillows(paths):
    task = Task(
        SCENARIOS["peers-spdl-io"], paths, "spdl-io", 2, 4, 1, 1, 2, "ffmpeg", {"decoder": "ffmpeg"}
    )
    dataset, plain = task.dataset(), PillowDataset(paths)
    assert isinstance(dataset, FfmpegImages)
    with open_loader(task, dataset, persistent=False) as loader:
        batches = list(loader.epoch(8))
    assert [batch.shape for batch in batches] == [(4, 408, 640, 3)] * 2
    for number, image in enumerate(torch.cat(batches).numpy()):
        assert numpy.array_equal(image, dataset[number % len(paths)])
        assert numpy.abs(image.astype(int) - plain[number % len(paths)]).mean() < 3
