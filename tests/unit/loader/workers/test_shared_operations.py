"""How often worker threads take locks for a sample, counted, since a time on few cores does not
show what many would.

A lock that each sample takes costs little with two threads and much with sixteen.
"""

import dis
import math
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

import ftloader
from ftloader import DataLoader

SAMPLES, BATCH = 20 * 1024, 1024
PACKAGE = str(Path(ftloader.__file__).parent)


class Integers:
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> int:
        return index


def operations(workers: int) -> Counter:
    """Return how often an epoch executes each kind of instruction of the loader, in all threads."""
    by_thread: dict[int, Counter] = {}  # each thread has a counter of its own

    def note(code, offset):
        if code.co_filename.startswith(PACKAGE):
            name = dis.opname[code.co_code[offset]]
            by_thread.setdefault(threading.get_ident(), Counter())[name] += 1

    loader = DataLoader(
        Integers(), BATCH, num_workers=workers, worker_method="thread", persistent_workers=True
    )
    for _ in loader:  # finds out how long a sample takes
        pass
    tool, events = sys.monitoring.PROFILER_ID, sys.monitoring.events
    sys.monitoring.use_tool_id(tool, "instructions of an epoch")
    try:
        sys.monitoring.register_callback(tool, events.INSTRUCTION, note)
        sys.monitoring.set_events(tool, events.INSTRUCTION)
        for _ in loader:
            pass
    finally:
        sys.monitoring.set_events(tool, 0)
        sys.monitoring.free_tool_id(tool)
    return sum(by_thread.values(), Counter())


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [1, 2, 8, 32])
@pytest.mark.slow
def test_locks_are_taken_for_pieces_of_a_batch_not_for_samples(workers):
    counted = operations(workers)
    assert counted["FOR_ITER"] >= SAMPLES  # the loop over the samples was seen
    # A lock for each sample would be 1. Measured: 0.01 with one thread to 0.12 with 32; 0.35 where
    # a busy machine made samples look slow. Then all threads help, and take this many pieces of a
    # batch; 0.2 is for all other locks.
    pieces = 2 * workers * (1 + math.log(BATCH / (2 * workers)))
    assert counted["BEFORE_WITH"] < (0.2 + pieces / BATCH) * SAMPLES
