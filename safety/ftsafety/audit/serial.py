"""Loading by one thread at a time: the reference samples, and the faults that need no concurrency."""

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ftsafety.audit import kinds, reachable
from ftsafety.audit.comparison import Frozen, Raised, difference, freeze, structure
from ftsafety.audit.monitoring import discovering
from ftsafety.audit.observer import Observed, Observer
from ftsafety.audit.opened_files import OpenedFiles, watching
from ftsafety.audit.places import definition
from ftsafety.audit.report import Finding
from ftsafety.audit.samples import Loads, attempt, outcome, raised, stuck, thread

OBSERVED = 6
"""Number of samples that each thread loads while the dataset's lines are watched."""
_SLOW = 60.0
"""Seconds. A dataset that takes longer to make is not made a second time."""


class AuditError(Exception):
    """The dataset cannot be audited; the message says why."""


class Fresh:
    """Dataset factory: the function `make`, the `first` dataset, and the `seconds` that making the first one took."""

    def __init__(self, make: Callable[[], Any]) -> None:
        begin = time.monotonic()
        self.make, self.first = make, make()
        self.seconds = time.monotonic() - begin


class Serial:
    """Loader of samples in one thread at a time, with the results. Needs no lock: `alone` runs a single thread."""

    def __init__(self, loads: Loads, patience: float, fresh: Fresh | None = None) -> None:
        self.loads, self.patience = loads, patience
        self._fresh, self._dataset = fresh, loads.dataset
        self.only_first = ""
        """The reason why threads cannot load from a newly made dataset; empty if they can."""
        self.decoded_late: list[str] = []
        """Paths of images that the dataset had opened, but that were only decoded when a sample was loaded."""
        self.snapshot = reachable.Snapshot(reachable.walk(loads.dataset))
        self.reference: dict[Any, Frozen] = {}
        self.unequal: set = set()
        """Keys whose sample differs from load to load."""
        self.ignored: set[Raised] = set()
        """Exceptions that Python ignored although only one thread loaded."""
        self.shared_memory: list = []
        """Keys whose sample changes while the next sample is loaded."""
        self.overwritten_arrays: set[str] = set()
        """Paths of arrays whose values change in every pass."""
        self.opened: OpenedFiles
        """Files that `passes` read and wrote."""
        self.slowest = 0.0
        """Seconds that the slowest load of a sample took."""
        self._loaded = 0

    def reset(self) -> bool:
        """Restore the dataset; with a factory, also make a new dataset to load from. Returns False if that fails."""
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

    def undo_reset(self) -> None:
        """Load from the original dataset again, if `reset` made a new one. What `reset` restored stays restored."""
        self.loads.dataset = self._dataset

    @property
    def seconds_to_reset(self) -> float:
        """Expected seconds of `reset`: as many as making the first dataset took; 0 if `reset` makes no dataset."""
        return self._fresh.seconds if self._fresh else 0.0

    def try_fresh(self) -> None:
        """Check that the factory is fast and makes datasets with equal samples; else set `only_first` to the reason."""
        if self._fresh is None:
            self.only_first = (
                "the dataset was given as an object, which was loaded before threads loaded it. Give a function that "
                "makes it instead (data.py:make_dataset)"
            )
        elif self._fresh.seconds > _SLOW:
            self.only_first = f"the dataset is not made again, since that takes {self._fresh.seconds:.0f} s"
        else:
            with contextlib.suppress(AuditError):
                if self.reset():
                    self.only_first = "made again, it hangs"
                    other = self.alone(lambda: {key: how for key in self.loads.keys if (how := self.differs(key))})
                    other = {key: how for key, how in other.items() if key not in self.unequal}
                    key, how = next(iter(other.items()), (None, ""))
                    self.only_first = how and f"made again, it gives other samples ({self.loads.unit} {key!r}: {how})"
        if self.only_first:
            self._fresh = None
        self.undo_reset()

    def alone(self, work: Callable[[], Any], patience: float = 0) -> Any:
        """Call ``work()`` in a new thread; return the result. AuditError if no load starts for *patience* seconds."""
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
        """Load a sample, and count it for the hang detection of `alone`."""
        self._loaded += 1
        return self.loads.load(key, thread)

    def one(self, key: Any) -> tuple[Frozen, Any]:
        """Load a sample; return (copy of the sample, sample), or (copy of the exception, None)."""
        begin = time.monotonic()
        result = attempt(lambda: self.load(key, 0))
        self.slowest = max(self.slowest, time.monotonic() - begin)
        return result

    def passes(self) -> set:
        """Load all samples three times; fill `reference`. Return the dataset's functions that ran in the first pass."""
        with watching() as self.opened:
            return self._passes(self.loads.keys)

    def _passes(self, keys: list) -> set:
        nodes = reachable.walk(self.loads.dataset)
        images = [node for node in nodes if reachable.is_undecoded(node.value)]
        with discovering(reachable.watched_files(nodes)) as codes:
            for key in keys:
                self.reference[key] = self.one(key)[0]
        self.decoded_late = [node.path for node in images if not reachable.is_undecoded(node.value)]
        arrays = set(self.snapshot.overwritten())
        # The second pass is in reverse order and finds the dataset warm; the third is like the first. An array that is
        # written once, for the first sample, is a cache. Only one written for every sample is scratch memory.
        before = reachable.Snapshot(reachable.walk(self.loads.dataset))
        self.shared_memory = self._overwritten(list(reversed(keys)))
        self.overwritten_arrays = arrays.intersection(before.overwritten())
        self.snapshot.restore()
        for key in keys:
            if difference(self.one(key)[0], self.reference[key]):
                self.unequal.add(key)
        return codes

    def _overwritten(self, keys: list) -> list:
        """Load *keys*; return the keys whose sample changed while the next sample was loaded."""
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
        """Load the sample *key* in this thread; return its difference from the reference in words, or None."""
        return difference(self.one(key)[0], self.reference[key])

    def wrong(self, key: Any, got: Frozen) -> str | None:
        """Return in words how *got* differs from the reference of the sample *key*; None if there is no difference.

        Compares only the structure if the sample's values vary from load to load in one thread too.
        """
        reference = self.reference[key]
        if key in self.unequal:
            got, reference = structure(got), structure(reference)
        return difference(got, reference)

    def in_own_thread(self) -> Finding:
        """Load the samples in this thread, which made the dataset; return the finding that no other thread can.

        Called after all loads in another thread have failed. Raises AuditError if a load fails here too.
        """
        first = self.reference[self.loads.keys[0]]
        assert isinstance(first, Raised)
        for _ in range(2):
            if any(isinstance(outcome(self.loads, key, 0), Raised) for key in self.loads.keys):
                raise AuditError(f"no sample can be loaded, not even by one thread:\n{first.traceback}")
        return kinds.make("bound-to-thread", first.line, error=first)

    def other_in_makers_thread(self, keys: list) -> list[Finding]:
        """Return [a finding] if other threads load other samples than this thread, which made the dataset; else []."""
        other = dict.fromkeys(keys, "")
        for _ in range(8 if self.unequal else 2):  # where samples vary, some look alike by chance
            self.snapshot.restore()
            other = {key: how for key in other if (how := self.differs(key))}
            # Load in another thread again: samples may change with time, not with the thread.
            elsewhere = self.alone(lambda: {key for key in other if self.differs(key)})
            other = {key: how for key, how in other.items() if key not in elsewhere}
        where, shown = definition(self.loads.dataset), self.loads.shown(other)
        examples = [f"{self.loads.unit} {key}: {how}" for key, how in other.items()]
        return [kinds.make("other-in-makers-thread", where, keys=shown, how=how) for how in examples[:1]]

    def observe_twice(self, codes: set) -> tuple[Observed, Observed, list]:
        """Observe the functions *codes* twice; return both observations and all objects that the dataset refers to."""
        keys = self.loads.keys[:OBSERVED]
        seen = []
        for _ in range(2):
            self.snapshot.restore()
            nodes = reachable.walk(self.loads.dataset)
            observer = Observer(self.loads.dataset, self.load, codes, nodes)
            seen.append(observer.observe(keys))
            nodes = reachable.walk(self.loads.dataset)
        return seen[0], seen[1], nodes
