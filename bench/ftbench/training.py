"""The measurement of a whole training: epochs through a loader, and the loss of every step."""

from __future__ import annotations

import contextlib
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from statistics import median
from typing import Any

from ftbench.scenario import Task
from ftrun import cgroup

EPOCHS = 3
SEED = 20261121


def steps_per_epoch(task: Task) -> int:
    """Batches of an epoch: the same for any number of workers, so that they all train alike."""
    return max(1, task.batches // task.workers)


def measure(task: Task, network: Callable[[], Any], train: Callable[..., Iterator[Any]]) -> dict:
    """Train the same network for EPOCHS epochs on the loader's batches.

    `network` makes the network, `train` is the loop of an epoch (see ftbench.scenarios.training).

    Returns the metrics epoch_seconds, the median time of the epochs after the first (which starts the workers),
    and utilisation, in percent over those epochs: on an accelerator, the part of the time in which it had a step
    to work on; without one, the CPU time of this process and its workers as part of what the usable CPUs had.
    And the distributions `loss`, a curve over the steps, and `epoch`, s, over the epochs, the first included.

    The losses are bit for bit what the batches make of the seed: one thread computes (ftbench.trial), and the
    algorithms are torch's deterministic ones. So `rows` has a checksum of the samples of each batch, and after
    them one of the losses of each step.
    """
    import torch

    from ftbench.loaders import open_loader

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    # Read by cuBLAS when it starts: https://pytorch.org/docs/2.10/notes/randomness.html
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    # It would write NaN into every batch before the samples, which is none of a loader's work.
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.manual_seed(SEED)
    model = network().to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    use = AcceleratorUse() if device.type == "cuda" else CPUUse()

    per_epoch = steps_per_epoch(task) * task.batch_size
    checksums: list[int] = []
    losses, times, used = [], [], []
    with open_loader(task, task.dataset(), persistent=True) as loader:
        for number in range(EPOCHS):
            use.start()
            begin = time.perf_counter()
            batches = _noted(loader.epoch(per_epoch, number * per_epoch), checksums)
            of_epoch = list(train(model, optimiser, use.steps(batches), device))
            losses += torch.stack(of_epoch).tolist()  # waits for the accelerator
            times.append(time.perf_counter() - begin)
            used.append(use.stop(times[-1]))
    return {
        "metrics": {"epoch_seconds": median(times[1:]), "utilisation": median(used[1:])},
        "distributions": {
            "loss": {"unit": "nats", "values": losses, "over": _counted("step", losses)},
            "epoch": {"unit": "s", "values": times, "over": _counted("epoch", times)},
        },
        "samples": EPOCHS * per_epoch,
        "batches": len(checksums),
        "note": note(device.type),
        "rows": [*checksums, *(zlib.crc32(struct.pack("f", loss)) for loss in losses)],
    }


def _counted(title: str, values: list[float]) -> dict:
    """What a curve of a value for each step or epoch goes over: 1, 2, 3, ..."""
    return {"title": title, "values": list(range(1, len(values) + 1))}


def note(device: str) -> str:
    """Where the training ran and what was checked, for every output. Curves that differ stop the scenario."""
    where = "trained on the GPU" if device == "cuda" else "trained on one CPU core: no GPU here"
    return f"{where}; all loss curves are equal bit for bit"


def _noted(batches: Iterable, checksums: list[int]) -> Iterator:
    """The batches (images, labels), with the checksum of each kept."""
    for images, labels in batches:
        checksums.append(zlib.crc32(labels.numpy(), zlib.crc32(images.numpy())))
        yield images, labels


class CPUUse:
    """What this process and its workers have of the CPUs. Used by one thread."""

    def start(self) -> None:
        """An epoch begins."""
        self._begin = self._seconds()

    def steps(self, batches: Iterable) -> Iterable:
        """The batches of the epoch's steps."""
        return batches

    def stop(self, seconds: float) -> float:
        """The epoch has ended after so many seconds; returns the percentage that was used."""
        return (self._seconds() - self._begin) / (seconds * cgroup.usable_cpus()) * 100

    @staticmethod
    def _seconds() -> float:
        import psutil

        # In steps of 10 ms for the workers; this process has a finer clock.
        total = time.process_time()
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
        return total


class AcceleratorUse:
    """How long a CUDA device has a step to work on, by its own clock (CUDA events). Used by one thread."""

    def start(self) -> None:
        """An epoch begins."""
        self._spans: list[list[Any]] = []

    def steps(self, batches: Iterable) -> Iterator:
        """The batches of the epoch's steps; the device notes when it comes to a step and when it has done it."""
        import torch

        for batch in batches:
            span = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            span[0].record()
            yield batch
            # The step has been given to the device, which does one after the other.
            span[1].record()
            self._spans.append(span)

    def stop(self, seconds: float) -> float:
        """The epoch has ended after so many seconds; returns the percentage of them."""
        import torch

        torch.cuda.synchronize()
        return sum(begin.elapsed_time(end) for begin, end in self._spans) / (seconds * 1e3) * 100
