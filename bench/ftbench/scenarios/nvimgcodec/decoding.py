"""The measurement of decoders that may run on a GPU: as ftbench.measure.epochs, up to batches on that GPU.

Where there is a GPU, every batch ends up on it, also those that were decoded by the CPU. Decoders of
different makers agree within a few grey levels, not in every bit, so on a GPU each checked row is held
against Pillow's, and its checksum is that of Pillow's row if it is the same picture.

Needs threads or processes of ftloader.DataLoader. Processes that use a GPU are spawned: a forked process
cannot use the CUDA context of its parent, and each makes one of its own.
"""

from __future__ import annotations

import time
from contextlib import closing
from statistics import median
from typing import TYPE_CHECKING, Any

from ftbench.measure import checksums
from ftbench.measure.memory import memory_pss_mib
from ftbench.plan.scenario import Task
from ftbench.scenarios.nvimgcodec import gpu
from ftrun.parent_death import die_with_parent

if TYPE_CHECKING:
    import torch

# A GPU decodes so fast that the CPU's number of batches is over in a moment.
STRETCH_ON_GPU = 8
# Mean difference in grey levels up to which two pictures are the same one, decoded by two libraries.
SAME_PICTURE = 6.0


class PixelsDiffer(RuntimeError):
    """A decoder gave another picture than Pillow."""


class FirstImage:
    """Runs in every worker before its first batch: decodes an image and notes the seconds it took.

    They hold what a worker needs to begin: the library's import, its decoder; on a GPU a stream, and
    in a process a CUDA context. `seconds` is in shared memory; each worker writes its own place.
    """

    def __init__(self, dataset: Any, seconds: torch.Tensor, processes: bool):
        self._dataset, self._seconds, self._processes = dataset, seconds, processes

    def __call__(self, worker: int) -> None:
        if self._processes:
            die_with_parent()
        begin = time.perf_counter()
        image = self._dataset[0]
        if hasattr(image, "cpu"):
            image.cpu()  # waits for the GPU
        self._seconds[worker] = time.perf_counter() - begin


def _open(task: Task, dataset: Any, seconds: torch.Tensor) -> closing:
    import torch

    from ftbench.measure.loaders import open_loader

    options: dict[str, Any] = {"worker_init_fn": FirstImage(dataset, seconds, task.variant == "loader-process")}
    if getattr(dataset, "on_gpu", False):
        options["collate_fn"] = torch.stack
        if task.variant == "loader-process":
            options["multiprocessing_context"] = "spawn"
    return open_loader(task, dataset, persistent=True, **options)


class OnCpu:
    """What is done with batches where there is no GPU: checksums of their bits."""

    stretch = 1

    def arrived(self, batch: torch.Tensor) -> torch.Tensor:
        """The batch where it is to be used."""
        return batch

    def look(self) -> None:
        """Nothing more to be measured between batches."""

    def first(self, batch: torch.Tensor) -> int:
        return checksums.whole(batch)

    def part(self, batch: torch.Tensor) -> int:
        return checksums.part(batch)

    def checked(self, first: int, parts: list) -> tuple[int, list[int]]:
        """(checksum of the first batch, those of the measured ones)."""
        return first, parts

    def metrics(self, workers: int) -> dict[str, float]:
        return {}


class OnGpu:
    """What is done with batches on a GPU: moved there if need be, rows of them brought back and compared.

    `most` MiB of GPU memory were in use at most, `before` of them when there were no workers yet.
    """

    def __init__(self, task: Task, device: str, stretch: int):
        import torch

        self._task, self._device = task, device
        self.stretch = stretch
        torch.zeros(1, device=device)  # the consumer's own context, which every contestant has
        self.before = self.most = gpu.used_mib(device)

    def arrived(self, batch: torch.Tensor) -> torch.Tensor:
        """The batch on the GPU; its pixels are there."""
        import torch

        batch = batch.to(self._device)
        torch.cuda.synchronize(self._device)
        return batch

    def look(self) -> None:
        """Take note of the memory in use."""
        self.most = max(self.most, gpu.used_mib(self._device))

    def part(self, batch: torch.Tensor) -> torch.Tensor:
        """The rows that are checked, in host memory."""
        return batch[:, :: checksums.CHECKED_ROWS].cpu()

    first = part

    def checked(self, first: torch.Tensor, parts: list) -> tuple[int, list[int]]:
        """The checksums of Pillow's rows. Raises PixelsDiffer if they are another picture's."""
        reference = Reference(self._task)
        return reference.compare(0, first.numpy()), [
            reference.compare(number, rows.numpy()) for number, rows in enumerate(parts)
        ]

    def metrics(self, workers: int) -> dict[str, float]:
        """GPU memory that came with the workers, their batches under way included, for each of them."""
        # The driver gives memory out in pieces of 2 MiB; less than one cannot be told from none.
        return {"gpu_mib_per_worker": max(2.0, self.most - self.before) / workers}


