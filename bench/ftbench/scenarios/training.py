"""A whole training: a small network trained on JPEGs through each loader,
with the loss of each step.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from statistics import fmean
from typing import Any

from ftbench.machine.usage import cpu_seconds
from ftbench.measure.checksums import whole
from ftbench.measure.gpu import where_trained
from ftbench.measure.loaders import open_loader
from ftbench.plan.case import Amount
from ftbench.plan.comparisons import (
    FT,
    GIL,
    NODES,
    SPDL,
    THREADS,
    TORCH,
    Comparison,
    ComparisonPlan,
    Side,
)
from ftbench.plan.scenario import Scenario, Task
from ftrun import cgroup

EPOCHS = 3
SEED = 20261121


def steps_per_epoch(task: Task) -> int:
    """Return the number of batches of an epoch, the same for any number of workers."""
    return max(1, task.batches // max(1, task.workers))


def measure(task: Task) -> dict:
    """Train the same network for EPOCHS epochs on the loader's batches.

    Returns the metrics epoch_seconds and utilisation, means over the epochs after the first.
    Utilisation (%) is the share of the time in which the accelerator had a step to work on. Without
    an accelerator, utilisation is the share of the usable CPUs that was busy with this process and
    its workers, on average. Distributions: `loss` (a curve over steps) and `epoch` (s).

    Losses depend only on the batches and the seed, bit for bit: one thread computes, with torch's
    deterministic algorithms. So the result's `rows` has the checksums of all batches, then those of
    all losses.
    """
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    # cuBLAS reads this variable when it starts: https://pytorch.org/docs/2.10/notes/randomness.html
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    # Otherwise torch writes NaN into every batch before the samples, which is not a loader's work.
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.manual_seed(SEED)
    model = network().to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    accelerator = Accelerator() if device.type == "cuda" else None
    busy = accelerator.busy if accelerator else cpus_busy

    per_epoch = steps_per_epoch(task) * task.batch_size
    checksums: list[int] = []

    def noted(batch: Any) -> Any:
        checksums.append(whole(batch))
        return batch

    losses, times, used = [], [], []
    with open_loader(task, task.dataset(), persistent=True) as loader:
        for number in range(EPOCHS):
            before, begin = busy(), time.perf_counter()
            batches = map(noted, loader.epoch(per_epoch, number * per_epoch))
            steps = accelerator.steps(batches) if accelerator else batches
            of_epoch = list(train(model, optimiser, steps, device))
            losses += torch.stack(of_epoch).tolist()  # waits for the accelerator
            times.append(time.perf_counter() - begin)
            used.append((busy() - before) / times[-1] * 100)
    return {
        "metrics": {"epoch_seconds": fmean(times[1:]), "utilisation": fmean(used[1:])},
        "distributions": {
            name: {
                "unit": unit,
                "values": values,
                "over": {"title": over, "values": list(range(1, len(values) + 1))},
            }
            for name, unit, values, over in (
                ("loss", "nats", losses, "step"),
                ("epoch", "s", times, "epoch"),
            )
        },
        "samples": EPOCHS * per_epoch,
        "batches": len(checksums),
        # Loss curves that differ stop the scenario.
        "note": f"{where_trained(device.type)}; all loss curves are equal bit for bit",
        "rows": [*checksums, *(zlib.crc32(struct.pack("f", loss)) for loss in losses)],
    }


def cpus_busy() -> float:
    """Return the CPU time (s) of this process and its workers so far,
    divided by the number of usable CPUs.
    """
    return cpu_seconds() / cgroup.usable_cpus()


class Accelerator:
    """Stopwatch for the time in which a CUDA device has a step to work on. Used by one thread."""

    def __init__(self) -> None:
        self._spans: list[list[Any]] = []

    def steps(self, batches: Iterable) -> Iterator:
        """Yield the batches of an epoch; record on the device
        when the step with each batch starts and ends.
        """
        import torch

        for batch in batches:
            span = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            span[0].record()
            yield batch
            # The device's queue now has the step; the device runs its queue in order.
            span[1].record()
            self._spans.append(span)

    def busy(self) -> float:
        """Return the sum of the times of all steps so far (s)."""
        import torch

        torch.cuda.synchronize()
        return sum(begin.elapsed_time(end) for begin, end in self._spans) / 1e3


SIDE = 64


class Quadrants:
    """Dataset of random crops of photographs, labelled with the brightest quadrant: (uint8 (3, 64,
    64), int 0 to 3).
    """

    def __init__(self, paths: list[str], per_epoch: int, epochs: int, seed: int):
        import numpy
        import torch
        from PIL import Image

        self._open, self._bilinear = Image.open, Image.Resampling.BILINEAR
        self._generator, self._array, self._tensor = (
            numpy.random.default_rng,
            numpy.array,
            torch.from_numpy,
        )
        self._paths, self._seed = tuple(paths), seed
        # Shuffle and crops depend on the seed and the index alone.
        # An epoch has the next `per_epoch` samples.
        self._order = tuple(
            int(image)
            for epoch in range(epochs)
            for image in numpy.random.default_rng([seed, epoch]).permutation(per_epoch) % len(paths)
        )

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: int):
        random = self._generator([self._seed, 1, index])
        with self._open(self._paths[self._order[index]]) as file:
            image = file.convert("RGB")
        side = int(min(image.size) * random.uniform(0.6, 1.0))
        left, top = (
            random.integers(image.width - side + 1),
            random.integers(image.height - side + 1),
        )
        image = image.resize((SIDE, SIDE), self._bilinear, (left, top, left + side, top + side))
        pixels = self._array(image)
        if random.random() < 0.5:
            pixels = pixels[:, ::-1]
        half = SIDE // 2
        quadrants = pixels.reshape(2, half, 2, half, 3).mean(axis=(1, 3, 4))
        return self._tensor(pixels.transpose(2, 0, 1).copy()), int(quadrants.argmax())


def network():
    """Return a network of three convolutions and a linear layer, from (n, 3, 64, 64) to (n, 4)."""
    from torch import nn

    layers: list[Any] = []
    for channels, wanted in ((3, 16), (16, 32), (32, 32)):
        layers += nn.Conv2d(channels, wanted, 3, stride=2, padding=1), nn.ReLU()
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * (SIDE // 8) ** 2, 4))


def train(network, optimiser, batches: Iterable, device):
    """Train one epoch on `device`; yield each step's loss, a tensor on `device`."""
    from torch.nn import functional

    for images, labels in batches:
        images = images.to(device, non_blocking=True).float() / 127.5 - 1
        loss = functional.cross_entropy(network(images), labels.to(device, non_blocking=True))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        yield loss.detach()


