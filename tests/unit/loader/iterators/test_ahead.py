"""Batches ahead of the loop: as few as hide what is uneven, found while running; a number that is
given is obeyed.
"""

import copy
import math
import pickle
import threading
import time
import weakref

import numpy as np
import pytest

from ftloader import DataLoader
from ftloader.batch.in_use import WorkersInUse
from ftloader.iterators.ahead import Ahead
from tests.datasets import Rows


def limit_of(most, given, **arguments):
    """Return an ``Ahead`` for *most* workers that build each batch together."""
    return Ahead(WorkersInUse(most), 1, given, **arguments)


def simulate(ahead, loads, steps, start=0.0):
    """Run a loop whose step n takes ``steps[n]`` s, on batches that are built one by one in
    ``loads[n]`` s each.

    Return (seconds, the limit after each batch)."""
    # built: the time at which each batch is ready, after the first entry
    now, built, limits = start, [start], []
    ahead.begin(now)

    def dispatch(handed_over):
        while len(built) - 1 - handed_over < ahead.limit and len(built) <= len(loads):
            built.append(max(now, built[-1]) + loads[len(built) - 1])

    dispatch(0)
    for number, step in enumerate(steps):
        idle = lambda: built[-1] <= now and ahead.may_grow and len(built) <= len(loads)  # noqa: E731
        ahead.asked(sum(end <= now for end in built[number + 1 :]), idle(), now)
        if (ready := built[number + 1]) > now:
            waited, now = ready - now, ready
            ahead.waited(waited, idle(), now)
        dispatch(number + 1)
        now += step
        limits.append(ahead.limit)
    return now - start, limits


MOST = 16
BURSTS = [2.0 if n % 20 == 19 else 0.0 for n in range(1000)]
EVEN = [0.1] * 1000


@pytest.mark.parametrize("load", [0.01, 0.09, 0.11, 1.0], ids=lambda load: f"loads of {load:g} s")
def test_an_even_loop_needs_no_more_than_two(load):
    _, limits = simulate(limit_of(MOST, given=False), [load] * 1000, EVEN)
    assert set(limits) == {2}


@pytest.mark.parametrize("load", [0.01, 0.016, 0.05, 0.1, 0.2])
def test_a_loop_that_pauses_gets_what_it_would_have_with_the_most(load):
    for pauses, least in ((50, 0.985), (400, 0.994)):  # it learns during the first two
        most, _ = simulate(limit_of(MOST, given=True), [load] * 20 * pauses, BURSTS[:20] * pauses)
        found, limits = simulate(
            limit_of(MOST, given=False), [load] * 20 * pauses, BURSTS[:20] * pauses
        )
        assert limits[0] == 2
        assert most / found > least


def test_it_forgets_a_number_that_is_not_needed_any_more_and_stays_where_it_is_needed():
    ahead = limit_of(MOST, given=False)
    simulate(ahead, [0.05] * 1000, BURSTS)
    assert ahead.limit > 8
    _, limits = simulate(ahead, [0.05] * 1000, EVEN, start=1e3)
    assert limits[-1] == 2
    _, limits = simulate(ahead, [0.05] * 10_000, BURSTS * 10, start=2e3)
    assert len(set(limits[1000:])) == 1


def test_a_rare_wait_is_not_worth_memory():
    _, limits = simulate(
        limit_of(MOST, given=False), [0.2 if n % 200 == 100 else 0.01 for n in range(1000)], EVEN
    )
    assert set(limits) == {2}


def test_small_batches_are_kept_as_many_as_allowed():
    ahead = limit_of(MOST, given=False)
    assert ahead.limit == 2  # nothing is known yet
    ahead.measured(3, 3 * 2**20)
    assert ahead.limit == MOST
    ahead.measured(4, 4 * 2**20 + 4)
    assert ahead.limit == 2


@pytest.mark.parametrize(("mib", "limit"), [(0, 16), (0.5, 16), (1, 16), (2, 8), (4, 4), (4.1, 2)])
def test_more_small_batches_are_allowed_where_the_loader_chooses_the_workers(mib, limit):
    for given in False, True:
        ahead = limit_of(4, given, many=16)
        ahead.measured(3, int(3 * mib * 2**20))
        assert ahead.limit == (4 if given else limit) and ahead.adapts == (limit == 2 and not given)


@pytest.mark.parametrize(
    ("arguments", "least"), [({}, 16), ({"max_workers": 2}, 4), ({"prefetch_factor": 3}, 0)]
)
def test_the_limit_of_small_batches_with_auto(arguments, least):
    loader = DataLoader(
        Rows(4000), batch_size=4, num_workers="auto", worker_method="thread", **arguments
    )
    with iter(loader) as iterator:
        next(iterator), next(iterator)
        assert iterator._ahead.limit == max(loader.prefetch_factor * iterator._in_use.number, least)


def test_all_workers_have_a_batch_and_one_more_is_ready_where_each_builds_its_own():
    workers = WorkersInUse(8)
    ahead = Ahead(workers, 2, given=False)
    ahead.building(helpers=1)
    assert ahead.limit == 9
    ahead.building(helpers=3)
    assert ahead.limit == 4
    workers.number = 3
    assert ahead.limit == 2
    ahead = Ahead(workers, 1, given=False)
    ahead.building(helpers=1)
    assert ahead.limit == 3  # the most


