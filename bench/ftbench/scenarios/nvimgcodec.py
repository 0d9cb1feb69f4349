"""The group `nvimgcodec`: decoding by threads and by processes, figure 2 of NVIDIA's article.

"Improved Data Loading with Threads", NVIDIA Technical Blog, 2024. Threads share one CUDA context and have a decoder and
a stream each. Every process has a context of its own, and hands its batches over through CUDA's inter-process memory.
Without a GPU nvImageCodec's CPU codecs are measured, and every output says so.

With a GPU every batch ends on it, also if the CPU decoded it. Decoders of different makers agree within a few grey
levels, not in every bit. So on a GPU each checked row is compared with Pillow's, and if the picture is the same, the
checksum is that of Pillow's row.
"""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Any

from ftbench.machine.usage import tree_usage
from ftbench.measure import checksums, gpu
from ftbench.measure.loaders import open_loader
from ftbench.plan.case import Amount
from ftbench.plan.comparisons import grid
from ftbench.plan.scenario import Task, TrialError
from ftbench.scenarios.pillow import HEIGHT, WIDTH, DecodedImages, PillowDataset, of_images
from ftrun.parent_death import die_with_parent

if TYPE_CHECKING:
    import torch

NAME = "nvimgcodec"
DESCRIPTION = "decoding with nvImageCodec: per-thread decoders in one CUDA context, or a context a process"
METRICS = ("throughput", "worker_setup", "time_to_first_batch", "pss_mib")
# A GPU decodes the CPU's number of batches too fast to be timed.
STRETCH_ON_GPU = 8
# Mean difference in grey levels up to which two libraries decoded the same picture.
SAME_PICTURE = 6.0


class GpuImages:
    """Dataset decoded on a GPU: sample i is a (408, 640, 3) uint8 tensor there, and a batch is one decode.

    Every thread has a decoder and a CUDA stream of its own (ftloader.decode.cuda). Threads share the process's CUDA
    context. Images of another size are resized on the GPU (bilinear, anti-aliased as Pillow's).
    """

    def __init__(self, paths: list[str], device: str):
        from ftloader.decode import read_images

        self._paths, self._device, self._read = tuple(paths), device, read_images

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int):
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list:
        """Decode the samples of these indices at once."""
        images = self._read([self._paths[index] for index in indices], device=self._device)
        return [image if image.shape == (HEIGHT, WIDTH, 3) else _resized(image) for image in images]


def _resized(image):
    from torch.nn.functional import interpolate

    planes = image.permute(2, 0, 1).unsqueeze(0).float()
    planes = interpolate(planes, (HEIGHT, WIDTH), mode="bilinear", antialias=True)
    return planes.round().clamp(0, 255).to(image.dtype)[0].permute(1, 2, 0)


def dataset(task: Task) -> DecodedImages | GpuImages:
    """Return the trial's dataset: on the GPU if there is one (backend_note says which)."""
    device = gpu.device()
    return GpuImages(task.paths, device) if device else DecodedImages(task.paths, "nvimgcodec")


def without_nvimgcodec() -> str | None:
    """Return why nvImageCodec cannot be measured in this interpreter, None if it can."""
    try:
        found = importlib.util.find_spec("nvidia.nvimgcodec")
    except ModuleNotFoundError:  # NVIDIA's packages share the name space: none is installed
        found = None
    if found:
        return None
    return "nvImageCodec is not installed in this twin: install docker/requirements.lock there, or use ./twins"


def without_gpu() -> str | None:
    """Return why a scenario of the GPU cannot be measured here, None if it can."""
    return without_nvimgcodec() or gpu.why_none()


def backend_note() -> str:
    """Say which backend nvImageCodec's figures are of: the GPU's, or the CPU's and why."""
    import torch

    on = gpu.device()
    if on is None:
        return f"nvImageCodec's CPU backend, no GPU decoding: {gpu.why_none()}"
    return f"nvImageCodec decodes on {on}, {torch.cuda.get_device_name(on)}"


class FirstImage:
    """A worker_init_fn that decodes an image in every worker, and notes how long that took.

    That includes the library's import and a decoder; on a GPU also a stream, and in a process a CUDA context.
    `seconds` is in shared memory; each worker writes its own place.
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


class Reference:
    """The checked rows of every image, as Pillow decodes them."""

    def __init__(self, task: Task):
        self._images, self._batch_size = PillowDataset(task.paths), task.batch_size
        self._rows: dict = {}

    def compare(self, number: int, rows: Any) -> int:
        """Return the CRC-32 of Pillow's rows of batch `number`; raises TrialError if `rows` (n, r, width, 3) differ."""
        import numpy

        expected = checksums.Rows()
        for place, found in enumerate(rows):
            index = (number * self._batch_size + place) % len(self._images)
            if index not in self._rows:
                self._rows[index] = checksums.rows(self._images[index])
            expected.append(self._rows[index])
            difference = numpy.abs(found.astype(numpy.int16) - expected[-1]).mean()
            if difference > SAME_PICTURE:
                raise TrialError(
                    f"image {index} differs from Pillow's by {difference:.1f} of 255 on average: "
                    f"a decoder or loader gave another picture (batch {number}, place {place})"
                )
        return checksums.part(expected)


