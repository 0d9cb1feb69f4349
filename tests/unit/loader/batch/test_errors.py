"""The record of skipped samples, without a loader."""

import copy
import pickle

from ftloader.batch.errors import SKIP, SkipLog, Skipped
from tests.in_threads import in_threads


def test_skip_is_one_object_wherever_it_goes():
    for duplicate in (copy.copy(SKIP), copy.deepcopy(SKIP), pickle.loads(pickle.dumps(SKIP))):
        assert duplicate is SKIP


def test_a_description_is_short():
    assert len(Skipped.because_of(ValueError("x" * 10_000), 1).error) < 400


def test_log_counts_all_and_describes_the_first_thousand():
    log = SkipLog()
    for start in range(0, 2500, 100):
        log.add([Skipped(i, "E") for i in range(start, start + 100)])
    assert log.count == 2500
    assert [s.index for s in log.samples] == list(range(1000))


def test_log_from_many_threads_loses_nothing():
    log = SkipLog()

    def add(name):
        for i in range(500):
            log.add([Skipped((name, i), "E")])

    in_threads(add, range(8))
    assert log.count == 4000
    assert len(log.samples) == 1000
    for name in range(8):  # each thread's in its order
        mine = [s.index[1] for s in log.samples if s.index[0] == name]
        assert mine == sorted(mine)
