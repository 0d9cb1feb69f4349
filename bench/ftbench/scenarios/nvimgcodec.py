"""The group `nvimgcodec`: JPEG decoding with nvImageCodec, by threads and by processes.

The scenario `combined`, which is in no group, compares the decoders nvImageCodec and Pillow.

The scenarios repeat figures 2 and 4 of "Improved Data Loading with Threads", NVIDIA Technical Blog,
2024. Threads share one CUDA context and have a decoder and a stream each. Every process has a
    context of its own, and hands its batches
over through CUDA's inter-process memory. Without a GPU, nvImageCodec's CPU codecs are measured, and
reports say so.

With a GPU, every batch ends in the GPU's memory. Different decoders agree within a few grey levels,
not bit for bit. So the checked rows of each image must be close to the same rows as Pillow decodes
them. The checksum is that of Pillow's rows, and so equal for all decoders.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import time
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ftbench.measure import checksums, epochs, gpu
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import FT, OURS, Comparison, Side, grid
from ftbench.plan.scenario import Task, TrialError, Turns
from ftbench.scenarios.pillow import HEIGHT, WIDTH, DecodedImages, PillowDataset, of_images
from ftrun.parent_death import die_with_parent

if TYPE_CHECKING:
    import torch

NAME = "nvimgcodec"
DESCRIPTION = (
    "decoding with nvImageCodec: per-thread decoders in one CUDA context, or a context a process"
)
METRICS = ("throughput", "worker_setup", "time_to_first_batch", "memory_mib")
# Factor on the number of batches: a GPU decodes the CPU's number too fast to be timed.
STRETCH_ON_GPU = 8
# Mean difference in grey levels up to which two libraries decoded the same picture.
SAME_PICTURE = 6.0


class GpuImages:
    """Dataset of images decoded on a GPU, a batch in one call: sample i is a (408, 640, 3) uint8
    tensor on the GPU.
    """

    def __init__(self, paths: list[str], device: str):
        from ftloader.decode import read_images

        self._paths, self._device, self._read = tuple(paths), device, read_images

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int):
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list:
        """Return the samples with these indices, decoded in one call."""
        images = self._read([self._paths[index] for index in indices], device=self._device)
        return [image if image.shape == (HEIGHT, WIDTH, 3) else _resized(image) for image in images]


def _resized(image):
    from torch.nn.functional import interpolate

    planes = image.permute(2, 0, 1).unsqueeze(0).float()
    planes = interpolate(planes, (HEIGHT, WIDTH), mode="bilinear", antialias=True)
    return planes.round().clamp(0, 255).to(image.dtype)[0].permute(1, 2, 0)


def dataset(task: Task) -> PillowDataset | GpuImages:
    """Return the dataset for the case's decoder. nvImageCodec, the default, decodes on the GPU if
    there is one.
    """
    if task.parameters.get("decoder") == "pillow":
        return PillowDataset(task.paths)
    device = gpu.device()
    return GpuImages(task.paths, device) if device else DecodedImages(task.paths, "nvimgcodec")


def without_nvimgcodec() -> str | None:
    """Return the reason why nvImageCodec cannot be measured in this interpreter; None if it can."""
    # NVIDIA's packages share the name space, which has no spec if none is installed.
    with contextlib.suppress(ModuleNotFoundError):
        if importlib.util.find_spec("nvidia.nvimgcodec"):
            return None
    import torch

    if torch.version.cuda is None:
        return "nvImageCodec is not installed in this twin, which was built without CUDA (CUDA=no)"
    return (
        "nvImageCodec is not installed in this twin: install docker/requirements.lock "
        "there, or use ./twins"
    )


def without_gpu() -> str | None:
    """Return the reason why a scenario that needs a GPU cannot be measured here; None if it can."""
    return without_nvimgcodec() or gpu.why_none()


def backend_note() -> str:
    """Return a note for reports: the GPU that nvImageCodec decodes on,
    or why it decodes on the CPU.
    """
    import torch

    on = gpu.device()
    if on is None:
        return f"nvImageCodec's CPU backend, no GPU decoding: {gpu.why_none()}"
    return f"nvImageCodec decodes on {on}, {torch.cuda.get_device_name(on)}"


def combined_note() -> str:
    return backend_note() + ("; Pillow's batches are copied to it" if gpu.device() else "")


class FirstImage:
    """A worker_init_fn that decodes an image in each new worker,
    and records the time once for each worker number.

    The time includes the import of the library and the creation of a decoder. On a GPU it also
    includes the creation of a stream, and in a process of a CUDA context. `seconds` is in shared
    memory, with an element for each worker number.
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
        if not self._seconds[worker]:
            self._seconds[worker] = time.perf_counter() - begin


