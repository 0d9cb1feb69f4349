"""ErrorPolicy, and the record of skipped samples, without a loader."""

import copy
import pickle

import pytest

from ftloader.batch.errors import SKIP, ErrorPolicy, SkipLog, Skipped
from tests.in_threads import in_threads


def minus(error, index):
    return -index


def test_skip_is_one_object_wherever_it_goes():
    for duplicate in (copy.copy(SKIP), copy.deepcopy(SKIP), pickle.loads(pickle.dumps(SKIP))):
        assert duplicate is SKIP


def test_policies_resolve():
    error = ValueError("x")
    assert ErrorPolicy("skip").resolve(error, 3) is SKIP
    assert ErrorPolicy(minus).resolve(error, 3) == -3
    with pytest.raises(ValueError) as caught:
        ErrorPolicy("raise").resolve(error, 3)
    assert caught.value is error
    assert [ErrorPolicy(p).raises for p in ("raise", "skip", minus)] == [True, False, False]
    assert pickle.loads(pickle.dumps(ErrorPolicy(minus))).resolve(error, 3) == -3


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
@pytest.mark.parametrize("policy", ["skip", minus])
def test_no_policy_resolves_an_interruption(policy, interruption):
    with pytest.raises(type(interruption)):
        ErrorPolicy(policy).resolve(interruption, 3)


def test_description_is_one_short_line_and_never_fails():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    assert Skipped.because_of(ValueError("a\n  b"), 1) == (1, "ValueError: a b")
    assert Skipped.because_of(Mute(), 1).error.startswith("Mute: ")
    assert len(Skipped.because_of(ValueError("x" * 10_000), 1).error) < 400


def test_log_counts_all_and_describes_the_first_thousand():
    log = SkipLog()
    for start in range(0, 2500, 100):
        log.add([Skipped(i, "E") for i in range(start, start + 100)])
    assert log.count == 2500
    assert [s.index for s in log.samples] == list(range(1000))


@pytest.mark.thread_unsafe(reason="records warnings")
def test_log_reports_each_skip_once():
    log = SkipLog()
    log.report()  # nothing: no warning (an error here, see below)
    log.add([Skipped(i, f"ValueError: {i}") for i in range(5)])
    with pytest.warns(UserWarning) as caught:
        log.report()
    log.report()
    log.add([Skipped(9, "OSError: nine")])
    with pytest.warns(UserWarning) as again:
        log.report()
    assert len(caught) == len(again) == 1
    first, second = str(caught[0].message), str(again[0].message)
    assert first.startswith("5 of this epoch's") and "0: ValueError: 0; 1:" in first
    assert "and 2 more" in first
    assert second.startswith("1 of") and "6 so far" in second and "9: OSError: nine" in second


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda log: pickle.loads(pickle.dumps(log))])
def test_log_can_be_copied(duplicate):
    log = SkipLog()
    log.add([Skipped(1, "E")])
    other = duplicate(log)
    other.add([Skipped(2, "E")])
    assert (log.count, other.count) == (1, 2)
    assert [s.index for s in other.samples] == [1, 2]


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
