"""Pillow and nvImageCodec in one chart: figure 4 of NVIDIA's article.

The cases are the decoders. Where there is a GPU, nvImageCodec decodes on it and Pillow's batches are
copied to it, so that both end where they are used; without one both decode on the CPU, to the same
bits, and every output says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ftbench.plan.contestants import Contestant, Pair, plural
from ftbench.plan.grid import Grid
from ftbench.plan.scenario import Amount, Case, Scenario, Task
from ftbench.scenarios import pillow
from ftbench.scenarios.nvimgcodec import decoding, gpu, images

CASES = (Case("pillow", "Pillow", {"decoder": "pillow"}), Case("nvimgcodec", "nvImageCodec", {"decoder": "nvimgcodec"}))


class Decoders(Grid):
    """The grid, and the one decoder against the other, which load the same images."""

    def pairs(self, contestants: Iterable[Contestant]) -> list[Pair]:
        """The grid's comparisons, then nvImageCodec against Pillow for everybody who has both."""
        contestants = list(contestants)
        keys = {c.key for c in contestants}
        by_decoder = [
            Pair(
                "case",
                f"nvImageCodec / Pillow, {c.config} {plural(c.variant)} x{c.workers}",
                replace(c, case="nvimgcodec").key,
                c.key,
                metrics=("throughput",),
            )
            for c in sorted(contestants, key=lambda c: -c.workers)
            if c.case == "pillow" and replace(c, case="nvimgcodec").key in keys
        ]
        return [*super().pairs(contestants), *by_decoder]


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


SCENARIO = Scenario(
    name="combined",
    group="",
    description="JPEG decoding with Pillow and with nvImageCodec, 640x408, into uint8 batches",
    sample="one 640x408 JPEG decoded to RGB uint8",
    sample_bytes=pillow.HEIGHT * pillow.WIDTH * 3,
    source="images",
    dataset=dataset,
    measure=decoding.measure,
    metrics=("throughput", "worker_setup", "time_to_first_batch", "pss_mib"),
    contest=Decoders(CASES),
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