@pytest.mark.parametrize(
    ("arguments", "batches"), [({}, 2 + 1), ({"prefetch_factor": 2}, 16)], ids=["not given", "2"]
)
def test_what_is_loaded_before_the_loop_asks(arguments, batches):
    """Batches of 4 need 4 of 8 workers, so two are built at the same time."""
    loaded, go, enough = [], threading.Event(), threading.Event()

    def load(index):
        assert go.wait(60)
        loaded.append(index)
        if len(loaded) == 4 * batches:
            enough.set()
        return index

    loader = DataLoader(
        Rows(400, load), batch_size=4, num_workers=8, worker_method="thread", **arguments
    )
    with iter(loader):
        go.set()
        assert enough.wait(60)
        assert loader.prefetch_factor == 2
        assert sorted(loaded) == [*range(4 * batches)]


class Sample:
    """Object that shows by a weak reference that it is alive."""


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.slow(cases=1)
def test_objects_of_earlier_batches_do_not_stay_while_workers_wait(batch_size):
    """Without the GIL an object is freed by the thread that made it,
    which may be waiting for its next batch.
    """
    made = []

    def load(_):
        sample = Sample()
        made.append(weakref.ref(sample))
        return sample

    arguments = {"batch_size": batch_size, "collate_fn": list, "prefetch_factor": 2}
    with iter(
        DataLoader(Rows(400, load), num_workers=8, worker_method="thread", **arguments)
    ) as iterator:
        for batch in iterator:
            assert len(batch) == batch_size
            deadline = time.monotonic() + 60
            # In memory may be the 16 batches ahead, the loop's, and a few that are about to be
            # freed: not one a worker.
            while (alive := sum(reference() is not None for reference in made)) > 21 * batch_size:
                assert time.monotonic() < deadline, f"{alive} samples are alive"
                time.sleep(0.001)
            time.sleep(0.003)  # a slow loop: workers have built all that they may


@pytest.mark.parametrize("limit", [0, 3000], ids=["", "with a timeout"])
def test_workers_go_on_while_one_sample_is_slow(limit):
    """The first batch waits for the fourth. All others are built before the loop waits,
    so no message comes.
    """
    fourth_batch = threading.Event()

    def load(index):
        if index >= 12:
            fourth_batch.set()
        if index == 0:
            assert fourth_batch.wait(300)
        return index

    loader = DataLoader(
        Rows(40, load), batch_size=4, num_workers=2, worker_method="thread", timeout=limit
    )
    iterator = iter(loader)
    assert iterator._dispatcher.receive()  # the second batch
    assert [index for batch in iterator for index in batch.tolist()] == [*range(40)]
    assert loader._shared.extra > 1  # where the next epoch starts
    assert [index for batch in loader for index in batch.tolist()] == [*range(40)]


def shrunk(extra, left):
    """Return an Ahead that has shrunk from *extra* at the time 2.1 s, since *left* batches were
    more than needed.
    """
    ahead = limit_of(64, given=False, extra=extra)
    for request in range(65):
        # nothing is ready at first
        ahead.asked(0 if request == 0 else left + 1, False, 2.1 if request == 64 else 0.0)
    assert ahead.extra == extra - left
    return ahead


def test_it_grows_back_at_once_if_fewer_were_too_few():
    ahead = shrunk(40, left=30)
    assert ahead.waited(0.01, idle=True, now=2.2)  # 10% of the time since it has shrunk
    assert ahead.extra == 40
    ahead = shrunk(40, left=30)
    for request in range(64):  # another row in which they were enough
        ahead.asked(1, False, 3.0 + request / 10)
    assert ahead.waited(1.0, idle=True, now=10.0)
    assert ahead.extra == 20


def test_without_idle_workers_it_grows_by_a_quarter():
    ahead = limit_of(64, given=False, extra=16)
    ahead.asked(0, True, 0.0)
    assert ahead.waited(1.0, idle=False, now=1.0) and ahead.extra == 20


@pytest.mark.slow
def test_a_loader_forgets_a_number_that_its_loop_does_not_need():
    loader = DataLoader(
        Rows(840, lambda _: np.zeros(300_000, np.uint8)), 4, num_workers=8, worker_method="thread"
    )
    loader._shared.extra = MOST - 1
    for _ in range(5):  # other programs may take the CPUs for most of an epoch
        for _ in loader:
            time.sleep(0.02)
        if loader._shared.extra == 1:
            # after the second row of requests: in the first, the epoch has just begun
            return
    raise AssertionError(loader._shared.extra)


def test_a_wait_is_judged_when_it_has_become_long_enough():
    ahead = limit_of(MOST, given=False)
    ahead.begin(100.0)
    assert not ahead.waited(0.1, idle=True, now=110.0)
    long_enough = ahead.patience(120.0)
    assert not ahead.waited(long_enough - 1e-6, idle=True, now=120.0 + long_enough - 1e-6)
    assert ahead.waited(2e-6, idle=True, now=120.0 + long_enough + 1e-6)
    assert ahead.patience(120.0 + long_enough + 1e-6) == 0.0


def test_no_wait_is_long_enough_for_more_than_is_allowed():
    assert limit_of(MOST, given=True).patience(1.0) == math.inf


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))]
)
def test_a_loader_rebuilt_from_its_attributes_may_choose_too(duplicate):
    loader = DataLoader(Rows(400), num_workers=8, worker_method="thread")
    rebuilt = DataLoader(
        Rows(400), num_workers=8, worker_method="thread", prefetch_factor=loader.prefetch_factor
    )
    loader = duplicate(loader)
    for each in (loader, rebuilt):
        assert each.prefetch_factor == 2
        with iter(each) as iterator:
            assert iterator._ahead.limit < 16
        each.prefetch_factor = 2
        with iter(each) as iterator:
            assert iterator._ahead.limit == 16
