"""The GPU that a trial uses, the reason if there is none,
and a consumer that copies batches to the GPU.
"""

from __future__ import annotations

from typing import Any

from ftbench.measure import checksums
from ftrun import environment

MIB = 1024 * 1024


def device() -> str | None:
    """Return "cuda:0" if torch can use a GPU, else None. This makes no CUDA context, so the process
    can still fork.
    """
    import torch

    return "cuda:0" if torch.cuda.is_available() else None


def why_none() -> str | None:
    """Return the reason why torch can use no GPU, and what to do about it;
    None if torch can use one.
    """
    import torch

    if device():
        return None
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built for CPUs alone (CUDA=no)"
    devices = environment.gpu()
    return devices["reason"] or (
        f"nvidia-smi shows {', '.join(devices['devices'])} with driver {devices['driver']}, but "
        f"torch {torch.__version__} cannot use it: its CUDA {torch.version.cuda} needs a newer "
        "driver"
    )


def where_trained(device: str) -> str:
    """Return a note for reports that names the device of the training: the GPU, or one CPU core."""
    return "trained on the GPU" if device == "cuda" else "trained on one CPU core: no GPU here"


class OnGpu(checksums.Seen):
    """Consumer that copies batches to the GPU. Pinned batches are copied
    while the next batch is awaited.

    Checked rows (see ftbench.measure.checksums) stay on the GPU until `result` fetches them, after
    the timed part.
    """

    def __init__(self, pinned: bool = False):
        import torch

        super().__init__()
        self._pinned = pinned
        self._kept: list = []
        # The first use makes a CUDA context, which takes longer than a batch,
        # and which every candidate needs.
        torch.zeros(1, device=device())
        self.wait()

    def arrive(self, batch: Any) -> Any:
        """Return a copy of the batch on the GPU. If the batch is pinned,
        the copy may go on until `wait` returns.
        """
        # A pinned batch may be dropped during the copy: torch's allocator reuses its memory only
        # after the copy.
        batch = batch.to(device(), non_blocking=self._pinned)
        if not self._pinned:
            self.wait()
        return batch

    def wait(self) -> None:
        import torch

        torch.cuda.synchronize()

    def take_first(self, batch: Any) -> None:
        super().take_first(batch.cpu())

    def take(self, batch: Any) -> None:
        self._kept.append(batch[:, :: checksums.CHECKED_ROWS].contiguous())

    def checksum(self, number: int, rows: Any) -> int:
        """Return the checksum of *rows*, the checked rows (a numpy array) of batch *number*."""
        return checksums.whole(rows)

    def result(self, samples: int, last: int) -> dict:
        self.rows = [
            self.checksum(number, rows.cpu().numpy()) for number, rows in enumerate(self._kept)
        ]
        return super().result(samples, last)


def used_mib() -> float:
    """Return the GPU memory that all processes use (MiB).
    This makes a CUDA context in this process.
    """
    import torch

    free, total = torch.cuda.mem_get_info()
    return (total - free) / MIB
