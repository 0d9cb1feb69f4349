"""`contention`: workers that are at it together, and operations that do what they are called."""

import multiprocessing
import sys
import threading

import pytest

from ftbench.plan.candidates import CONFIGS
from ftbench.scenarios import SCENARIOS
from ftbench.scenarios.contention import OPERATIONS, RAISE, UNROLLED, Operation, seconds, started

SCENARIO = SCENARIOS["contention"]


def test_who_is_compared():
    assert list(SCENARIO.workers(1)) == [1] and list(SCENARIO.workers(6)) == [2, 4, 6]
    ranked = SCENARIO.plan.ranked(CONFIGS, SCENARIO.workers(4), quick=False)
    candidates = [c for _, c in ranked]
    assert {c.case for c in candidates} == set(OPERATIONS)
    pairs = SCENARIO.plan.pairs(candidates)
    # in 2 and 4 workers: against processes, with the GIL on, in the GIL build
    assert len(pairs) == len(OPERATIONS) * 2 * 3
    for pair in pairs:
        assert pair.numerator.split("/")[2] == pair.denominator.split("/")[2]
    assert pairs[0].kind == "method" and pairs[0].numerator.startswith("ft/bare-thread/")


@pytest.mark.parametrize("configs", [("gil",), ("ft",), ("ft-gil",), ("gil", "ft-gil")])
def test_some_configurations_alone(configs):
    candidates = [c for _, c in SCENARIO.plan.ranked(configs, [2], quick=True)]
    assert {c.case for c in candidates} == set(OPERATIONS)
    assert len([p for p in SCENARIO.plan.pairs(candidates) if p.kind == "method"]) == len(
        OPERATIONS
    )


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_kind_runs_in_threads(name):
    kind = OPERATIONS[name]
    with started(kind, 3, processes=False) as run:
        alone, spans = run(UNROLLED, 1), run(UNROLLED * 2, 3)
    assert len(alone) == 1
    assert len(spans) == 3 and all(begin <= end for begin, end in spans)
    assert seconds(spans) >= max(end - begin for begin, end in spans)


def test_a_shared_lock_loses_no_count():
    holders = []

    def make():
        holders.append(OPERATIONS["lock"].make())
        return holders[-1]

    with started(Operation("counted", make, *RAISE), 4, processes=False) as run:
        run(500, 4)
    (holder,) = holders  # one for all
    assert holder.count == 4 * 500


def test_private_is_one_each():
    made = []
    kind = Operation(
        "private", lambda: made.append(threading.current_thread()) or {}, "pass", private=True
    )
    with started(kind, 3, processes=False) as run:
        run(10, 3)
    assert len(set(made)) == 3


def test_values_that_are_not_counted_and_one_that_is(twin):
    """Small integers are immortal (PEP 683), and interned strings without the GIL: counting
    references to them would be contention of another kind.
    """
    for name in ("dict", "private"):
        assert {type(value) for value in OPERATIONS[name].make().values()} == {int}
        assert sys.getrefcount(OPERATIONS[name].make()["key500"]) > 1 << 28
    for name in ("dict-object", "dict-copy"):
        assert len({id(value) for value in OPERATIONS[name].make().values()}) == 1
    if twin == "ft":
        assert sys.getrefcount(OPERATIONS["dict-interned"].make()["key500"]) > 1 << 28


def test_what_a_worker_thread_raises_is_raised():
    kind = Operation("fails", lambda: None, "raise LookupError('nothing there')")
    with (
        pytest.raises((LookupError, threading.BrokenBarrierError)),
        started(kind, 2, processes=False) as run,
    ):
        run(UNROLLED, 2)


@pytest.mark.slow
def test_a_run(special, special_run):
    entry = special("contention")
    assert OPERATIONS["pages"].title in special_run.printed
    for trial in entry.rounds[0].trials:
        assert trial.metrics["scaling"] > 0 and trial.metrics["operation_ns"] > 0


def test_processes_answer_and_end():
    before = multiprocessing.active_children()
    with started(OPERATIONS["dict"], 2, processes=True) as run:
        for count in (1, 2, 2):
            spans = run(UNROLLED, count)
            assert len(spans) == count and all(begin <= end for begin, end in spans)
        children = [
            process for process in multiprocessing.active_children() if process not in before
        ]
    assert len(children) == 2 and not any(process.is_alive() for process in children)
