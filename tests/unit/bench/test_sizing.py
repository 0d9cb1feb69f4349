"""Batches are halved until they fit every twin, and the reason is said."""

import multiprocessing
import time

import pytest

from ftbench.data.sources import Sources
from ftbench.document.model import Dataset
from ftbench.plan.candidates import CONFIGS, Candidate
from ftbench.plan.sizing import (
    MIB,
    USABLE,
    Demand,
    DoesNotFit,
    batches_under_way,
    demand,
    fit,
    room,
    together,
)
from ftbench.rounds.measurement import Measurement
from ftbench.rounds.twins import Twins
from ftbench.rounds.work import Work
from ftbench.scenarios import SCENARIOS
from ftloader import DataLoader
from tests.processes import wait_until
from tests.unit.bench.scripted import Noted, load, options

SAMPLE = 640 * 408 * 3
PLENTY = {"available": 10**12, "shm_free": 10**12}


def fitted(requested: int, workers: int, processes: bool, memory: dict) -> tuple[int, list[str]]:
    return fit(
        requested, lambda size: demand(size * SAMPLE, workers, 2, processes), workers, memory
    )


def test_what_fits_is_left_alone():
    assert fitted(512, 16, True, {"ft": PLENTY, "gil": PLENTY}) == (512, [])


def test_dockers_64_mb_of_shared_memory():
    small = {**PLENTY, "shm_free": 64 * MIB}
    size, warnings = fitted(512, 2, True, {"ft": PLENTY, "gil": small})
    assert size & (size - 1) == 0 and 1 <= size < 512
    needs = [demand(samples * SAMPLE, 2, 2, processes=True).shm for samples in (size, 4 * size)]
    assert needs[0] <= 64 * MIB < needs[1]
    assert (
        "gil" in warnings[0]
        and "--shm-size" in warnings[0]
        and f"{size} instead of 512" in warnings[0]
    )


def test_threads_alone_need_no_shared_memory():
    assert fitted(512, 2, False, {"ft": {**PLENTY, "shm_free": 0}}) == (512, [])


def test_little_memory():
    size, warnings = fitted(512, 4, True, {"ft": {**PLENTY, "available": 3000 * MIB}})
    assert size < 512 and "memory free" in warnings[0]


class Counted:
    """Sample i is i; `loaded` counts them over all processes."""

    def __init__(self):
        self.loaded = multiprocessing.get_context("fork").Value("i", 0)

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> int:
        with self.loaded.get_lock():
            self.loaded.value += 1
        return index


@pytest.mark.parametrize("method", ["thread", "process"])
def test_batches_under_way_are_those_of_the_loader(method):
    dataset, prefetch_factor, workers = Counted(), 3, 2
    options = {"num_workers": workers, "prefetch_factor": prefetch_factor, "worker_method": method}
    batches = iter(DataLoader(dataset, batch_size=4, **options))
    # one that the consumer holds, and the one that it gets next
    held = [next(batches), next(batches)]
    wanted = 4 * batches_under_way(prefetch_factor, workers)
    wait_until(lambda: dataset.loaded.value >= wanted)
    time.sleep(0.3)  # for more than there should be
    assert dataset.loaded.value == wanted and len(held) == 2


class Named(Sources):
    """Sources whose files are named after them, and are not made."""

    def get(self, name: str) -> tuple[list[str], Dataset]:
        return [name], super().get("nothing")[1]


def prepared(name: str, memory: dict, display: Noted):
    scenario = SCENARIOS[name]
    everybody = [c for _, c in scenario.plan.ranked(CONFIGS, [1], quick=True)]
    twins = Twins(environments={twin: {"memory": of} for twin, of in memory.items()})
    measurement = Measurement(scenario, options(name, workers=[1]), twins, display)
    return measurement.work(everybody, Named(None, None, None))


def test_without_room_for_processes_threads_are_measured():
    scenario, display = SCENARIOS["pillow"], Noted()
    work, found = prepared("pillow", {"ft": PLENTY, "gil": {**PLENTY, "shm_free": MIB}}, display)
    assert [c.key for c in found] == [
        "gil/loader-thread/1",
        "ft-gil/loader-thread/1",
        "ft/loader-thread/1",
    ]
    assert (work.cases[""].batch_size, work.paths[""]) == (scenario.quick.batch_size, ["images"])
    (left_out,) = display.results.skipped
    assert left_out.what == "pillow: worker processes" and "--shm-size" in left_out.why


@pytest.mark.parametrize("name", ["pillow", "text"], ids=["with cases", "without cases"])
def test_a_scenario_of_which_nothing_fits_is_refused(name):
    display = Noted()
    with pytest.raises(DoesNotFit):
        prepared(name, dict.fromkeys(("ft", "gil"), {"available": MIB, "shm_free": MIB}), display)
    assert display.results.skipped == []


def test_nothing_fits():
    with pytest.raises(DoesNotFit, match="not even batches of one sample.*--shm-size"):
        fitted(8, 2, True, {"ft": {**PLENTY, "shm_free": MIB}})


@pytest.mark.parametrize(
    "has, groups",
    [
        (None, ["abcd"]),
        (Demand(40, 20), ["abcd"]),
        (Demand(39, 20), ["abc", "d"]),
        (Demand(40, 19), ["abc", "d"]),
        (Demand(20, 100), ["ab", "cd"]),
        (Demand(1, 1), ["a", "b", "c", "d"]),
    ],
)
def test_who_fits_into_memory_together(has, groups):
    assert ["".join(group) for group in together("abcd", lambda _: Demand(10, 5), has)] == groups


def test_many_threads_are_alive_together_where_as_many_processes_take_turns():
    work = Work(
        SCENARIOS["latency-requests"],
        {"50-ms": load(4, 2, turns=4)},
        {},
        Demand(4096 * MIB, 4096 * MIB),
    )

    def groups(variant: str) -> list[list[str]]:
        found = work.groups([Candidate(config, variant, 64, "50-ms") for config in CONFIGS])
        return [[c.config for c in group] for group in found]

    assert groups("loader-thread") == [[*CONFIGS]]
    assert groups("loader-process") == [[config] for config in CONFIGS]


def test_threads_share_a_dataset_that_processes_copy():
    large = 1024 * MIB
    threads, processes = (
        demand(1, 4, 2, processes=each, dataset_bytes=large) for each in (False, True)
    )
    assert large < threads.memory < 2 * large and processes.memory > 6 * large and threads.shm == 0


def test_ranks_need_memory_each():
    one, eight = (demand(SAMPLE, 2, 2, processes=True, ranks=ranks) for ranks in (1, 8))
    assert (eight.memory, eight.shm) == (8 * one.memory, 8 * one.shm)


def test_the_room_for_all_is_that_of_the_tightest_twin():
    memory = {"ft": {"available": 1000, "shm_free": 10}, "gil": {"available": 500, "shm_free": 20}}
    assert room(memory) == Demand(int(500 * USABLE), int(10 * USABLE))