class PicturesOnGpu(gpu.OnGpu):
    """Consumer of images on the GPU. It compares the images with Pillow's, and records the GPU
    memory in use.
    """

    def __init__(self, task: Task):
        super().__init__()
        images = PillowDataset(task.paths)
        self._length, self._task = len(images), task
        self._pillows = functools.cache(lambda index: checksums.rows(images[index]))
        self._used = [gpu.used_mib()]

    def arrive(self, batch: torch.Tensor) -> torch.Tensor:
        batch = super().arrive(batch)
        if len(self._used) <= self._task.warmup_batches:
            self._used.append(gpu.used_mib())
        return batch

    def take_first(self, batch: torch.Tensor) -> None:
        self.first = self.checksum(0, batch[:, :: checksums.CHECKED_ROWS].cpu().numpy())

    def checksum(self, number: int, rows: Any) -> int:
        """Return the CRC-32 of the checked rows of batch `number`, as Pillow decodes them.

        Raises TrialError if `rows`, the loader's rows as an array (n, r, width, 3), differ too much
        from Pillow's rows.
        """
        first = number * self._task.batch_size
        indices = [(first + place) % self._length for place in range(len(rows))]
        expected = checksums.CheckedRows(map(self._pillows, indices))
        for place, index in enumerate(indices):
            difference = abs(rows[place].astype(int) - expected[place]).mean()
            if difference > SAME_PICTURE:
                raise TrialError(
                    f"image {index} differs from Pillow's by {difference:.1f} of 255 on average: "
                    f"a decoder or loader gave another picture (batch {number}, place {place})"
                )
        return checksums.part(expected)

    @property
    def added_mib(self) -> float:
        """GPU memory that the loader took during the warm-up (MiB)."""
        # The driver allocates in pieces of 2 MiB, so less cannot be seen.
        return max(2.0, max(self._used) - self._used[0])


def measure(task: Task) -> Turns:
    """Measure as ftbench.measure.epochs does; raises TrialError if a picture differs from Pillow's.

    Further metrics are worker_setup, the seconds in which a worker decodes its first image (mean
    over workers), and with a GPU gpu_mib_per_worker. With a GPU, a batch counts as arrived once it
    is in the GPU's memory.
    """
    import torch

    dataset, processes = task.dataset(), task.variant == "loader-process"
    seconds = torch.zeros(task.workers, dtype=torch.float64).share_memory_()
    options: dict[str, Any] = {"worker_init_fn": FirstImage(dataset, seconds, processes)}
    decoded_there = isinstance(dataset, GpuImages)
    if decoded_there:
        options["collate_fn"] = torch.stack
        if processes:
            # A forked process cannot use the CUDA context of its parent.
            options["multiprocessing_context"] = "spawn"
    stretch = STRETCH_ON_GPU if decoded_there else 1
    pictures = PicturesOnGpu(task) if gpu.device() else None
    result = yield from epochs.measure(
        replace(task, batches=stretch * task.batches), pictures, **options
    )
    setup = [value for value in seconds.tolist() if value > 0]
    metrics = {**result["metrics"], "worker_setup": fmean(setup)}
    if pictures:
        metrics["gpu_mib_per_worker"] = pictures.added_mib / task.workers
    return {**result, "metrics": metrics}


DECODERS = (
    Case("pillow", "Pillow", {"decoder": "pillow"}),
    Case("nvimgcodec", "nvImageCodec", {"decoder": "nvimgcodec"}),
)


def _by_decoder(side: Side) -> Comparison:
    """Return the comparison of one decoder with the other,
    for *side*: both load the same images.
    """
    a, b = (replace(side, case=case.name) for case in reversed(DECODERS))
    return Comparison(a, b, kind="case", every_count=True, measures=False, first_only=True)


_scenario = functools.partial(
    of_images,
    group=NAME,
    dataset=dataset,
    measure=measure,
    plan=grid(quick=""),
    note=backend_note,
    # each turn makes a CUDA context for each process: on 16 cores, a round took 90 s
    quick_workers=4,
    one_rank="all its workers use one GPU",
    needs_workers="it times the first image of each worker",
)

SCENARIOS = (
    _scenario(
        name="nvimgcodec-decode",
        question="Decoding with nvImageCodec: threads that share a CUDA context, or processes "
        "with one each?",
        description="JPEG decoding with nvImageCodec, 640x408, into uint8 batches (on the GPU, if "
        "there is one)",
        metrics=METRICS,
        full=Amount(batch_size=512, batches_per_worker=3, seconds=560),
        quick=Amount(batch_size=64, batches_per_worker=4, seconds=105),
        unavailable=without_nvimgcodec,
    ),
    # A worker takes a decoder and a stream of the GPU's memory, a process a CUDA context too.
    _scenario(
        name="nvimgcodec-memory",
        question="How much GPU memory does one more worker take: a thread's decoder, or a "
        "process's CUDA context?",
        description="GPU memory that a decoding worker adds, its batches under way included (needs "
        "a GPU)",
        metrics=("gpu_mib_per_worker", "worker_setup"),
        # Small batches, so that the worker's own memory is not lost among the pixels.
        full=Amount(batch_size=32, batches_per_worker=4, seconds=300),
        quick=Amount(batch_size=32, batches_per_worker=2, seconds=90),
        unavailable=without_gpu,
    ),
    _scenario(
        name="combined",
        group="",
        question="Which decoder, and which workers for it?",
        description="JPEG decoding with Pillow and with nvImageCodec, 640x408, into uint8 batches",
        metrics=METRICS,
        plan=grid(
            DECODERS,
            (replace(_by_decoder(FT), kind="headline"),),
            tuple(map(_by_decoder, OURS)),
            quick="",
        ),
        case_axis="decoder",
        full=Amount(batch_size=512, batches_per_worker=3, seconds=900),
        quick=Amount(batch_size=64, batches_per_worker=4, seconds=150),
        unavailable=without_nvimgcodec,
        note=combined_note,
    ),
)