SCENARIO = Scenario(
    name="training",
    question="does a whole training get faster?",
    description="a small convolutional network trained on augmented JPEG crops for some epochs",
    sample_bytes=3 * SIDE * SIDE + 8,
    source="images",
    dataset=lambda task: Quadrants(
        task.paths, steps_per_epoch(task) * task.batch_size, EPOCHS, SEED
    ),
    measure=measure,
    metrics=("epoch_seconds", "utilisation"),
    plan=ComparisonPlan(
        (
            Comparison(FT, TORCH, "in all, against torch's processes"),
            Comparison(FT, GIL, "the same loader with processes"),
            Comparison(FT, THREADS["ft-gil"], "effect of the GIL"),
            Comparison(
                THREADS["ft-gil"], THREADS["gil"], "cost of the free-threaded build", quick=""
            ),
            Comparison(THREADS["gil"], GIL, "where the GIL is", quick=""),
            Comparison(FT, Side("ft", "serial", workers=0), "what the workers bring", quick=""),
            Comparison(FT, NODES, quick=""),
            Comparison(FT, SPDL, quick=""),
            Comparison(GIL, TORCH, quick=""),
            Comparison(Side("gil", "serial", workers=0), quick=""),
        )
    ),
    full=Amount(batch_size=32, batches_per_worker=32, seconds=300),
    quick=Amount(batch_size=32, batches_per_worker=16, seconds=190),
    one_rank="it trains in one process",
)
