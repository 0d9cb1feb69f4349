"""``audit()``: the steps of an audit, and which of their results are findings."""

import functools
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from ftsafety.audit import aliases, findings, gil, reachable
from ftsafety.audit.comparison import Frozen, Raised, difference
from ftsafety.audit.concurrent_loads import WAYS, Burst, Burster, Odd, Stuck, stuck
from ftsafety.audit.observer import Observed, Observer, discovering
from ftsafety.audit.report import Report
from ftsafety.audit.samples import IndexedLoads, Loads, attempt, choose, freeze, outcome, thread

OBSERVED = 6
"""Samples that each thread loads while its lines are watched."""


class AuditError(Exception):
    """The dataset cannot be audited; the text says why."""


def audit(
    dataset: Any,
    *,
    indices: Iterable[Any] | None = None,
    samples: int = 32,
    threads: int = 8,
    seconds: float = 10.0,
    patience: float = 20.0,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Tries to show that *dataset* is not safe under threads, and reports what came of it.

    Loads some samples serially, then watches what the dataset's own lines write, then loads the samples
    in many threads at once, in ways that provoke races, and compares. Every finding was confirmed by a
    second look. Between the steps, and at the end, the dataset's attributes and containers are put back
    as they were at the beginning.

    A crash of the interpreter ends your program too, and threads that hang stay behind:
    ``python -m ftsafety.audit MODULE:OBJECT`` does the same in a process of its own.

    Args:
        dataset: map-style or iterable-style, as for ``ftloader.DataLoader``.
        indices: what to load. By default *samples* random indices, including the first and the last.
        samples: how many; of an iterable-style dataset how many of each worker.
        threads: how many load at once.
        seconds: how long threads load at once; the second look takes at most as long again.
        patience: seconds without a finished sample after which threads count as stuck.
        seed: chooses the indices and their order.
        progress: called with a line of text at each step.

    Raises:
        AuditError: no sample can be loaded serially, or loading serially hangs.
        TypeError, ValueError: *dataset* is no dataset, or is empty.
    """
    if threads < 2:
        raise ValueError("threads= must be at least 2")
    return _Audit(choose(dataset, indices, samples, threads, seed), threads, seconds, patience, seed, progress).run()


class _Audit:
    """One audit; driven by the thread that made it."""

    def __init__(
        self,
        loads: Loads,
        threads: int,
        seconds: float,
        patience: float,
        seed: int,
        progress: Callable[[str], None] | None,
    ) -> None:
        self._loads, self._threads, self._seconds, self._seed = loads, threads, seconds, seed
        self._patience = patience
        self._say = progress or (lambda text: None)
        self._snapshot = reachable.Snapshot(reachable.walk(loads.dataset))
        self._reference: dict[Any, Frozen] = {}
        self._unequal: set = set()  # keys that differ serially too
        self._bursts: list[Burst] = []
        self._again: list[Burst] = []
        self._changes: set[tuple[str, str]] = set()
        self._overwritten_arrays: set[str] = set()
        self._report = Report(findings.describe(loads), f"{gil.describe()}; {threads} threads")

    def run(self) -> Report:
        begin = time.monotonic()
        report = self._report
        self._say(f"loading {len(self._loads.keys)} {findings.plural(self._loads.unit)} serially, three times")
        with gil.noticing() as turned_on:
            codes = self._alone(self._serially)
            if self._all_raise():
                self._try_in_own_thread()
                self._end(begin)
                findings.say_that_it_ended_there(report, self._loads)
                return report
            self._say("watching what the dataset's lines write, in two threads that take turns")
            first, second, nodes = self._alone(lambda: self._observe_twice(codes))
        suspects = findings.from_observation(self._loads, first, second, nodes)
        report.findings += suspects
        report.findings += findings.from_serial(self._loads, self._unequal, self._shared_memory)
        report.findings += self._alone(self._aliases)
        report.findings += self._in_this_thread()
        report.findings += findings.from_changes(self._loads.dataset, self._changes, suspects, second)
        scratch = findings.from_arrays(self._loads.dataset, self._overwritten_arrays, codes, suspects, second)
        report.findings += scratch
        suspects = suspects + scratch
        report.findings += findings.from_gil(turned_on)
        try:
            self._at_once(codes)
            report.findings += self._confirmed(suspects)
        except Stuck as error:
            report.findings.append(self._look_again_at_hang(error))
        self._watched = bool(first.instructions and second.instructions)
        return self._finish(begin, len(codes))

    _watched = False

    def _end(self, begin: float) -> None:
        self._snapshot.restore()
        self._report.seconds = time.monotonic() - begin

    def _finish(self, begin: float, functions: int) -> Report:
        self._end(begin)
        findings.say_what_was_tried(
            self._report,
            self._loads,
            self._bursts + self._again,
            self._reference,
            self._unequal,
            self._threads,
            functions,
            self._watched,
        )
        return self._report

    def _all_raise(self) -> bool:
        return all(isinstance(got, Raised) for got in self._reference.values())

    def _try_in_own_thread(self) -> None:
        """Nothing can be loaded by a thread of its own; maybe by this one, in which the dataset was made."""
        first = self._reference[self._loads.keys[0]]
        assert isinstance(first, Raised)
        for _ in range(2):
            if any(isinstance(outcome(self._loads, key, 0), Raised) for key in self._loads.keys):
                raise AuditError(f"no sample can be loaded, not even by one thread:\n{first.traceback}")
        self._report.findings.append(findings.from_owner_thread(self._loads, first))

    def _in_this_thread(self) -> list:
        """Whether the thread that made the dataset, in which a worker process would be forked, gets other samples."""
        keys = [key for key in self._loads.keys if key not in self._unequal]
        keys = keys[:: -(-len(keys) // OBSERVED) or 1]
        self._say(f"loading {len(keys)} of them in the thread that made the dataset, twice")
        other = dict.fromkeys(keys, "")
        for _ in range(2):
            self._snapshot.restore()
            other = {key: how for key in other if (how := self._differs(key))}
            # Another thread again: it may be time that makes the difference.
            other = {key: how for key, how in other.items() if not self._alone(functools.partial(self._differs, key))}
        return findings.from_makers_thread(self._loads, other)

    def _differs(self, key: Any) -> str | None:
        """How the sample *key* that this thread gets differs from the reference."""
        return difference(self._one(key)[0], self._reference[key])

    # -- one thread ------------------------------------------------------------------------------------

    def _alone(self, work: Callable[[], Any]) -> Any:
        """``work()`` in a thread, so that a dataset that hangs without others is told from a race."""
        results: list = []

        def run() -> None:
            try:
                results.append((work(), None))
            except BaseException as error:
                results.append((None, error))

        alone = thread("audit-alone", run)
        alone.start()
        # What is waited for is the next sample, each of which gets a limit of its own.
        loaded = -1
        while alone.is_alive():
            alone.join(self._patience)
            if alone.is_alive() and loaded == self._loaded:
                everyone = [t for t in threading.enumerate() if t.name.startswith("audit-")]
                hang = stuck(everyone, self._patience)
                raise AuditError(f"the dataset hangs with one thread at a time, so it is no race:\n{hang.stacks}")
            loaded = self._loaded
        value, error = results[0]
        if error is not None:
            raise error
        return value

    _loaded = 0
    """Samples so far, by one thread at a time."""

    _slowest = 0.0
    """Seconds of the slowest sample, by one thread."""

    def _one(self, key: Any) -> tuple[Frozen, Any]:
        self._loaded += 1
        begin = time.monotonic()
        result = attempt(lambda: self._loads.load(key, 0))
        self._slowest = max(self._slowest, time.monotonic() - begin)
        return result

    def _serially(self) -> set:
        """The reference, and what differs without any other thread; returns the functions that ran."""
        keys = self._loads.keys
        files = reachable.watched_files(reachable.walk(self._loads.dataset))
        with discovering(files) as codes:
            for key in keys:
                self._reference[key] = self._one(key)[0]
        self._changes, arrays = set(self._snapshot.changes()), set(self._snapshot.overwritten())
        # The other way round, and from what the first pass left; then as the first time. An array that is written once,
        # when a first sample is loaded, is a cache; only one that is written again and again is scratch memory.
        before = reachable.Snapshot(reachable.walk(self._loads.dataset))
        self._shared_memory = self._overwritten(list(reversed(keys)))
        self._overwritten_arrays = arrays.intersection(before.overwritten())
        self._snapshot.restore()
        for key in keys:
            if difference(self._one(key)[0], self._reference[key]):
                self._unequal.add(key)
        self._changes &= set(self._snapshot.changes())
        return codes

    def _overwritten(self, keys: list) -> list:
        """Loads *keys*; those whose sample changed when the next one was loaded."""
        found, held = [], None
        for key in keys:
            got, sample = self._one(key)
            if difference(got, self._reference[key]):
                self._unequal.add(key)
            if held is not None and difference(freeze(held[2]), held[1]):
                found.append(held[0])
            held = None if isinstance(got, Raised) else (key, got, sample)
        return found

    def _aliases(self) -> list:
        """Not of iterable-style datasets, of which each worker has a copy, nor where samples overwrite that memory."""
        if self._shared_memory or not isinstance(self._loads, IndexedLoads):
            return []
        self._snapshot.restore()
        return aliases.from_samples(self._loads, self._loads.keys[:OBSERVED], lambda key: self._one(key)[1])

    def _observe_twice(self, codes: set) -> tuple[Observed, Observed, list]:
        keys = self._loads.keys[:OBSERVED]
        seen = []
        for _ in range(2):
            self._snapshot.restore()
            nodes = reachable.walk(self._loads.dataset)
            observer = Observer(_Counting(self._loads, self), codes, nodes)
            seen.append(observer.observe(keys))
            observer.observe_draws(keys)
            nodes = reachable.walk(self._loads.dataset)
        return seen[0], seen[1], nodes

    # -- all threads -----------------------------------------------------------------------------------

    def _burster(self, codes: set) -> Burster:
        # Where threads take turns, each waits for all others.
        patience = max(self._patience, 4 * self._slowest * self._threads)
        return Burster(self._loads, self._reference, self._unequal, self._snapshot, codes, self._threads, patience)

    def _at_once(self, codes: set) -> None:
        self._burst = self._burster(codes)
        deadline = time.monotonic() + self._seconds
        self._say(f"loading in {self._threads} threads at once for {self._seconds:.0f} s")
        number = 0
        while number < len(WAYS) or time.monotonic() < deadline:
            # Each way is tried once, if only for a round, however slow the dataset is.
            self._bursts.append(self._burst.burst(WAYS[number % len(WAYS)], self._seed + number, deadline))
            number += 1
            signs = {odd.sign for burst in self._bursts for odd in burst.odd}
            if number >= len(WAYS) and signs and sum(bool(burst.odd) for burst in self._bursts) >= 5:
                break  # what fails this often needs no more showing

    def _confirmed(self, suspects: list) -> list:
        odds = [odd for burst in self._bursts for odd in burst.odd]
        missing = {odd.sign: odd for odd in odds}
        if not missing:
            return []
        self._say(f"a second look at {len(missing)} kind(s) of failure, in {self._threads} threads")
        again: dict[tuple, list[Odd]] = {}
        deadline = time.monotonic() + self._seconds
        number = 0
        while set(missing) - set(again) and (number < 3 or time.monotonic() < deadline):
            ways = [odd.way for sign, odd in missing.items() if sign not in again]
            burst = self._burst.burst(ways[number % len(ways)], self._seed + 1000 + number, deadline)
            self._again.append(burst)
            for odd in burst.odd:
                again.setdefault(odd.sign, []).append(odd)
            number += 1
        self._snapshot.restore()
        keys = {odd.key for odd in odds} | {odd.key for odds in again.values() for odd in odds}
        # And one thread again: whether it is the threads at all.
        self._unequal |= self._alone(lambda: {key for key in keys if self._differs(key)})
        result = []
        for sign in missing:
            both = [odd for odd in odds if odd.sign == sign], again.get(sign, [])
            real = [odd for odd in both[0] if odd.key not in self._unequal or isinstance(odd.got, Raised)]
            if not real:
                continue  # said of the keys that differ serially
            if both[1]:
                result.append(findings.from_threads(self._loads, real, both[1], self._bursts, self._again, suspects))
            else:
                self._report.unconfirmed.append(
                    f"{self._loads.unit} {real[0].key!r}: {real[0].how} ({real[0].way}), but not in "
                    f"{sum(burst.rounds for burst in self._again)} rounds of the second look"
                )
        return result

    def _look_again_at_hang(self, first: Stuck) -> Any:
        self._say("threads are stuck; a second look")
        time.sleep(min(self._patience, 5.0))  # the second look: the same threads, on the same lines
        threads = [thread for thread in threading.enumerate() if thread.name in first.names]
        second = stuck(threads, self._patience)
        if not second.names or first.stacks != second.stacks:
            raise AuditError(
                f"under threads samples take longer than patience={self._patience:.0f} s, but they do end: allow more"
            )
        return findings.from_hang(self._loads, first, second)


class _Counting:
    """*loads*, with each sample counted as a sign of life."""

    def __init__(self, loads: Loads, owner: _Audit) -> None:
        self.dataset, self.keys, self.unit = loads.dataset, loads.keys, loads.unit
        self._loads, self._owner = loads, owner

    def load(self, key: Any, thread: int) -> Any:
        self._owner._loaded += 1
        return self._loads.load(key, thread)
