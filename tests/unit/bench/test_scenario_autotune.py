"""`autotune`: the best number is judged without luck, and each load runs with fixed numbers and with "auto"."""

import time

import pytest

from ftbench.plan.scenario import Task
from ftbench.report import charts
from ftbench.scenarios import SCENARIOS, autotune
from tests.unit.bench.turns import without_pause

SCENARIO = SCENARIOS["autotune"]


def test_the_best_of_equal_numbers_is_no_better_than_they_are():
    """The largest of noisy values of 100 would be 110."""
    rate, place = autotune.best([100, 110, 90, 95], [98, 100, 110, 100])
    assert rate == pytest.approx((100 + 90) / 2)
    assert place == 0


@pytest.mark.parametrize(
    ("rates", "best", "place"),
    [([10, 20, 39, 40, 40], 40, 2), ([10, 20, 40, 30, 20], 40, 2), ([40, 40], 40, 0), ([30, 37, 40], 40, 2)],
)
def test_the_fewest_threads_that_are_good_enough(rates, best, place):
    assert autotune.best(rates, rates) == (pytest.approx(best), place)


def test_delays_and_locks_are_real():
    began = time.perf_counter()
    autotune.Remote(range(9), 0.05)[3]
    assert time.perf_counter() - began >= 0.05
    locked = autotune.Remote(range(9), 0.0, lock=True)
    assert locked[3] == 3 and len(locked) == 9


@pytest.fixture
def hurried(monkeypatch):
    for name, value in {
        "NUMBERS": (1, 2),
        "SETTLED_BATCHES": 4,
        "SETTLED_SECONDS": 0.2,
        "WARM_SECONDS": 0.0,
        "TIMED_SECONDS": 0.05,
    }.items():
        monkeypatch.setattr(autotune, name, value)


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("case", autotune.CASES, ids=lambda case: case.name)
def test_every_case(case, hurried, paths, tmp_path):
    (tmp_path / "shard").write_bytes(bytes(8 << 20))
    files = {"images": paths, "shards": [str(tmp_path / "shard")]}.get(case.source, [])
    task = Task(SCENARIO, files, "loader-thread", 2, 4, 1, 4, 2, case.name, case.parameters)
    found = without_pause(SCENARIO.measure(task))
    assert set(SCENARIO.metrics) == set(found["metrics"]) and all(value > 0 for value in found["metrics"].values())
    fixed, threads = found["distributions"]["fixed"], found["distributions"]["threads"]
    assert found["distributions"].keys() <= charts.TITLES.keys()
    assert len(fixed["values"]) == 2 and fixed["over"]["values"] == [1, 2]
    assert len(threads["values"]) == len(threads["over"]["values"]) >= 1
    assert found["samples"] >= (4 + 3 * 2) * 4  # batches until it has settled, and timed ones
