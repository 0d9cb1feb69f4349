"""Pillow and nvImageCodec in one chart: figure 4 of NVIDIA's article (ftbench.scenarios.nvimgcodec).

The cases are the decoders. With a GPU, nvImageCodec decodes on it and Pillow's batches are copied to it, so that both
end in the same place. Without a GPU both decode on the CPU, to the same bits, and every output says so.
"""

from __future__ import annotations

from dataclasses import replace

from ftbench.measure import gpu
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import OURS, Comparison, grid
from ftbench.plan.scenario import Task
from ftbench.scenarios import nvimgcodec, pillow

CASES = (Case("pillow", "Pillow", {"decoder": "pillow"}), Case("nvimgcodec", "nvImageCodec", {"decoder": "nvimgcodec"}))
# One decoder against the other, for every candidate: both load the same images.
BY_DECODER = tuple(
    Comparison(
        replace(side, case="nvimgcodec"),
        replace(side, case="pillow"),
        kind="case",
        every_count=True,
        measures=False,
        first_only=True,
    )
    for side in OURS
)


def dataset(task: Task):
    """Return Pillow's dataset or nvImageCodec's, by the task's case."""
    return (pillow if task.parameters["decoder"] == "pillow" else nvimgcodec).dataset(task)


def note() -> str:
    """Say which of nvImageCodec's backends was measured, and where the batches ended."""
    return nvimgcodec.backend_note() + ("; Pillow's batches are copied to it" if gpu.device() else "")


SCENARIO = pillow.of_images(
    name="combined",
    question="Which decoder, and which workers for it?",
    description="JPEG decoding with Pillow and with nvImageCodec, 640x408, into uint8 batches",
    dataset=dataset,
    measure=nvimgcodec.measure,
    metrics=nvimgcodec.METRICS,
    plan=grid(CASES, more=BY_DECODER),
    case_axis="decoder",
    full=Amount(batch_size=512, batches_per_worker=3, seconds=900),
    quick=Amount(batch_size=64, batches_per_worker=4, seconds=150),
    unavailable=nvimgcodec.without_nvimgcodec,
    note=note,
)
