"""Loads by one thread at a time: the reference, and everything that is no race."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ftsafety.audit import aliases, kinds, reachable
from ftsafety.audit.comparison import Frozen, Raised, difference, freeze
from ftsafety.audit.monitoring import discovering
from ftsafety.audit.observer import Observed, Observer
from ftsafety.audit.report import Finding
from ftsafety.audit.samples import IndexedLoads, Loads, attempt, outcome, stuck, thread

OBSERVED = 6
"""Samples that each thread loads while its lines are watched."""


class AuditError(Exception):
    """The dataset cannot be audited; the text says why."""


class Serial:
    """The samples as one thread loads them. Driven by one thread; those of `alone` run one at a time, without locks."""

    def __init__(self, loads: Loads, patience: float) -> None:
        self.loads, self.patience = loads, patience
        self.snapshot = reachable.Snapshot(reachable.walk(loads.dataset))
        self.reference: dict[Any, Frozen] = {}
        self.unequal: set = set()
        """Keys whose sample differs from call to call."""
        self.shared_memory: list = []
        """Keys whose sample is overwritten by the next one."""
        self.changes: set[tuple[str, str]] = set()
        """Attributes that change in every pass, as (path, change)."""
        self.overwritten_arrays: set[str] = set()
        """Paths of arrays that hold other values after every pass."""
        self.slowest = 0.0
        """Seconds of the slowest sample."""
        self._loaded = 0

    def alone(self, work: Callable[[], Any]) -> Any:
        """Return ``work()``, done in a thread of its own: a dataset that hangs there is no race. Raises AuditError."""
        result: Future = Future()

        def run() -> None:
            try:
                result.set_result(work())
            except BaseException as error:
                result.set_exception(error)

        alone = thread("audit-alone", run)
        alone.start()
        # Each sample gets a time limit of its own.
        loaded = -1
        while alone.is_alive():
            alone.join(self.patience)
            if alone.is_alive() and loaded == self._loaded:
                everyone = [t for t in threading.enumerate() if t.name.startswith("audit-")]
                hang = stuck(everyone, self.patience)
                raise AuditError(f"the dataset hangs with one thread at a time, so it is no race:\n{hang.stacks}")
            loaded = self._loaded
        return result.result()

    def load(self, key: Any, thread: int) -> Any:
        """Load a sample, and count it as a sign of life."""
        self._loaded += 1
        return self.loads.load(key, thread)

    def one(self, key: Any) -> tuple[Frozen, Any]:
        """Load a sample; return (its copy or its exception, the sample)."""
        begin = time.monotonic()
        result = attempt(lambda: self.load(key, 0))
        self.slowest = max(self.slowest, time.monotonic() - begin)
        return result

    def passes(self) -> set:
        """Load all samples three times, the first for the reference; return the functions that ran."""
        keys = self.loads.keys
        files = reachable.watched_files(reachable.walk(self.loads.dataset))
        with discovering(files) as codes:
            for key in keys:
                self.reference[key] = self.one(key)[0]
        self.changes, arrays = set(self.snapshot.changes()), set(self.snapshot.overwritten())
        # The second pass is in reverse order and finds the dataset warm; the third is like the first. An array that is
        # written once, for the first sample, is a cache. Only one written for every sample is scratch memory.
        before = reachable.Snapshot(reachable.walk(self.loads.dataset))
        self.shared_memory = self._overwritten(list(reversed(keys)))
        self.overwritten_arrays = arrays.intersection(before.overwritten())
        self.snapshot.restore()
        for key in keys:
            if difference(self.one(key)[0], self.reference[key]):
                self.unequal.add(key)
        self.changes &= set(self.snapshot.changes())
        return codes

    def _overwritten(self, keys: list) -> list:
        """Load *keys*; return those whose sample changed when the next one was loaded."""
        found, held = [], None
        for key in keys:
            got, sample = self.one(key)
            if difference(got, self.reference[key]):
                self.unequal.add(key)
            if held is not None and difference(freeze(held[2]), held[1]):
                found.append(held[0])
            held = None if isinstance(got, Raised) else (key, got, sample)
        return found

    def differs(self, key: Any) -> str | None:
        """Return how the sample *key* that this thread gets differs from the reference; None if it does not."""
        return difference(self.one(key)[0], self.reference[key])

    def in_own_thread(self) -> Finding:
        """Load the samples, which no other thread can load, in this one, which made the dataset; return the finding."""
        first = self.reference[self.loads.keys[0]]
        assert isinstance(first, Raised)
        for _ in range(2):
            if any(isinstance(outcome(self.loads, key, 0), Raised) for key in self.loads.keys):
                raise AuditError(f"no sample can be loaded, not even by one thread:\n{first.traceback}")
        return kinds.make("bound-to-thread", first.line, error=first)

    def other_in_makers_thread(self, keys: list) -> dict[Any, str]:
        """Return how samples differ in the thread that made the dataset, from which workers are forked."""
        other = dict.fromkeys(keys, "")
        for _ in range(2):
            self.snapshot.restore()
            other = {key: how for key in other if (how := self.differs(key))}
            # Another thread again: it may be time that makes the difference.
            elsewhere = self.alone(lambda: {key for key in other if self.differs(key)})
            other = {key: how for key, how in other.items() if key not in elsewhere}
        return other

    def aliases(self) -> list[Finding]:
        """Return findings of samples that share memory with the dataset."""
        # Each worker has a copy of an iterable-style dataset. Overwritten samples are reported already.
        if self.shared_memory or not isinstance(self.loads, IndexedLoads):
            return []
        self.snapshot.restore()
        return aliases.from_samples(self.loads, self.loads.keys[:OBSERVED], lambda key: self.one(key)[1])

    def observe_twice(self, codes: set) -> tuple[Observed, Observed, list]:
        """Observe what the functions *codes* do, twice; return both and what the dataset refers to then."""
        keys = self.loads.keys[:OBSERVED]
        seen = []
        for _ in range(2):
            self.snapshot.restore()
            nodes = reachable.walk(self.loads.dataset)
            observer = Observer(self.loads.dataset, self.load, codes, nodes)
            seen.append(observer.observe(keys))
            observer.observe_draws(keys)
            nodes = reachable.walk(self.loads.dataset)
        return seen[0], seen[1], nodes