class Arrivals:
    """Place where batches are used: the GPU if there is one, else the CPU's memory. Used by one thread."""

    def __init__(self, device: str | None):
        self._device = device
        self._used: list[float] = []
        if device:
            import torch

            torch.zeros(1, device=device)  # the consumer's context, which every candidate has
        self.look()

    def take(self, batch: torch.Tensor) -> torch.Tensor:
        """Return the batch where it is used, once its pixels have arrived."""
        if self._device:
            import torch

            batch = batch.to(self._device)
            torch.cuda.synchronize(self._device)
        return batch

    def look(self) -> None:
        """Note the GPU's memory in use."""
        if self._device:
            self._used.append(gpu.used_mib(self._device))

    def checked(self, batch: torch.Tensor, checksum: Callable[[Any], int] = checksums.part) -> Any:
        """Return the batch's checksum; of one on the GPU, its checked rows in host memory."""
        return batch[:, :: checksums.CHECKED_ROWS].cpu() if self._device else checksum(batch)

    def seen(self, task: Task, first: Any, parts: list) -> checksums.Seen:
        """Return the checksums of what `checked` returned; raises TrialError for other pictures than Pillow's."""
        seen = checksums.Seen()
        seen.first, seen.rows = first, parts
        if self._device:
            reference = Reference(task)
            seen.first = reference.compare(0, first.numpy())
            seen.rows = [reference.compare(number, rows.numpy()) for number, rows in enumerate(parts)]
        return seen

    def metrics(self, workers: int) -> dict[str, float]:
        """Return the GPU's memory that a worker added; nothing without a GPU."""
        # The driver allocates in pieces of 2 MiB, so less cannot be seen.
        return {"gpu_mib_per_worker": max(2.0, max(self._used) - self._used[0]) / workers} if self._device else {}


def _options(task: Task, dataset: Any, seconds: torch.Tensor) -> dict[str, Any]:
    """Return the loader's arguments in addition to the usual ones; `seconds` as in FirstImage."""
    import torch

    processes = task.variant == "loader-process"
    options: dict[str, Any] = {"worker_init_fn": FirstImage(dataset, seconds, processes)}
    if isinstance(dataset, GpuImages):
        options["collate_fn"] = torch.stack
        if processes:
            # A forked process cannot use the CUDA context of its parent.
            options["multiprocessing_context"] = "spawn"
    return options


def measure(task: Task) -> dict:
    """Run the warm-up and the measured epoch, by threads or processes of ftloader.DataLoader.

    Returns the metrics of ftbench.measure.epochs and worker_setup (s), the median time of a worker to its first image.
    With a GPU, a batch has arrived once it is there. gpu_mib_per_worker is then the memory that a worker adds, with its
    batches under way.

    Raises:
        TrialError: if a picture differs from Pillow's.
        RuntimeError: if the epoch has the wrong length.
    """
    import torch

    dataset = task.dataset()
    seconds = torch.zeros(task.workers, dtype=torch.float64).share_memory_()
    options, arrivals = _options(task, dataset, seconds), Arrivals(gpu.device())
    with open_loader(task, dataset, persistent=True, **options) as loader:
        begin = time.perf_counter()
        epoch = loader.epoch(task.warmup_batches * task.batch_size)
        batch = arrivals.take(next(epoch))
        time_to_first_batch = time.perf_counter() - begin
        first = arrivals.checked(batch, checksums.whole)
        pss = tree_usage().pss
        arrivals.look()
        for batch in epoch:
            arrivals.take(batch)
            arrivals.look()

        del epoch
        batch, count = (), 0
        parts: list[Any] = []
        wanted = task.batches * (STRETCH_ON_GPU if isinstance(dataset, GpuImages) else 1)
        begin = time.perf_counter()
        for batch in loader.epoch(wanted * task.batch_size):
            batch = arrivals.take(batch)
            if count < task.batches:
                parts.append(arrivals.checked(batch))
            count += 1
        elapsed = time.perf_counter() - begin
        pss = max(pss, tree_usage().pss)
        arrivals.look()
        last = len(batch)
        setup = [value for value in seconds.tolist() if value > 0]
    if count != wanted or not setup:
        raise RuntimeError(
            f"the loader gave {count} batches of {wanted}, and {len(setup)} of {task.workers} workers began"
        )
    throughput = wanted * task.batch_size / elapsed
    metrics = {"throughput": throughput, "time_to_first_batch": time_to_first_batch, "pss_mib": pss}
    return {
        "metrics": {**metrics, "worker_setup": median(setup), **arrivals.metrics(task.workers)},
        **arrivals.seen(task, first, parts).result(wanted * task.batch_size, last),
        "distributions": {"worker_setup": {"unit": "s", "values": setup}},
    }


_scenario = functools.partial(of_images, group=NAME, dataset=dataset, measure=measure, plan=grid(), note=backend_note)

SCENARIOS = (
    _scenario(
        name="nvimgcodec-decode",
        question="Decoding with nvImageCodec: threads that share a CUDA context, or processes with one each?",
        description="JPEG decoding with nvImageCodec, 640x408, into uint8 batches (on the GPU, if there is one)",
        metrics=METRICS,
        full=Amount(batch_size=512, batches_per_worker=3),
        quick=Amount(batch_size=64, batches_per_worker=4),
        seconds=560,
        quick_seconds=105,
        unavailable=without_nvimgcodec,
    ),
    # A worker takes a decoder and a stream of the GPU's memory, a process a CUDA context too.
    _scenario(
        name="nvimgcodec-memory",
        question="How much GPU memory does one more worker take: a thread's decoder, or a process's CUDA context?",
        description="GPU memory that a decoding worker adds, its batches under way included (needs a GPU)",
        metrics=("gpu_mib_per_worker", "worker_setup"),
        # Small batches, so that the worker's own memory is not lost among the pixels.
        full=Amount(batch_size=32, batches_per_worker=4),
        quick=Amount(batch_size=32, batches_per_worker=2),
        seconds=300,
        quick_seconds=90,
        unavailable=without_gpu,
    ),
)
