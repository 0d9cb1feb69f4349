"""Thousands of iterators, left at random points: threads, files and memory are as before.

`--iterators 200000` is the full run (some twenty minutes on two cores or more), best with a `--soak-seed` of its own.
Give it more time than a test has: `--timeout 14400`.
"""

import ctypes
import gc
import os
import random
import threading
import warnings
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from ftloader import DataLoader
from ftloader.batch.layout import SMALLEST_SLOT
from tests.datasets import Failing, Rows, Stream
from tests.worker_threads import until_collected

WIDTH = SMALLEST_SLOT // 4  # floats: enough for a sample to be copied straight into its batch's memory
ROW = torch.arange(float(WIDTH))


class Left(Exception):
    """Exception of the loop itself."""


def tensor_and_index(index):
    return ROW + index, index


def array_and_index(index):
    return {"row": np.full(WIDTH, index, dtype=np.float32), "index": index}


def allocated(index):
    """Return what a worker allocates and the main thread frees: a tensor, an array, Python objects."""
    return {
        "slot": torch.full((WIDTH,), float(index)),
        "small": np.full(64, index),
        "text": f"sample {index}",
        "pair": (index, float(index)),
    }


def check(batch):
    """Check that every sample is what its index says."""
    if isinstance(batch, dict):
        rows, indices = batch["row"], batch["index"]
        assert torch.equal(rows, indices.float()[:, None].expand_as(rows))
    elif isinstance(batch, list):
        rows, indices = batch
        assert torch.equal(rows, ROW + indices[:, None])


def make(rng):
    size = rng.randint(0, 24)
    failing = rng.choice([(), (), (rng.randrange(24),)])
    rows = Failing(ValueError, size, failing, rng.choice([tensor_and_index, array_and_index, None]))
    return DataLoader(
        rows if rng.random() < 0.75 else Stream(size, rows.__getitem__),
        batch_size=rng.randint(1, 5),
        num_workers=rng.randint(1, 3),
        prefetch_factor=rng.randint(1, 2),
        persistent_workers=rng.random() < 0.2,
        in_order=rng.random() < 0.8,
        worker_method="thread",
    )


def use(rng, held):
    """Make one iterator, take some batches, and leave it in one of the possible ways."""
    dl = make(rng)
    # A reference cycle through what the workers use.
    if rng.random() < 0.1:
        dl.dataset.loader = dl
    way = rng.choice(["all", "break", "exception", "del", "cycle", "close", "with", "twice", "untouched", "elsewhere"])
    take = rng.randint(0, 6)
    try:
        if way == "untouched":
            iter(dl)
            return
        iterator = iter(dl)
        if way == "with":
            with iterator:
                for _ in range(take):
                    check(next(iterator))
            return
        for number, batch in enumerate(iterator):
            check(batch)
            if rng.random() < 0.05:
                held.append(batch)
                del held[: max(0, len(held) - 8)]
            if number >= take and way != "all":
                if way == "exception":
                    raise Left
                break
        if way == "close":
            iterator.close()
        elif way == "cycle":
            cycle = [iterator, dl]
            cycle.append(cycle)
        elif way == "twice":
            check(next(iter(dl)))
        elif way == "elsewhere":
            thread = threading.Thread(target=lambda things: things.clear(), args=([iterator, dl],))
            del iterator, dl
            thread.start()
            thread.join()
    except (Left, ValueError, StopIteration):
        pass


def resident():
    """Return the resident bytes without freed memory, which glibc keeps in its arenas."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return psutil.Process().memory_info().rss


def count():
    """Return the threads, file descriptors, resident bytes and tasks, once all workers have ended."""
    gc.collect()
    until_collected()
    memory = resident()
    return (
        threading.active_count(),
        len(os.listdir("/proc/self/fd")),
        memory,
        len(list(Path("/proc/self/task").iterdir())),
    )


def test_iterators_abandoned_at_random_points(request):
    iterators = request.config.getoption("--iterators")
    seed = request.config.getoption("--soak-seed")
    rng, held = random.Random(seed), []
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # of workers that did not end
        # What the process has once it has done everything, and its heap has settled.
        for _ in range(max(200, iterators // 10)):
            use(rng, held)
        held.clear()
        threads, files, memory, tasks = count()
        for number in range(iterators):
            try:
                use(rng, held)
            except BaseException as error:
                error.add_note(f"iterator {number} of --soak-seed {seed}")
                raise
            if number % 1000 == 999:
                # Python's collector counts objects, not bytes: large samples in reference cycles (exceptions
                # that were handled) would grow the heap between two of its own runs, and it stays grown.
                count()
        held.clear()
    threads_after, files_after, memory_after, tasks_after = count()
    assert threads_after == threads
    assert tasks_after <= tasks
    assert files_after == files
    assert memory_after - memory < 100 * 2**20, f"{(memory_after - memory) / 2**20:.0f} MiB more, --soak-seed {seed}"
    print(f"{(memory_after - memory) / 2**20:.1f} MiB more after {iterators} iterators")


@pytest.mark.long(reason="a minute")
def test_a_million_samples():
    # CPython 145615 and 156159: what one thread allocates and another frees can stay with the first.
    dl = DataLoader(
        Rows(100_000, allocated), batch_size=50, num_workers=8, worker_method="thread", persistent_workers=True
    )

    def epoch():
        for number, batch in enumerate(dl):
            index = number * 50
            assert batch["slot"][0, 0] == batch["small"][0, 0] == batch["pair"][0][0] == index
            assert batch["text"][0] == f"sample {index}"
        return resident()

    after = [epoch() for _ in range(10)]
    print([f"{memory / 2**20:.1f} MiB" for memory in after])
    # The memory of as many batches as can be in the making, which need not all have been so in the first epoch.
    assert after[-1] < after[0] + 18 * 50 * WIDTH * 4
