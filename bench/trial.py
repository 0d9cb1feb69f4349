"""One trial: a fresh process that measures one contestant once.

``python -m bench.trial`` reads its request, a JSON object, from stdin and writes one JSON
line to stdout. It measures and reports; what is compared with what is the controller's.

The request: scenario, paths (list of str), config, method ("thread" or "process"), workers,
batch_size, warmup_batches, batches, prefetch_factor, parent (the id of the process that
started it). The result: see `measure`.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import sysconfig
import time
import zlib
from collections.abc import Iterator

# Row distance at which measured batches are checked: 4 of 408 rows of every image, about
# 4 MB of a 400 MB batch, so that the check takes well under 1% of the time measured.
CHECKED_ROWS = 102

PR_SET_PDEATHSIG = 1


class TrialError(Exception):
    """The trial cannot measure what it was asked to."""


class EpochSampler:
    """Indices 0, 1, 2, ... over `count` samples, beginning again after `images`.

    Only the consumer's thread touches it; `count` is set between epochs.
    """

    def __init__(self, images: int):
        self.images = images
        self.count = 0

    def __iter__(self) -> Iterator[int]:
        return (index % self.images for index in range(self.count))

    def __len__(self) -> int:
        return self.count


def die_with_parent(parent: int | None = None) -> None:
    """Have the kernel kill this process when its parent dies, however that happens.

    Linux only (prctl(2)). With `parent`, ends now if that process is gone already.
    """
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def _worker_init(_worker: int) -> None:
    """In a worker process: end with the trial, even if the trial is killed."""
    die_with_parent()


def memory_pss_mib() -> float:
    """Proportional set size of this process and all its descendants, MiB.

    PSS divides what processes share among them, so that the sum counts it once.
    """
    import psutil

    me = psutil.Process()
    total = 0
    for process in (me, *me.children(recursive=True)):
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total / (1024 * 1024)


def check_configuration(config: str) -> dict:
    """This interpreter's build and GIL; raises TrialError if it is not the configuration."""
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    gil_enabled = getattr(sys, "_is_gil_enabled", lambda: True)()
    expected = {"gil": (False, True), "ft-gil": (True, True), "ft": (True, False)}[config]
    if (free_threaded, gil_enabled) != expected:
        raise TrialError(
            f"this is not the configuration {config!r}: {sys.executable} is "
            f"{'free-threaded' if free_threaded else 'built with the GIL'}, and its GIL is "
            f"{'on' if gil_enabled else 'off'} at the end of the trial")
    return {"free_threaded": free_threaded, "gil_enabled": gil_enabled}


def measure(request: dict) -> dict:
    """Run the warm-up and the measured epoch.

    Returns throughput (samples/s) of the measured epoch, timed from iter() to its last batch
    with the workers up; its seconds, samples and batches; time_to_first_batch (s), from iter()
    of a new loader to its first batch, so with the start of the workers; pss_mib, the largest
    PSS of the process tree seen after some batches of the warm-up and after the measured epoch;
    checksums: CRC-32 of the first batch's every byte (`first_batch`) and of every
    CHECKED_ROWS-th row of each measured batch (`rows`).
    """
    import torch

    from bench.scenarios import SCENARIOS
    from loader import DataLoader

    # torch gives each worker process one thread; thread workers would share the process's pool of
    # as many as there are CPUs. One thread for all: contestants differ in their workers alone.
    torch.set_num_threads(1)
    scenario = SCENARIOS[request["scenario"]]
    dataset = scenario.dataset(request["paths"])
    sampler = EpochSampler(len(dataset))
    batch_size = request["batch_size"]
    is_process = request["method"] == "process"
    loader = DataLoader(
        dataset, batch_size=batch_size, sampler=sampler, num_workers=request["workers"],
        prefetch_factor=request["prefetch_factor"], persistent_workers=True,
        worker_method=request["method"], worker_init_fn=_worker_init if is_process else None)

    sampler.count = request["warmup_batches"] * batch_size
    begin = time.perf_counter()
    epoch = iter(loader)
    batch = next(epoch)
    time_to_first_batch = time.perf_counter() - begin
    first = zlib.crc32(batch.numpy())
    pss = memory_pss_mib()
    # Reading the page tables of many workers takes long; twice more is enough.
    step = max(1, request["warmup_batches"] // 2)
    for number, batch in enumerate(epoch, 1):
        if number % step == 0:
            pss = max(pss, memory_pss_mib())

    rows = []
    sampler.count = request["batches"] * batch_size
    begin = time.perf_counter()
    for batch in loader:
        rows.append(zlib.crc32(batch[:, ::CHECKED_ROWS].contiguous().numpy()))
    seconds = time.perf_counter() - begin
    pss = max(pss, memory_pss_mib())
    if len(rows) != request["batches"] or len(batch) != batch_size:
        raise TrialError(f"the loader gave {len(rows)} batches, the last of {len(batch)} samples; "
                         f"{request['batches']} of {batch_size} were asked for")
    return {
        "throughput": sampler.count / seconds, "seconds": seconds, "samples": sampler.count,
        "batches": len(rows), "time_to_first_batch": time_to_first_batch, "pss_mib": pss,
        "first_batch": first, "rows": rows, "torch": torch.__version__,
    }


def main() -> int:
    """Answer the request on stdin; exit status 1, with the reason on stderr, if it cannot be."""
    # Libraries may print; the answer keeps the real stdout for itself.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # Ctrl-C at a terminal is the controller's to handle, which ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    request = json.load(sys.stdin)
    die_with_parent(request["parent"])
    try:
        result = measure(request)
        # At the end: any import or first use on the way could have turned the GIL on.
        result.update(check_configuration(request["config"]))
    except TrialError as error:
        print(f"trial: {error}", file=sys.stderr)
        return 1
    json.dump(result, answer)
    answer.write("\n")
    answer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
