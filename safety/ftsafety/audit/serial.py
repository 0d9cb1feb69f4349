"""Loading by one thread at a time: the reference samples,
and the faults that need no concurrency.
"""

import contextlib
import functools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

from ftsafety.audit import kinds
from ftsafety.audit.comparison import Frozen, Raised, difference, freeze, structure
from ftsafety.audit.monitoring import Codes, discovering
from ftsafety.audit.observer import Observations, Observed, Observer
from ftsafety.audit.opened_files import OpenedFiles, recording_files
from ftsafety.audit.places import definition
from ftsafety.audit.reachable import is_undecoded, walk, watched_files
from ftsafety.audit.report import Finding
from ftsafety.audit.samples import Loads, attempt, outcome, raised, stuck, thread
from ftsafety.audit.snapshot import DatasetSnapshot

OBSERVED = 6
"""Number of samples that each thread loads while the dataset's lines are watched."""
_SLOW = 60.0
"""Seconds. A dataset that takes longer to make is not made a second time."""


class AuditError(Exception):
    """The dataset cannot be audited; the message says why."""


class Fresh:
    """Dataset factory: the function `make`, the `first` dataset, and the `seconds` that making the
    first one took.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        begin = time.monotonic()
        self.make = make
        self.first = make()
        self.seconds = time.monotonic() - begin


class _Loaded(NamedTuple):
    """Sample with the copy that was made when it was loaded."""

    key: Any
    copy: Frozen
    sample: Any


class Serial:
    """Loader of samples in one thread at a time, with the results.
    Needs no lock: `alone` runs a single thread.
    """

    def __init__(self, loads: Loads, patience: float, fresh: Fresh | None = None) -> None:
        self.loads = loads
        self.patience = patience
        self._fresh = fresh
        self._dataset = loads.dataset
        self.only_first = ""
        """The reason why threads cannot load from a newly made dataset; empty if they can."""
        self.decoded_late: list[str] = []
        """Paths of images that the dataset had opened,
        but that were only decoded when a sample was loaded.
        """
        self.snapshot = DatasetSnapshot(walk(loads.dataset))
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

    def restore(self) -> None:
        """Give the dataset the attributes and containers that it had at first. Drop all copies."""
        self.snapshot.restore()
        self.loads.begin_again()

    def reset(self) -> bool:
        """Restore the dataset; with a factory, also make a new dataset to load from. Returns False
        if that fails.
        """
        self.restore()
        if self._fresh is None:
            return True
        patience = max(self.patience, 4 * self._fresh.seconds)
        try:
            self.loads.dataset = self.alone(self._fresh.make, patience)
        except AuditError as error:
            self.only_first = f"made again, {error}"
        except Exception as error:
            self.only_first = f"the dataset cannot be made again and again ({raised(error).text})"
        if self.only_first:
            self._fresh = None
            return False
        return True

    def undo_reset(self) -> None:
        """Load from the original dataset again, if `reset` made a new one.
        What `reset` restored stays restored.
        """
        self.loads.dataset = self._dataset
        self.loads.begin_again()

    @property
    def seconds_to_reset(self) -> float:
        """Expected seconds of `reset`: as many as making the first dataset took;
        0 if `reset` makes no dataset.
        """
        return self._fresh.seconds if self._fresh else 0.0

    def try_fresh(self) -> None:
        """Check that the factory is fast and makes datasets with equal samples; else set
        `only_first` to the reason.
        """
        if self._fresh is None:
            self.only_first = (
                "the dataset was given as an object, which was loaded before threads loaded it. "
                "Give a function that makes it instead (data.py:make_dataset)"
            )
        elif self._fresh.seconds > _SLOW:
            self.only_first = (
                f"the dataset is not made again, since that takes {self._fresh.seconds:.0f} s"
            )
        else:
            with contextlib.suppress(AuditError):
                self._compare_fresh()
        if self.only_first:
            self._fresh = None
        self.undo_reset()

    def _compare_fresh(self) -> None:
        """Load all samples from a new dataset; set `only_first` if a repeatable sample differs."""
        if not self.reset():
            return
        self.only_first = "made again, it hangs"  # unless the next line returns
        differences = self.alone(lambda: self._differences(self.loads.keys))
        self.only_first = ""
        for key, text in differences.items():
            if key not in self.unequal:
                sample = f"{self.loads.unit} {key!r}: {text}"
                self.only_first = f"made again, it gives other samples ({sample})"
                return

    def alone(self, work: Callable[[], Any], patience: float = 0) -> Any:
        """Call ``work()`` in a new thread; return the result.
        AuditError if no load starts for *patience* seconds.
        """
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
                raise _hang(patience)
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

    def passes(self) -> Codes:
        """Load all samples three times; fill `reference`. Return the dataset's functions that ran
        in the first pass.
        """
        with recording_files() as self.opened:
            return self._passes(self.loads.keys)

    def _passes(self, keys: list) -> Codes:
        nodes = walk(self.loads.dataset)
        images = [node for node in nodes if is_undecoded(node.value)]
        with discovering(watched_files(nodes)) as codes:
            for key in keys:
                self.reference[key], _ = self.one(key)
        self.decoded_late = [node.path for node in images if not is_undecoded(node.value)]
        arrays = set(self.snapshot.overwritten())
        # The second pass is in reverse order and finds the dataset warm; the third is like the
        # first. An array that is written once, for the first sample, is a cache. Only one written
        # for every sample is scratch memory.
        before = DatasetSnapshot(walk(self.loads.dataset))
        self.shared_memory = self._overwritten(list(reversed(keys)))
        self.overwritten_arrays = arrays.intersection(before.overwritten())
        self.restore()
        for key in keys:
            if self.differs(key):
                self.unequal.add(key)
        return codes

    def _overwritten(self, keys: list) -> list:
        """Load *keys*; return the keys whose sample changed while the next sample was loaded."""
        overwritten = []
        previous: _Loaded | None = None
        for key in keys:
            copy, sample = self.one(key)
            if difference(copy, self.reference[key]):
                self.unequal.add(key)
            if previous is not None and difference(freeze(previous.sample), previous.copy):
                overwritten.append(previous.key)
            previous = None if isinstance(copy, Raised) else _Loaded(key, copy, sample)
        return overwritten

    def differs(self, key: Any) -> str | None:
        """Load the sample *key* in this thread; return its difference
        from the reference in words, or None.
        """
        copy, _ = self.one(key)
        return difference(copy, self.reference[key])

    def _differences(self, keys: list) -> dict[Any, str]:
        """Load *keys* in this thread; return {key: difference
        from the reference in words} of those that differ.
        """
        differences = {}
        for key in keys:
            if text := self.differs(key):
                differences[key] = text
        return differences

    def wrong(self, key: Any, copy: Frozen) -> str | None:
        """Return in words how *copy* differs from the reference of the sample *key*; None if there
        is no difference.

        Compares only the structure if the sample's values vary from load to load in one thread too.
        """
        reference = self.reference[key]
        if key in self.unequal:
            return difference(structure(copy), structure(reference))
        return difference(copy, reference)

    def in_own_thread(self) -> Finding:
        """Load the samples in this thread, which made the dataset;
        return the finding that no other thread can.

        Called after all loads in another thread have failed.
        Raises AuditError if a load fails here too.
        """
        first_key = self.loads.keys[0]
        first = self.reference[first_key]
        assert isinstance(first, Raised)
        for _ in range(2):
            for key in self.loads.keys:
                if isinstance(outcome(self.loads, key, 0), Raised):
                    text = f"no sample can be loaded, not even by one thread:\n{first.traceback}"
                    raise AuditError(text)
        return kinds.make("bound-to-thread", first.line, error=first)

    def other_in_makers_thread(self, keys: list) -> list[Finding]:
        """Return [a finding] if other threads load other samples than this thread, which made the
        dataset; else [].
        """
        suspects = list(dict.fromkeys(keys))
        differences: dict[Any, str] = {}
        repeats = 8 if self.unequal else 2  # where samples vary, some look alike by chance
        for _ in range(repeats):
            self.restore()
            differences = self._differences(suspects)
            # Load in another thread again: samples may change with time, not with the thread.
            suspects = list(differences)
            for key in self.alone(functools.partial(self._differences, suspects)):
                del differences[key]
            suspects = list(differences)
        if not differences:
            return []
        key, text = next(iter(differences.items()))
        where = definition(self.loads.dataset)
        keys_in_words = self.loads.shown(differences)
        example = f"{self.loads.unit} {key}: {text}"
        return [kinds.make("other-in-makers-thread", where, keys=keys_in_words, how=example)]

    def observe_twice(self, codes: Codes) -> Observations:
        """Observe the functions *codes* twice; return both observations and all objects that the
        dataset refers to.
        """
        first = self._observe(codes)
        second = self._observe(codes)
        nodes = walk(self.loads.dataset)
        return Observations(first, second, nodes)

    def _observe(self, codes: Codes) -> Observed:
        self.restore()
        dataset = self.loads.dataset
        observer = Observer(dataset, self.load, codes, walk(dataset))
        return observer.observe(self.loads.keys[:OBSERVED])


def _hang(patience: float) -> AuditError:
    """Return the error for the threads of the audit, which hang; with their stacks."""
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("audit-")]
    stacks = stuck(threads, patience).stacks
    return AuditError(f"the dataset hangs with one thread at a time, so it is no race:\n{stacks}")
