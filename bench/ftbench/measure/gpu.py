"""The GPU that a trial uses, or the reason why it has none; the consumer of batches there. For a trial's process."""

from __future__ import annotations

from typing import Any

from ftbench.measure import checksums
from ftrun import environment

MIB = 1024 * 1024


def device() -> str | None:
    """Return torch's name of the first GPU, "cuda:0", or None. Makes no CUDA context, so the process may still fork."""
    import torch

    return "cuda:0" if torch.cuda.is_available() else None


def why_none() -> str | None:
    """Return why there is no GPU here, and what to do about it; None if there is one."""
    import torch

    if device():
        return None
    found = environment.gpu()
    return found["reason"] or (
        f"nvidia-smi shows {', '.join(found['devices'])} with driver {found['driver']}, but torch "
        f"{torch.__version__} cannot use it: its CUDA {torch.version.cuda} needs a newer driver"
    )


def where_trained(device: str) -> str:
    """Say where a training ran, for every output."""
    return "trained on the GPU" if device == "cuda" else "trained on one CPU core: no GPU here"


class OnGpu(checksums.Seen):
    """Consumer on the GPU. Batches in pinned memory are copied while the next one is awaited.

    The GPU keeps the checked rows of batches, which `result` fetches after the timed part.
    """

    def __init__(self, pinned: bool = False):
        import torch

        super().__init__()
        self._pinned = pinned
        self._kept: list = []
        # The first use makes a context, which takes longer than a batch, and which every candidate has.
        torch.zeros(1, device=device())
        self.wait()

    def arrive(self, batch: Any) -> Any:
        """Copy a batch to the GPU. The copy of a pinned batch may end as late as in `wait`."""
        # A pinned batch may be dropped during the copy: torch's allocator reuses its memory only after the copy.
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
        """Return the checksum of the checked rows, a numpy array, of batch `number` of a turn."""
        return checksums.whole(rows)

    def result(self, samples: int, last: int) -> dict:
        self.rows = [self.checksum(number, rows.cpu().numpy()) for number, rows in enumerate(self._kept)]
        return super().result(samples, last)


def used_mib() -> float:
    """Return the used memory of the GPU by all processes (MiB); makes a CUDA context in this one."""
    import torch

    free, total = torch.cuda.mem_get_info()
    return (total - free) / MIB