class Reference:
    """The checked rows of every image, as Pillow decodes it."""

    def __init__(self, task: Task):
        from ftbench.scenarios.pillow import PillowDataset

        self._images, self._batch_size = PillowDataset(task.paths), task.batch_size
        self._rows: dict = {}

    def compare(self, number: int, rows: Any) -> int:
        """CRC-32 of Pillow's rows for batch `number`, which `rows` (n, r, width, 3) must be near.

        Raises PixelsDiffer.
        """
        import numpy

        expected = checksums.Rows()
        for place in range(len(rows)):
            index = (number * self._batch_size + place) % len(self._images)
            if index not in self._rows:
                self._rows[index] = checksums.rows(self._images[index])
            expected.append(self._rows[index])
            difference = numpy.abs(rows[place].astype(numpy.int16) - expected[-1]).mean()
            if difference > SAME_PICTURE:
                raise PixelsDiffer(
                    f"image {index} differs from Pillow's by {difference:.1f} of 255 on average: "
                    "a decoder or loader gave another picture (batch "
                    f"{number}, place {place})"
                )
        return checksums.part(expected)


def measure(task: Task) -> dict:
    """Run the warm-up and the measured epoch.

    Metrics as of ftbench.measure.epochs (a batch has come once it is on the GPU, if there is one), and
    worker_setup (s): the median time that a worker took to its first image. On a GPU also
    gpu_mib_per_worker. Raises PixelsDiffer, RuntimeError for an epoch of another length.
    """
    import torch

    dataset, device = task.dataset(), gpu.device()
    on_gpu = getattr(dataset, "on_gpu", False)
    here = OnCpu() if device is None else OnGpu(task, device, STRETCH_ON_GPU if on_gpu else 1)
    seconds = torch.zeros(task.workers, dtype=torch.float64).share_memory_()
    with _open(task, dataset, seconds) as loader:
        begin = time.perf_counter()
        epoch = loader.epoch(task.warmup_batches * task.batch_size)
        batch = here.arrived(next(epoch))
        time_to_first_batch = time.perf_counter() - begin
        first = here.first(batch)
        pss = memory_pss_mib()
        here.look()
        for batch in epoch:
            here.arrived(batch)
            here.look()

        del epoch
        batch, count, parts = (), 0, []
        samples = task.batches * task.batch_size * here.stretch
        begin = time.perf_counter()
        for batch in loader.epoch(samples):
            batch = here.arrived(batch)
            if count < task.batches:
                parts.append(here.part(batch))
            count += 1
        elapsed = time.perf_counter() - begin
        pss = max(pss, memory_pss_mib())
        here.look()
        last = len(batch)
        setup = [value for value in seconds.tolist() if value > 0]
    if count != task.batches * here.stretch or not setup:
        raise RuntimeError(
            f"the loader gave {count} batches of {task.batches * here.stretch}, "
            f"and {len(setup)} of {task.workers} workers began"
        )
    batch = ()
    first, rows = here.checked(first, parts)
    return {
        "metrics": {
            "throughput": samples / elapsed,
            "time_to_first_batch": time_to_first_batch,
            "pss_mib": pss,
            "worker_setup": median(setup),
            **here.metrics(task.workers),
        },
        "samples": samples,
        "batches": len(rows),
        "last_batch": last,
        "first_batch": first,
        "rows": rows,
        "distributions": {"worker_setup": {"unit": "s", "values": setup}},
    }
