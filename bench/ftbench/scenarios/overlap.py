"""Overlap of loading and training: a step takes max(load,
train) with overlap, load + train without.
"""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import repeat
from statistics import fmean
from typing import Any

from ftbench.measure import checksums
from ftbench.measure.gpu import where_trained
from ftbench.measure.loaders import open_loader
from ftbench.measure.neighbours import alternate, condition_ratios
from ftbench.plan.candidates import SERIAL
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import Comparison, Side, grid
from ftbench.plan.scenario import Task, Turns
from ftbench.scenarios.pillow import of_images
from ftrun import cgroup

CALIBRATION_UNITS = 20


class TorchStep:
    """Training of a small network, in units of at most half a millisecond,
    on the accelerator or one CPU.
    """

    def __init__(self) -> None:
        import torch

        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        # A GPU needs more work for the same time.
        self._width = 1024 if self.device.type == "cuda" else 128
        torch.manual_seed(0)
        self._network = torch.nn.Sequential(
            torch.nn.Linear(self._width, self._width),
            torch.nn.ReLU(),
            torch.nn.Linear(self._width, self._width),
        ).to(self.device)
        self._optimiser = torch.optim.SGD(self._network.parameters(), lr=1e-4)

    def __call__(self, batch: Any, units: int) -> float:
        """Train for `units` steps on the first values of a batch (a uint8 tensor);
        return the last loss.
        """
        size = 128 * self._width
        values = batch.reshape(-1)[:size].to(self.device, non_blocking=True)
        # Values of small batches are repeated to fill the network's input.
        times = math.ceil(size / values.numel())
        values = (values.float() / 255).repeat(times)[:size].reshape(128, self._width)
        loss = values.sum()
        for _ in range(units):
            self._optimiser.zero_grad()
            loss = self._network(values).square().mean()
            loss.backward()
            self._optimiser.step()
        return loss.item()  # waits for the accelerator


def measure(task: Task, more: float = 1.0) -> Turns:
    """Time ``for batch in loader: train(batch)``, loading alone and training alone,
    `task.batches` steps each.

    Training a batch takes "ratio" (a parameter of the case) times as long as loading it. Each
    measurement starts when the first batch has come and no other is ready. Training during loading
    does *more* times the work: evaluation/trust uses this to test whether the benchmark finds a
    difference of known size. Returns the metrics step_over_max (1 if loading and training overlap
    perfectly) and step_over_sum (1 if they do not overlap).
    """
    train = TorchStep()
    batch_sums = checksums.Seen()
    steps = task.batches
    with open_loader(task, task.dataset(), persistent=True) as loader:
        for batch in loader.epoch(steps * task.batch_size):
            batch_sums.take(batch)
        epoch = (1 + steps + task.prefetch_factor * task.workers) * task.batch_size
        loading = _mean_step(loader.epoch(epoch), steps)
        train(batch, CALIBRATION_UNITS)  # the first call takes longer
        unit = _mean_step(repeat(batch, 2), 1, train, CALIBRATION_UNITS) / CALIBRATION_UNITS
        units = max(1, round(task.parameters["ratio"] * loading / unit))
        conditions: dict[str, Callable[[], float]] = {
            "load": lambda: _mean_step(loader.epoch(epoch), steps),
            "train": lambda: _mean_step(repeat(batch, 1 + steps), steps, train, units),
            "step": lambda: _mean_step(loader.epoch(epoch), steps, train, round(units * more)),
        }
        seconds = yield from alternate(conditions, task.turns)
    load = seconds["load"]
    train_alone = seconds["train"]
    step = seconds["step"]
    longer = max(load, train_alone, key=fmean)
    without_overlap = [*map(operator.add, load, train_alone)]
    pairs = {"step_over_max": (step, longer), "step_over_sum": (step, without_overlap)}
    return {
        **condition_ratios(pairs),
        "note": note(train.device.type, task.workers, cgroup.usable_cpus()),
        **batch_sums.result(steps * task.batch_size, len(batch)),
        "batches": steps * task.turns,
    }


def note(device: str, workers: int, cpus: int) -> str:
    """Return a note for reports that names the device of the training.

    If the device is a CPU and there are at least as many workers as CPUs, the note also has the
    number of workers, which then share their CPUs with the training.
    """
    words = where_trained(device)
    if device != "cuda" and workers >= cpus:
        plural = "s" if cpus != 1 else ""
        words += f", and {workers} workers share {cpus} CPU{plural} with it"
    return words


def _mean_step(
    batches: Iterator, steps: int, train: TorchStep | None = None, units: int = 0
) -> float:
    """Take the first batch, then run `steps` steps; return their mean time (s).

    A step trains on the current batch with `train`, if given, and takes the next batch.
    """
    batch = next(batches)
    begin = time.perf_counter()
    for _ in range(steps):
        if train is not None:
            train(batch, units)
        batch = next(batches)
    seconds = time.perf_counter() - begin
    # Workers that went on would disturb the next measurement.
    for _ in batches:
        pass
    return seconds / steps


EQUAL = Case("1", "training as long as loading", {"ratio": 1.0}, 1.0)
LESS = Case("0.5", "training half as long as loading", {"ratio": 0.5}, 0.5)
MORE = Case("2", "training twice as long as loading", {"ratio": 2.0}, 2.0)
CASES = (EQUAL, LESS, MORE)


def _without_workers(case: Case, importance: int, quick: str = "") -> Iterator[Comparison]:
    """Yield for reference what loads without workers: a step has to take the sum."""
    for config in ("gil", "ft"):
        side = Side(config, SERIAL, 0, case.name)
        yield Comparison(side, importance=importance, quick=quick)


REFERENCES = (
    *_without_workers(EQUAL, importance=0, quick="most"),
    *_without_workers(LESS, importance=9),
    *_without_workers(MORE, importance=9),
)

SCENARIO = of_images(
    name="overlap",
    question="is a step max(load, train), not their sum?",
    description="a training loop over JPEGs, against loading alone and training alone in the same "
    "trial",
    measure=measure,
    metrics=("step_over_max", "step_over_sum"),
    # Where loading and training take equally long, max and sum differ most.
    plan=replace(grid(CASES, more=REFERENCES, quick=""), quick_cases=(EQUAL.name,)),
    inside=True,
    case_axis="time of training / of loading",
    full=Amount(batch_size=32, batches_per_worker=10, turns=4, seconds=600),
    quick=Amount(batch_size=32, batches_per_worker=4, turns=6, seconds=240),
    # One CPU is left to the training loop.
    workers=lambda cpus: [max(1, cpus - 1)],
    one_rank="it times the steps of one training loop",
)
