"""The number of workers with ``num_workers="auto"``: found by trials,
for simulated loads and for real ones.
"""

import itertools
import random

import pytest

from ftloader.iterators.tuner import Totals, WorkerTuner

CPUS, MOST = 4, 64


class Load:
    """Samples that compute for *computes* s and wait for *waits* s each;
    *most* a second at the most.

    *queued*: seconds of *waits* in which a CPU is waited for."""

    def __init__(self, computes=0.0, waits=0.0, most=float("inf"), loop=0.0, queued=0.0):
        self.computes, self.waits, self.most, self.loop, self.queued = (
            computes,
            waits,
            most,
            loop,
            queued,
        )

    def rate(self, workers):
        """Samples a second."""
        limit = CPUS / self.computes if self.computes else float("inf")
        return min(workers / (self.computes + self.waits), limit, self.most)

    def smallest_good(self):
        """The smallest number of workers within 5% of the best rate that the loop can use."""
        best = min(
            max(map(self.rate, range(1, MOST + 1))), 1 / self.loop if self.loop else float("inf")
        )
        return next(n for n in range(1, MOST + 1) if self.rate(n) >= 0.95 * best)


class Simulation:
    """A tuner, and batches that it tunes; each takes up to 10% more
    or less than it should, at random.
    """

    def __init__(self, seed, first=CPUS):
        self.random, self.tuner = random.Random(seed), WorkerTuner(first, MOST, CPUS)
        self.now = self.waited = self.busy = self.cpu = 0.0
        self.batches = self.samples = 0
        self.numbers = [self.tuner.number]

    def totals(self):
        return Totals(self.now, self.waited, self.batches, self.samples, self.busy, self.cpu)

    def run(self, load, seconds):
        """Load batches for *seconds* s of simulated time.
        Return the numbers of workers of each batch.
        """
        end, found = self.now + seconds, []
        while self.now < end:
            workers = self.tuner.number
            rate = load.rate(workers) * self.random.uniform(0.9, 1.1)
            samples = max(32, int(load.rate(CPUS) / 50))
            loads, steps = samples / rate, samples * load.loop
            self.now += max(loads, steps)
            self.waited += max(0.0, loads - steps)
            self.batches += 1
            self.samples += samples
            self.busy += workers * loads
            self.cpu += samples * (load.computes + load.queued)
            if load.computes and load.rate(workers) == CPUS / load.computes:
                # the rest of the time they want a CPU
                self.cpu += max(
                    0.0, workers * loads - samples * (load.computes + load.waits + load.queued)
                )
            if self.now >= self.tuner.due:
                self.tuner.look(self.totals())
            found.append(workers)
        self.numbers += found
        return found

    def changes(self):
        return len(list(itertools.groupby(self.numbers))) - 1


LOADS = {
    "computing": Load(computes=0.005),
    "5 ms of latency": Load(waits=0.005, computes=0.0001),
    "50 ms of latency": Load(waits=0.05, computes=0.0001),
    "5 ms of latency, and many wake up at once": Load(waits=0.005, computes=0.0001, queued=0.001),
    "half computing": Load(computes=0.003, waits=0.003),
    "a lock": Load(waits=0.004, most=250),
    "a server's limit": Load(waits=0.02, most=600),
    "tiny samples": Load(computes=0.00001),
    "a slow loop": Load(computes=0.005, loop=0.00375),
    "a slow loop on latency": Load(waits=0.05, loop=0.005),
}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_the_number_is_found_and_kept(load, seed):
    run = Simulation(seed)
    run.run(load, 15)
    before = run.changes()
    found = run.run(load, 100)
    good = load.smallest_good()
    assert good <= found[-1] <= max(good + 1, 1.5 * good)
    assert run.changes() == before


@pytest.mark.parametrize("seed", range(4))
def test_a_slow_start_is_no_reason_to_keep_more(seed):
    run = Simulation(seed, first=2)
    run.run(Load(waits=0.004, most=215), 0.35)
    assert run.run(LOADS["a lock"], 30)[-1] == 1


# A load whose rate and share of computing are about those of the one before is not seen:
# leave out such pairs.
SEEN = [name for name, load in LOADS.items() if not load.queued]


@pytest.mark.parametrize(("first", "then"), list(itertools.permutations(SEEN, 2)))
@pytest.mark.slow
def test_another_load_gets_another_number(first, then):
    good, found = LOADS[then].smallest_good(), []
    for seed in range(4):
        run = Simulation(seed)
        run.run(LOADS[first], 30)
        run.run(LOADS[then], 60)
        before = run.changes()
        found.append(run.run(LOADS[then], 30)[-1])
        assert run.changes() <= before + 2
    # In a noisy simulation, a trial is misjudged now and then.
    assert sum(good <= number <= max(good + 1, 1.5 * good) for number in found) >= 3


@pytest.mark.parametrize(
    "load", [LOADS["computing"], LOADS["50 ms of latency"]], ids=["computing", "latency"]
)
def test_the_rate_is_soon_that_of_the_best_number(load):
    run = Simulation(1)
    run.run(load, 5)
    assert load.rate(run.numbers[-1]) > 0.95 * max(map(load.rate, range(1, MOST + 1)))
