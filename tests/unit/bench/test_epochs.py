"""The measurement of most scenarios: its steady middle, its figures, its time stamps."""

import contextlib
import time
from statistics import fmean, median
from types import SimpleNamespace

import numpy
import pytest

from ftbench.measure import epochs
from ftbench.plan.scenario import Task
from tests.unit.bench.turns import without_pause

WORKERS, BATCH_SIZE, BATCHES = 2, 2, 8
SLEEP = 0.002


@pytest.fixture(autouse=True)
def long_turns(monkeypatch):
    """A slow machine times as many batches as a fast one."""
    monkeypatch.setattr(epochs, "TURN_SECONDS", 600)


class Pipeline:
    """A loader of workers that take `seconds` for a batch each, and as long again as `start` to
    begin an epoch.

    Time passes by its batches alone.
    """

    def __init__(self, seconds: float, together: bool, start: float):
        self.now = 0.0
        # Threads build a batch together, processes one each at the same time.
        self._each, self._at_once = (seconds / WORKERS, 1) if together else (seconds, WORKERS)
        self._start = start

    def epoch(self, samples: int):
        begin = self.now + self._start
        for number in range(samples // BATCH_SIZE):
            self.now = begin + (number // self._at_once + 1) * self._each
            yield numpy.full((BATCH_SIZE, 1), number)


@pytest.mark.parametrize("together", [True, False])
def test_starting_and_running_empty_belong_to_no_batch(together, monkeypatch):
    """10% more work is 10% more time to the last digit:
    nothing that an epoch has but once is timed.
    """
    found = []
    for seconds, start in ((0.1, 0.02), (0.11, 0.5)):
        loader = Pipeline(seconds, together, start)
        clock = SimpleNamespace(perf_counter=lambda of=loader: of.now, time=time.time)
        monkeypatch.setattr(epochs, "time", clock)
        monkeypatch.setattr(
            epochs, "open_loader", lambda *_, of=loader, **__: contextlib.nullcontext(of)
        )
        found.append(
            without_pause(
                epochs.measure(Task(Given(0), [], "", WORKERS, BATCH_SIZE, 2, BATCHES, 2, turns=3))
            )
        )
    plain, more = found
    assert plain["turn_seconds"] == pytest.approx([BATCHES / WORKERS * 0.1] * 3)
    assert more["metrics"]["throughput"] / plain["metrics"]["throughput"] == pytest.approx(1 / 1.1)
    assert more["rows"] == plain["rows"] and more["batches"] == BATCHES * 3


class Sleeping:
    """Samples that take so long and use nothing of the machine."""

    def __init__(self, seconds: float):
        self.seconds = seconds

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int):
        time.sleep(self.seconds)
        return numpy.full(3, index)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.slow(cases=1)
def test_fewer_workers_show_the_same_samples(workers):
    """They begin to take the time at another batch, and load fewer;
    the first of a turn are the same.
    """
    few, many = (
        without_pause(
            epochs.measure(Task(Given(0), [], variant, count, BATCH_SIZE, 2, BATCHES, 2, turns=2))
        )
        for variant, count in (
            ("loader-thread" if workers else "serial", workers),
            ("loader-thread", WORKERS),
        )
    )
    a_turn, of_many = len(few["rows"]) // 2, len(many["rows"]) // 2
    for turn in range(2):
        assert few["rows"][turn * a_turn :][:a_turn] == many["rows"][turn * of_many :][:a_turn]


@pytest.mark.parametrize(("seconds", "timed"), [(0.001, 40), (0.05, 10), (10.0, 2 * WORKERS)])
def test_a_slow_candidate_times_fewer_batches_in_a_turn(seconds, timed, monkeypatch):
    """A second's worth, here of 0.1 s each with WORKERS of 2, but two for each worker."""
    loader = Pipeline(seconds * WORKERS * 2, True, 0.5)
    clock = SimpleNamespace(perf_counter=lambda: loader.now, time=time.time)
    monkeypatch.setattr(epochs, "TURN_SECONDS", 1.0)
    monkeypatch.setattr(epochs, "time", clock)
    monkeypatch.setattr(epochs, "open_loader", lambda *_, **__: contextlib.nullcontext(loader))
    task = Task(Given(0), [], "", WORKERS, BATCH_SIZE, 40, 40, 2, turns=3)
    found = without_pause(epochs.measure(task))
    assert found["batches"] == found["asked"] == timed * 3
    assert found["samples"] == timed * 3 * BATCH_SIZE


class Given:
    """In a scenario's place: a task needs its dataset alone."""

    def __init__(self, seconds: float):
        self.dataset = lambda task: Sleeping(seconds)


def side_by_side(variant: str, number_of_turns: int, *seconds: float) -> list[dict]:
    running = {
        number: epochs.measure(
            Task(
                Given(each), [], variant, WORKERS, BATCH_SIZE, 2, BATCHES, 2, turns=number_of_turns
            )
        )
        for number, each in enumerate(seconds)
    }
    results = {}
    while running:
        for number, turns in list(running.items()):
            try:
                next(turns)
            except StopIteration as end:
                results[number] = end.value
                del running[number]
    return [results[number] for number in range(len(seconds))]


@pytest.mark.long(reason="needs a machine that does nothing else")
@pytest.mark.parametrize("variant", ["loader-thread", "loader-process"])
def test_ten_percent_more_sleep_reads_as_what_it_is(variant):
    """With real workers; with starting and running empty in it, it would read as 8.2% less."""
    plain, more = side_by_side(variant, 20, 0.010, 0.011)
    # By the turns' median, which one that was held up does not move.
    ratios = [a / b for a, b in zip(plain["turn_seconds"], more["turn_seconds"], strict=True)]
    assert 1 - 0.093 <= median(ratios) <= 1 - 0.089, ratios


@pytest.mark.parametrize("variant", ["loader-thread", "loader-process"])
@pytest.mark.slow
def test_the_figures_of_turns_that_alternate(variant):
    begin = time.time()
    plain, more = side_by_side(variant, 3, SLEEP, SLEEP)
    for result in (plain, more):
        metrics = result["metrics"]
        assert set(epochs.METRICS) <= set(metrics) and min(metrics.values()) > 0
        assert metrics["throughput"] == pytest.approx(
            BATCHES * BATCH_SIZE / fmean(result["turn_seconds"])
        )
        # Nothing but what is timed counts.
        assert result["batches"] == BATCHES * 3 and result["samples"] == BATCHES * BATCH_SIZE * 3
        # Every turn has the same samples, with those before and after the time that is taken.
        assert result["rows"] == plain["rows"][: BATCHES + 2 * WORKERS] * 3
        assert (
            sorted(result["turn_began"]) == result["turn_began"] and len(result["turn_began"]) == 3
        )
        assert begin < result["turn_began"][0] and result["turn_began"][-1] < time.time()
    # The turns did alternate.
    starts = sorted((began, who) for who in (0, 1) for began in (plain, more)[who]["turn_began"])
    assert [who for _, who in starts] == [0, 1] * 3


@pytest.mark.slow
def test_cpu_time_is_that_of_the_work_wherever_it_is_done():
    class Busy(Sleeping):
        def __getitem__(self, index: int):
            end = time.thread_time() + self.seconds
            while time.thread_time() < end:
                pass
            return numpy.full(3, index)

    class Worked(Given):
        def __init__(self, seconds: float):
            self.dataset = lambda task: Busy(seconds)

    for variant in ("loader-thread", "loader-process"):
        result = without_pause(
            epochs.measure(Task(Worked(0.004), [], variant, 1, 4, 2, 10, 2, turns=2))
        )
        # Four milliseconds a sample, give or take a tick of the clock that counts them, and what
        # loading costs besides.
        assert 3.6 <= result["metrics"]["cpu_per_1000"] < 8.0, (variant, result["metrics"])
