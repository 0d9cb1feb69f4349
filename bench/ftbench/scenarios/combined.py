"""Pillow and nvImageCodec in one chart: figure 4 of NVIDIA's article.

The cases are the decoders. Where there is a GPU, nvImageCodec decodes on it and Pillow's batches are
copied to it, so that both end where they are used; without one both decode on the CPU, to the same
bits, and every output says so.
"""

from __future__ import annotations

from ftbench.plan.contest import Comparison, Entry, grid
from ftbench.plan.contestants import CONFIGS
from ftbench.plan.scenario import Amount, Case, Task
from ftbench.scenarios import pillow
from ftbench.scenarios.nvimgcodec import decoding, gpu, images

CASES = (Case("pillow", "Pillow", {"decoder": "pillow"}), Case("nvimgcodec", "nvImageCodec", {"decoder": "nvimgcodec"}))


# One decoder against the other, which load the same images, for everybody who has both.
BY_DECODER = tuple(
    Comparison(
        Entry(config, variant, case="nvimgcodec"),
        Entry(config, variant, case="pillow"),
        kind="case",
        every_count=True,
        measures=False,
        metrics=("throughput",),
    )
    for config in CONFIGS
    for variant in ("loader-thread", "loader-process")
)


def dataset(task: Task):
    """Pillow's dataset or nvImageCodec's, by the task's case."""
    if task.parameters["decoder"] == "pillow":
        return pillow.PillowDataset(task.paths)
    return images.dataset(task)


def note() -> str:
    """Which of nvImageCodec's backends was measured, and where the batches ended."""
    if gpu.device() is None:
        return gpu.backend_note()
    return f"{gpu.backend_note()}; Pillow's batches are copied to it"


SCENARIO = pillow.of_images(
    name="combined",
    description="JPEG decoding with Pillow and with nvImageCodec, 640x408, into uint8 batches",
    dataset=dataset,
    measure=decoding.measure,
    metrics=("throughput", "worker_setup", "time_to_first_batch", "pss_mib"),
    contest=grid(CASES, more=BY_DECODER),
    full=Amount(batch_size=512, batches_per_worker=3),
    quick=Amount(batch_size=64, batches_per_worker=4),
    seconds=900,
    quick_seconds=150,
    question="Which decoder, and which workers for it?",
    unavailable=gpu.without_nvimgcodec,
    note=note,
    cases=CASES,
    case_axis="decoder",
)
