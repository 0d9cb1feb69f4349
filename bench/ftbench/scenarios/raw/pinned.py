"""Batches onto a GPU: from ordinary memory, and from pinned memory by copies that do not wait.

`pin_memory=True` has batches in page-locked memory, from which the GPU copies by itself while the CPU goes on
(torch's "non_blocking" copies; https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html). torch's
worker processes fill shared memory, so its loader copies every batch once more, in a thread of the training
process; this project's worker threads write samples into pinned memory at once.
"""

from __future__ import annotations

import time

from ftbench.measure import checksums
from ftbench.measure.memory import memory_pss_mib
from ftbench.plan.contest import USUAL, Contest
from ftbench.plan.scenario import Amount, Task
from ftbench.scenarios.raw.samples import SAMPLE_BYTES, Shards, scenario, sized

CASES = (
    sized(
        "pinned", "pinned memory", SAMPLE_BYTES, batch_size=8, quick_batches=12, value=None, parameters={"pinned": True}
    ),
    sized(
        "pageable",
        "ordinary memory",
        SAMPLE_BYTES,
        batch_size=8,
        quick_batches=12,
        value=None,
        parameters={"pinned": False},
    ),
)


def unavailable() -> str | None:
    """Why no batch can be copied to a GPU; None if it can."""
    import torch

    if torch.cuda.is_available():
        return None
    from ftrun import environment

    return environment.gpu()["reason"] or (
        f"torch {torch.__version__} finds no CUDA device though nvidia-smi does: see ./twins info"
    )


def dataset(task: Task) -> Shards:
    """Samples of 4 MiB."""
    return Shards(task.paths, SAMPLE_BYTES)


def measure(task: Task) -> dict:
    """Copy every batch of an epoch to the GPU.

    Returns gb_per_s, from the epoch's start until the last batch has arrived there; time_to_first_batch (s),
    until the first of a new loader has; pss_mib after the epoch. Checksums are of what arrived.
    """
    import torch

    from ftbench.measure.loaders import open_loader

    pinned = task.parameters["pinned"]
    device = torch.device("cuda")
    # The first use makes a context, which takes longer than a batch and is not the loader's.
    torch.zeros(1, device=device)
    torch.cuda.synchronize()
    samples = task.batches * task.batch_size
    with open_loader(task, task.dataset(), persistent=True, pin_memory=pinned) as loader:
        begin = time.perf_counter()
        warm_up = loader.epoch(task.warmup_batches * task.batch_size)
        arrived = next(warm_up).to(device, non_blocking=pinned)
        torch.cuda.synchronize()
        time_to_first_batch = time.perf_counter() - begin
        first = checksums.whole(arrived.cpu())
        for batch in warm_up:
            arrived = batch.to(device, non_blocking=pinned)
        del warm_up
        batch = ()
        # Rows are picked on the GPU, in the order of the copies, and fetched when the time is taken.
        found = []
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for batch in loader.epoch(samples):
            # The batch may be dropped while it is copied: torch's allocator of pinned memory gives
            # it to nobody before the copy has ended.
            arrived = batch.to(device, non_blocking=pinned)
            found.append(arrived[:, :: checksums.CHECKED_ROWS].contiguous())
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        pss = memory_pss_mib()
        rows = [checksums.whole(part.cpu()) for part in found]
    return {
        "metrics": {
            "gb_per_s": samples * task.parameters["sample_bytes"] / seconds / 1e9,
            "time_to_first_batch": time_to_first_batch,
            "pss_mib": pss,
        },
        "samples": samples,
        "batches": len(rows),
        "last_batch": len(batch),
        "first_batch": first,
        "rows": rows,
    }


SCENARIO = scenario(
    name="raw-pinned",
    question="incompressible scientific samples: how many GB/s onto the GPU, with and without pinned memory?",
    description="raw int16 samples of 4 MiB, each batch copied to the GPU",
    dataset=dataset,
    measure=measure,
    contest=Contest(USUAL, CASES),
    cases=CASES,
    case_axis="memory of a batch",
    full=Amount(batch_size=8, batches_per_worker=48),
    quick=Amount(batch_size=8, batches_per_worker=12),
    seconds=240,
    quick_seconds=80,
    unavailable=unavailable,
)
