"""Settings of glibc and the kernel for the memory of samples and batches."""

import mmap
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ftloader.batch.memory import BufferPool, advise_huge_pages
from tests.unit.loader.batch.test_slots import Filler

# Samples of 1 MB and three blocks of it at once, as an image, its copy and its array.
PROGRAM = """
import gc, resource, sys, threading
import numpy as np
from ftloader.batch.memory import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def sample():
    return [np.ones(1_000_000, np.uint8) for _ in range(3)]

def load(found):
    for _ in range(3):
        sample()
    before = faults()
    for _ in range(SAMPLES):
        sample()
    found.append((faults() - before) / SAMPLES)

SAMPLES = 100
found = []
for keep in (False, True):
    if keep:
        keep_freed_memory()
    worker = threading.Thread(target=load, args=(found,))
    worker.start()
    worker.join()
print(*found)
"""


glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="malloc's thresholds are glibc's"
)


@pytest.mark.slow
@glibc
def test_freed_memory_is_kept(run_program):
    _, out, _ = run_program(PROGRAM)
    before, after = map(float, out.split())
    # Three blocks are 732 pages of 4 KiB.
    assert before > 100
    assert after < 10


@glibc
@pytest.mark.slow
def test_thresholds_that_the_program_has_set_stay():
    # Every block of over 64 KiB is mapped for itself, whatever the loader does.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", PROGRAM]
    out = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert float(out.split()[1]) > 100


huge_pages = pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").is_dir()
    or not Path("/proc/self/smaps").exists(),
    reason="this kernel has no transparent huge pages",
)


@huge_pages
def test_huge_pages_are_asked_for_where_they_pay():
    filler = Filler()
    buffer = BufferPool(2).take(64 << 20, filler)
    assert "hg" in flags_of_mapping(buffer.storage.data_ptr() + (32 << 20))


@huge_pages
def test_little_memory_has_small_pages():
    little = mmap.mmap(-1, 1 << 20)
    address = np.frombuffer(little, np.uint8).ctypes.data
    advise_huge_pages(address, len(little))
    assert "hg" not in flags_of_mapping(address)


def test_advice_about_odd_addresses_is_harmless():
    storage = torch.UntypedStorage(8 << 20)
    for odd in (0, 1, 4095):
        advise_huge_pages(storage.data_ptr() + odd, storage.nbytes() - odd)
    torch.empty(0, dtype=torch.uint8).set_(storage).fill_(7)


def flags_of_mapping(address):
    """Return the kernel's flags (proc(5), VmFlags) of the mapping that holds *address*."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if bounds := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(bounds[1], 16) <= address < int(bounds[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return line.split()[1:]
    raise AssertionError(f"no mapping at {address:#x}")
