"""Loads by one thread at a time: the reference, and everything that is no race."""

import contextlib
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
from ftsafety.audit.samples import IndexedLoads, Loads, attempt, outcome, raised, stuck, thread

OBSERVED = 6
"""Samples that each thread loads while its lines are watched."""
_SLOW = 60.0
"""Seconds above which a dataset is not made again."""


class AuditError(Exception):
    """The dataset cannot be audited; the text says why."""


class Fresh:
    """A function that makes the dataset, the dataset that it made first, and the seconds that this took."""

    def __init__(self, make: Callable[[], Any]) -> None:
        begin = time.monotonic()
        self.make, self.first = make, make()
        self.seconds = time.monotonic() - begin


class Serial:
    """The samples as one thread loads them. Driven by one thread; those of `alone` run one at a time, without locks."""

    def __init__(self, loads: Loads, patience: float, fresh: Fresh | None = None) -> None:
        self.loads, self.patience = loads, patience
        self._fresh, self._dataset = fresh, loads.dataset
        self.only_first = ""
        """Why the dataset cannot be made again, which would show what only the first load does."""
        self.decoded_late: list[str] = []
        """Paths of images that the dataset has opened, and that the first load decodes."""
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

    def cool(self) -> bool:
        """Load from a dataset as it was at first: made again if it can be, else with its attributes restored.

        False if it could be made again before, and cannot now.
        """
        self.snapshot.restore()
        if self._fresh:
            try:
                self.loads.dataset = self.alone(self._fresh.make, max(self.patience, 4 * self._fresh.seconds))
            except AuditError as error:
                self.only_first = f"made again, {error}"
            except Exception as error:
                self.only_first = f"the dataset cannot be made again and again ({raised(error).text})"
            if self.only_first:
                self._fresh = None
                return False
        return True

    def warm(self) -> None:
        """Load from the dataset that was loaded before."""
        self.loads.dataset = self._dataset

    @property
    def seconds_to_cool(self) -> float:
        """Seconds that making the dataset again takes."""
        return self._fresh.seconds if self._fresh else 0.0

    def try_fresh(self) -> None:
        """Load from a dataset made again. If its samples differ, give it up."""
        if self._fresh is None:
            self.only_first = (
                "the dataset was given as an object, which was loaded before threads loaded it. Give a function that "
                "makes it instead (data.py:make_dataset)"
            )
        elif self._fresh.seconds > _SLOW:
            self.only_first = f"the dataset is not made again, since that takes {self._fresh.seconds:.0f} s"
        else:
            with contextlib.suppress(AuditError):
                if self.cool():
                    self.only_first = "made again, it hangs"
                    other = self.alone(lambda: {key: how for key in self.loads.keys if (how := self.differs(key))})
                    other = {key: how for key, how in other.items() if key not in self.unequal}
                    key, how = next(iter(other.items()), (None, ""))
                    self.only_first = how and f"made again, it gives other samples ({self.loads.unit} {key!r}: {how})"
        if self.only_first:
            self._fresh = None
        self.warm()

    def alone(self, work: Callable[[], Any], patience: float = 0) -> Any:
        """Return ``work()``, done in a thread of its own: a dataset that hangs there is no race. Raises AuditError."""
        patience = patience or self.patience
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
            alone.join(patience)
            if alone.is_alive() and loaded == self._loaded:
                everyone = [t for t in threading.enumerate() if t.name.startswith("audit-")]
                hang = stuck(everyone, patience)
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
        nodes = reachable.walk(self.loads.dataset)
        images = [node for node in nodes if reachable.is_undecoded(node.value)]
        with discovering(reachable.watched_files(nodes)) as codes:
            for key in keys:
                self.reference[key] = self.one(key)[0]
        self.decoded_late = [node.path for node in images if not reachable.is_undecoded(node.value)]
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
