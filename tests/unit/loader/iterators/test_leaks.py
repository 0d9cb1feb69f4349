"""Epochs leave nothing behind: open files, threads, semaphores,
shared memory and memory stay as they were.
"""

import ctypes
import gc
import json

import numpy as np
import psutil
import pytest
import torch

from ftloader import DataLoader
from ftloader.batch.layout import SMALLEST_SLOT
from tests.datasets import Rows

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

PROGRAM = """
import gc, json, os, time
import numpy as np
from torch.utils.data import IterableDataset
from ftloader import DataLoader

class Arrays:
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return np.zeros(1000)

class Stream(IterableDataset):
    def __iter__(self):
        return iter([np.zeros(1000)] * 4)

def held():
    with open("/proc/self/maps") as file:
        maps = file.read()
    with open("/proc/self/statm") as file:
        rss = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    counts = {
        "files": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "semaphores": maps.count("/dev/shm/sem."),
        "shared memory": maps.count("/dev/shm/") - maps.count("/dev/shm/sem."),
    }
    return counts, rss

def epochs(loader, number):
    for _ in range(number):
        for _ in loader:
            pass

loader = DataLoader(%(dataset)s(), batch_size=4, **%(arguments)r)
epochs(loader, 5)
gc.collect()
gc.freeze()
gc.disable()
before, rss = held()
epochs(loader, %(epochs)r)
for _ in range(200):  # the threads that send indices to the last workers end a moment later
    after, grown = held()
    if all(after[name] <= before[name] for name in before):
        break
    time.sleep(0.1)
print(json.dumps([before, after, grown - rss]))
"""

WORKERS = {"num_workers": 2}
KINDS = {
    "serial": {},
    "thread": WORKERS | {"worker_method": "thread"},
    "thread-persistent": WORKERS | {"worker_method": "thread", "persistent_workers": True},
    "process": WORKERS | {"worker_method": "process"},
    "process-persistent": WORKERS | {"worker_method": "process", "persistent_workers": True},
}


@pytest.mark.parametrize("dataset", ["Arrays", "Stream"])
@pytest.mark.parametrize("kind", KINDS)
def test_many_epochs_without_the_collector(run_program, kind, dataset):
    """Nothing waits for the garbage collector, which large training programs switch off."""
    epochs = 25 if kind == "process" else 200  # which starts processes for each
    code, out, err = run_program(
        PROGRAM % {"dataset": dataset, "arguments": KINDS[kind], "epochs": epochs}
    )
    assert (code, err) == (0, "")
    before, after, grown = json.loads(out)
    # A thread of the first epochs may have been counted that has ended since.
    assert all(after[name] <= before[name] for name in before), (before, after)
    assert grown < epochs * (150 << 10)


# floats: enough for a sample to be copied straight into its batch's memory
WIDTH = SMALLEST_SLOT // 4


def allocated(index):
    """Return what a worker allocates and the main thread frees:
    a tensor, an array, Python objects.
    """
    return {
        "slot": torch.full((WIDTH,), float(index)),
        "small": np.full(64, index),
        "text": f"sample {index}",
        "pair": (index, float(index)),
    }


def resident():
    """Return the resident bytes without freed memory, which glibc keeps in its arenas."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return psutil.Process().memory_info().rss


@pytest.mark.long(reason="a minute")
def test_a_million_samples():
    # CPython 145615 and 156159: what one thread allocates
    # and another frees can stay with the first.
    dl = DataLoader(
        Rows(100_000, allocated),
        batch_size=50,
        num_workers=8,
        worker_method="thread",
        persistent_workers=True,
    )

    def epoch():
        for number, batch in enumerate(dl):
            index = number * 50
            assert batch["slot"][0, 0] == batch["small"][0, 0] == batch["pair"][0][0] == index
            assert batch["text"][0] == f"sample {index}"
        return resident()

    after = [epoch() for _ in range(10)]
    print([f"{memory / 2**20:.1f} MiB" for memory in after])
    # The memory of as many batches as can be in the making,
    # which need not all have been so in the first epoch.
    assert after[-1] < after[0] + 18 * 50 * WIDTH * 4
