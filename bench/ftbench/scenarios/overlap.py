"""Is a step max(load, train), not their sum? Loading and training together, against each of them alone.

The loop is that of every training, ``for batch in loader: train(batch)``; `ftbench.overlap.measure` times it
beside its two bounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ftbench import overlap
from ftbench.contestants import Contestant
from ftbench.grid import Grid
from ftbench.scenario import Amount, Case, Scenario, Task
from ftbench.scenarios.pillow import HEIGHT, WIDTH, PillowDataset
from ftbench.training_step import workers_beside

EQUAL = Case("1", "training as long as loading", {"ratio": 1.0}, 1.0)
LESS = Case("0.5", "training half as long as loading", {"ratio": 0.5}, 0.5)
MORE = Case("2", "training twice as long as loading", {"ratio": 2.0}, 2.0)
CASES = (EQUAL, LESS, MORE)


@dataclass(frozen=True)
class WithSerial(Grid):
    """The grid, and loading without workers beside it, where a step has to be the sum."""

    def candidates(self, configs: Iterable[str], workers: Iterable[int], quick: bool) -> list[tuple[int, Contestant]]:
        """As Grid.candidates; of serial loading, the first case stays longest."""
        configs = list(configs)
        serial = [
            (0 if case is EQUAL else 4, Contestant(config, "serial", 1, case=case.name))
            for case in CASES
            if case is EQUAL or not quick
            for config in configs
            if config != "ft-gil" or len(configs) == 1
        ]
        return super().candidates(configs, workers, quick) + serial


def dataset(task: Task) -> PillowDataset:
    """The images of `pillow`."""
    return PillowDataset(task.paths)


SCENARIO = Scenario(
    name="overlap",
    group="",
    question="is a step max(load, train), not their sum?",
    description="a training loop over JPEGs, against loading alone and training alone in the same trial",
    sample="one 640x408 JPEG decoded to RGB uint8",
    sample_bytes=HEIGHT * WIDTH * 3,
    source="images",
    dataset=dataset,
    measure=overlap.measure,
    metrics=("step_over_max", "step_over_sum"),
    contest=WithSerial(CASES),
    cases=CASES,
    case_axis="time of training / of loading",
    full=Amount(batch_size=32, batches_per_worker=10),
    quick=Amount(batch_size=32, batches_per_worker=4),
    seconds=600,
    quick_seconds=460,
    workers=workers_beside,
)
