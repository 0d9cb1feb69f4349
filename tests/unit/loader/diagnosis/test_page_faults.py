"""The note of the statistics on memory that Python gives back and faults in again."""

import mmap
import os
import subprocess
import sys
import sysconfig

import pytest

from ftloader.diagnosis.page_faults import faults_note, faults_of_this_thread
from tests.checkout import importable

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
PROGRAM = """
import os, time
import numpy as np
from ftloader import DataLoader


class Images:
    def __len__(self): return 60
    def __getitem__(self, index):
        time.sleep(0.02)  # longer than the allocator keeps freed memory
        return len(bytes(b"x") * 4_000_000)


os.environ["MIMALLOC_PURGE_DELAY"] = os.environ.get("TOO_LATE", "")
loader = DataLoader(Images(), batch_size=4, num_workers=2, worker_method="thread")
list(loader)
print(loader.statistics().faults, loader.statistics(), sep="\\n")
"""


def run(**variables):
    """Run the program; return the faults of its workers, and the lines of its statistics."""
    kept = {name: value for name, value in os.environ.items() if name != "MIMALLOC_PURGE_DELAY"}
    environment = {**kept, "PYTHONPATH": importable(), **variables}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    faults, *lines = done.stdout.splitlines()
    return int(faults), lines


@pytest.mark.parametrize("variables", [{}, {"TOO_LATE": "1000"}], ids=["unset", "set too late"])
@pytest.mark.slow
def test_memory_that_is_faulted_in_for_each_sample_is_noted(variables):
    faults, lines = run(**variables)
    if FREE_THREADED:
        assert faults > 60 * 200  # of the 976 pages of each
        assert (
            len(lines) == 4 and lines[3].startswith("note: ") and "page faults a sample" in lines[3]
        )
        assert lines[3].endswith("start Python with MIMALLOC_PURGE_DELAY=1000")
    else:
        assert len(lines) == 3


@pytest.mark.parametrize("name", ["MIMALLOC_PURGE_DELAY", "mimalloc_purge_delay"])
@pytest.mark.slow
def test_with_the_setting_there_are_few_faults_and_no_note(name):
    faults, lines = run(**{name: "1000"})
    assert len(lines) == 3
    if FREE_THREADED:
        assert faults < 60 * 100


def test_an_epoch_shorter_than_the_readings_of_cpu_time_has_no_note():
    assert faults_note(0, 8, 0.0, 0) is None


def test_faults_are_those_of_the_calling_thread():
    before = faults_of_this_thread()
    with mmap.mmap(-1, 64 << 20) as memory:  # new pages: an allocator may have kept others
        memory[:: mmap.PAGESIZE] = bytes(len(memory) // mmap.PAGESIZE)
    assert faults_of_this_thread() > before
