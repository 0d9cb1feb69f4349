"""Fetchers slow down when they cost the training thread more than a set share, and not otherwise."""

import errno
import heapq
import itertools
import threading

import pytest

from ftloader.cache import CacheError, GrowingCache, pace
from tests.checkout import CHECKOUT
from tests.unit.loader.cache.sources import Numbered


class Machine:
    """A clock, and a training thread that waits for a CPU for *contended* of the CPU time of the fetchers."""

    def __init__(self, share, contended):
        self.now = self.waited = self.used = 0.0
        self.contended = contended
        self.pace = pace.Pace(share, 1, queued=lambda thread: self.waited, clock=lambda: self.now)

    def run(self, seconds, cpu=0.005):
        """One fetcher, which uses a CPU for *cpu* for each sample; its share of one CPU, and its cost."""
        end, waited, used = self.now + seconds, self.waited, self.used
        while self.now < end:
            self.now += cpu
            self.used += cpu
            self.waited += cpu * self.contended
            self.now += self.pace.used(cpu)
        return (self.used - used) / seconds, (self.waited - waited) / seconds


def test_who_costs_nothing_is_not_slowed():
    assert Machine(0.05, 0.0).run(20) == pytest.approx((1.0, 0.0), abs=0.01)
    assert Machine(0.05, 0.04).run(20)[0] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("contended", [0.2, 0.5, 1.0, 10.0])
def test_who_costs_more_is_slowed_to_the_share(contended):
    machine = Machine(0.05, contended)
    machine.run(5)
    used, cost = machine.run(40)
    assert used == pytest.approx(max(0.05, 0.05 / contended), rel=0.2)
    # Others make it wait too, in the last case: no less is allowed than what can cost no more.
    assert min(used, cost) < 0.06


def test_what_others_take_is_not_held_against_fetchers_for_good():
    machine = Machine(0.05, 10.0)
    machine.run(10)
    machine.contended = 0.0
    machine.run(10)
    assert machine.run(10)[0] > 0.95


def test_sixteen_fetchers_of_samples_that_take_long():
    """Samples take 0.3 CPU seconds each. Others make the training thread wait at first."""
    now = waited = 0.0
    slowed = pace.Pace(0.05, 1, queued=lambda thread: waited, clock=lambda: now)
    ready, ends = [0.0] * 16, []
    while now < 600:
        now = max(now, heapq.heappop(ready)) + 0.3
        waited += 3.0 * (now < 300)
        heapq.heappush(ready, now + slowed.used(0.3))
        ends.append(now)
    assert 0.3 * sum(100 <= end < 300 for end in ends) < 0.1 * 200  # of one CPU, once all have been slowed
    assert max(after - before for before, after in itertools.pairwise(ends)) < 2 * 0.3 / 0.05
    assert 0.3 * sum(450 <= end < 600 for end in ends) > 0.9 * 150


def test_a_moment_in_which_no_file_can_be_opened():
    seconds, answers = itertools.count(), [OSError(errno.EMFILE, "too many open files"), 100.0, 200.0]

    def queued(thread):
        found = answers.pop(0)
        if isinstance(found, OSError):
            raise found
        return found

    answers.insert(0, 0.0)
    one = pace.Pace(0.05, 1, queued=queued, clock=lambda: float(next(seconds)))
    assert one.used(1.0) == 0 and one.used(1.0) > 5  # what was used before is not forgotten


def test_fetchers_outlive_the_thread_that_they_cost():
    """A cache may be made in one thread and used in another, or trained with in threads that end."""
    made, seconds = [], itertools.count()
    ended = threading.Thread(
        target=lambda: made.append(pace.Pace(0.05, threading.get_native_id(), clock=lambda: float(next(seconds))))
    )
    ended.start()
    ended.join()
    pauses = [made[0].used(1.0) for _ in range(20)]
    assert pauses[-1] == 0


def test_a_kernel_that_does_not_count(tmp_path, monkeypatch):
    with pytest.raises(CacheError, match="most_cost needs"):
        pace.Pace(0.05, 1 << 30)
    monkeypatch.setattr(threading, "get_native_id", lambda: 1 << 30)
    with pytest.raises(CacheError, match="most_cost needs"):
        GrowingCache(Numbered(1), tmp_path / "cache", max_bytes=1 << 20, most_cost=0.5)
    assert not (tmp_path / "cache").exists()


def test_a_loop_that_shares_a_cpu_with_fetchers(run_program, tmp_path):
    """CPU time and the kernel's queue are counted; where other load hides that for a while, the next one tells."""
    status, out, err = run_program(f"""
        import os, sys, threading, time
        os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
        os.fsync = os.fdatasync = lambda fd: None  # a slow disk slows fetchers too
        sys.path.append({str(CHECKOUT)!r})
        from ftloader.cache import GrowingCache, pace

        class Busy:
            def keys(self):
                return map(str, range(10**9))
            def read(self, key):
                return bytes(100_000)

        def now():
            return time.process_time() - time.thread_time(), pace._queued(threading.get_native_id()), time.monotonic()

        for number, share in enumerate((None, 0.05)):
            with GrowingCache(Busy(), {str(tmp_path)!r} + f"/{{number}}", 8 << 20, 2, most_cost=share) as cache:
                epoch = 0
                for attempt in range(20):
                    before = now()
                    while time.monotonic() - before[2] < 0.7:
                        sum(range(20_000))
                        cache.set_epoch(epoch := epoch + 1)
                    used, queued, took = (b - a for a, b in zip(before, now()))
                    cost, slowed = min(used, queued) / took, cache.statistics().fetchers_slowed
                    if attempt and (cost < 0.1 and slowed if share else cost >= 0.1):  # the first is to find the pace
                        break
                print(cost, slowed)
                assert ("fetchers slowed by" in str(cache.statistics())) == (share is not None)
    """)
    assert (status, err) == (0, "")
    (free, not_slowed), (cost, slowed) = (map(float, line.split()) for line in out.splitlines())
    assert not_slowed == 0 < slowed and cost < 0.1 and cost < free, out
