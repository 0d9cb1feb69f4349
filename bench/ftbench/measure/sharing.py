"""Measures what threads gain if each has a copy of a part of the dataset (``--why``).

Without the GIL, threads that change the reference counts of the same objects wait for each other.
N threads load the same samples in several *ways*: they share the dataset; each has a copy of the
dataset object alone, with the attributes of the original; of the object and one attribute; of
everything but one attribute; of everything. Attributes may share objects, such as the words of a
list and of a dictionary: then a copy of one of them cures nothing, but sharing either still does
harm.

All ways take turns in one process, in another order in each round. What threads share in a turn was
copied from the dataset for this turn, too: it differs from their own copies in nothing else, such
as the place in memory. Time in which a thread could run and had no CPU does not count, unless there
are more threads than CPUs: other programs had it.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ftbench.measure.parts import parts_of
from ftbench.measure.waits import Waits
from ftbench.plan.scenario import TrialError

if TYPE_CHECKING:
    from ftloader.workers.copies import Copier, UserObjects

ALONE, SHARED, OBJECT, ALL = "one thread", "shared", "the object", "everything"
"""Names of the ways that are not an attribute's."""
COPIED, KEPT = "copied: ", "shared: "
"""Beginnings of the names of the ways with a copy of one attribute, and of all others but one."""
TURN_SECONDS = 0.1
BATCH_SIZE = 16
MOST_PARTS = 8
"""Attributes that are measured. Of more, a first look chooses those that it costs most to share."""
MOST_LOOKED_AT = 40
"""Attributes of the first look, those with the fewest names."""
LOOKS = 2
"""Turns of each attribute in the first look. They do not count."""
FEWEST_ROUNDS = 6
"""Rounds that are measured even if they take longer than the time for all."""
WATCHED_TURNS = 8
"""Further turns, in which the threads are watched. They do not count, since that disturbs."""
WATCH_SECONDS = 0.002


def load(dataset: Any, collate: Callable, indices: range) -> None:
    """Load the samples *indices*, modulo the dataset's length, in batches."""
    length = len(dataset)
    for first in indices[::BATCH_SIZE]:
        batch = range(first, min(first + BATCH_SIZE, indices.stop))
        collate([dataset[index % length] for index in batch])


def seconds_without_cpu() -> float:
    """Return for how long this thread has waited for a CPU; 0 if the kernel does not say
    (Documentation/scheduler/sched-stats.rst).
    """
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


class Sharing:
    """Threads that load a dataset in several ways, by turns. Used by one thread, which has to close
    it. Raises TrialError if the copies of all threads do not fit into memory.
    """

    def __init__(self, dataset: Any, collate: Callable, threads: int) -> None:
        from ftloader.workers.copies import UserObjects

        self._threads = threads
        self._crowded = threads > (os.process_cpu_count() or 1)
        self._original = UserObjects(dataset, collate, None)
        self.lacking: dict[str, str] = {}
        """{attribute: the reason why it has no copy, so that threads share it in all ways}"""
        self._uncopied: list[Any] = []
        """The objects of `lacking`."""
        self._copier = self._copier_of_original()
        self.kinds = self._kinds()
        """{attribute: the name of its class}, of the attributes that have copies."""
        self.samples = self._samples_of_turn()
        """Samples of each thread in a turn."""
        self._first = 0
        self._loading: dict[int, None] = {}
        """The threads that load, as for Waits.look."""
        self._pool = ThreadPoolExecutor(threads)
        # Start all threads now: later, the pool may take one that is just becoming idle for free.
        start = threading.Barrier(threads)
        wait([self._pool.submit(start.wait) for _ in range(threads)])

    def close(self) -> None:
        self._pool.shutdown()

    def advance(self) -> None:
        """Let further turns load the samples that follow."""
        self._first += self.samples * self._threads

    def rate(self, way: str, waits: Waits | None = None) -> float:
        """Return the samples/s of a turn; raises what the dataset raises. Watch the threads if
        *waits* is given.
        """
        threads = 1 if way == ALONE else self._threads
        start = threading.Barrier(threads)
        source = self._source(way)
        futures = []
        for number in range(threads):
            first = self._first + number * self.samples
            indices = range(first, first + self.samples)
            futures.append(self._pool.submit(self._load, source, indices, start))
        while waits and wait(futures, WATCH_SECONDS).not_done:
            waits.look([*self._loading])
        return sum(self.samples / seconds for seconds in _results(futures))

    def ways(self, parts: Iterable[str]) -> list[str]:
        """Return the names of the ways in which the *parts* are measured."""
        if self._copier is None:
            return [ALONE, SHARED]
        ways = [ALONE, SHARED, OBJECT, ALL]
        for part in parts:
            ways += [COPIED + part, KEPT + part]
        return ways

    def _load(
        self, source: UserObjects | Copier, indices: range, start: threading.Barrier
    ) -> float:
        """Load in this thread, which makes its own objects, so that they belong to it; return the
        seconds.
        """
        from ftloader.workers.copies import Copier

        try:
            objects = source.copy() if isinstance(source, Copier) else source
            load(objects.dataset, objects.collate_fn, indices[: max(1, self.samples // 8)])
            start.wait()
        except BaseException:
            start.abort()  # the other threads must not wait for this one
            raise
        ident = threading.get_ident()
        self._loading[ident] = None
        try:
            return self._seconds(objects, indices)
        finally:
            del self._loading[ident]

    def _seconds(self, objects: UserObjects, indices: range) -> float:
        began, without_cpu = time.perf_counter(), seconds_without_cpu()
        load(objects.dataset, objects.collate_fn, indices)
        seconds = time.perf_counter() - began
        if self._crowded:
            return seconds
        return max(1e-9, seconds - (seconds_without_cpu() - without_cpu))

    def _source(self, way: str) -> UserObjects | Copier:
        """Return what the threads of a turn load from."""
        if self._copier is None:
            return self._original
        objects = self._copier.copy()
        if way in (ALONE, SHARED):
            return objects
        return _copier(objects, self._threads, [*self._shared(objects, way), *self._uncopied])

    def _shared(self, objects: UserObjects, way: str) -> list[Any]:
        """Return the attributes of *objects* that threads share, though they have copies."""
        parts = self._parts(objects)
        if way == OBJECT:
            return [*parts.values()]
        # A part of the first copy may be none of this one: an integer that is small now.
        if way.startswith(KEPT):
            name = way.removeprefix(KEPT)
            return [parts[name]] if name in parts else []
        if way.startswith(COPIED):
            part = parts.get(way.removeprefix(COPIED))
            return [value for value in parts.values() if value is not part]
        return []

    def _parts(self, objects: UserObjects) -> dict[str, Any]:
        parts = parts_of(objects.dataset, objects.collate_fn)
        return {name: value for name, value in parts.items() if name not in self.lacking}

    def _kinds(self) -> dict[str, str]:
        if self._copier is None:
            return {}
        # Those of a copy: what a __getstate__ leaves out is not among them.
        parts = self._parts(self._copier.copy())
        return {name: type(value).__name__ for name, value in parts.items()}

    def _copier_of_original(self) -> Copier | None:
        """Return a maker of copies of all that has a copy, or None; fill `lacking`."""
        original, count = self._original, self._threads + 1
        with contextlib.suppress(TypeError):
            return _tried(_copier(original, count, []))
        for name, value in parts_of(original.dataset, original.collate_fn).items():
            try:
                _tried(_copier(original._replace(dataset=value, collate_fn=list), count, []))
            except TypeError as error:
                self.lacking[name] = _reason(error)
                self._uncopied.append(value)
        try:
            return _tried(_copier(original, count, self._uncopied))
        except TypeError as error:
            self.lacking = {ALL: _reason(error)}
            return None

    def _samples_of_turn(self) -> int:
        """Return the number of samples that one thread loads in TURN_SECONDS, at least 1."""
        # A copy: a dataset that has opened its files may have no copies any more.
        objects = self._copier.copy() if self._copier else self._original
        samples, seconds = 1, 0.0
        while seconds < TURN_SECONDS / 8:
            samples *= 2
            seconds = self._seconds(objects, range(samples))
        return max(1, round(samples * TURN_SECONDS / seconds))


def _copier(objects: UserObjects, count: int, shared: Sequence[Any]) -> Copier:
    from ftloader.compat.torch_private import DatasetKind
    from ftloader.workers.copies import Copier

    try:
        return Copier(objects, DatasetKind.Map, count, shared)
    except MemoryError as error:
        raise TrialError(str(error)) from error


def _tried(copier: Copier) -> Copier:
    """Return *copier* if it can make a copy; raises TypeError."""
    copier.copy()
    return copier


def _reason(error: TypeError) -> str:
    """Return the error of the object that has no copy, on one line."""
    cause = error.__cause__ or error
    return f"{type(cause).__name__}: {cause}".partition("\n")[0]


def _results(futures: list[Future[float]]) -> list[float]:
    """Wait for the seconds of all threads; raise the error that a thread met first."""
    errors = [error for future in futures if (error := future.exception())]
    # Those that waited for the thread that failed have an error, too.
    errors.sort(key=lambda error: isinstance(error, threading.BrokenBarrierError))
    if errors:
        raise errors[0]
    return [future.result() for future in futures]


def measure(sharing: Sharing, rounds: int, seconds: float) -> Generator[None, None, dict]:
    """Measure in *rounds*, fewer if they take longer than *seconds*. Each of their turns is a turn
    of the trial.

    Return the samples/s of each way in each round ("rates"), the classes of the parts ("kinds"),
    those without copies ("lacking"), those that were not measured ("unmeasured"), and the samples
    of each line, of one thread and of all ("waits").
    """
    draw = random.Random(0)
    parts = yield from _chosen(sharing)
    ways = sharing.ways(parts)
    rates: dict[str, list[float]] = {way: [] for way in ways}
    end = time.monotonic() + seconds
    for number in range(rounds):
        if number >= FEWEST_ROUNDS and time.monotonic() > end:
            break
        sharing.advance()
        for way in draw.sample(ways, len(ways)):
            yield
            rates[way].append(sharing.rate(way))
    waits = {}
    for way in (ALONE, ALL if ALL in ways else SHARED):
        waits[way] = yield from _watched(sharing, way)
    return {
        "rates": rates,
        "kinds": sharing.kinds,
        "lacking": sharing.lacking,
        "unmeasured": [part for part in sharing.kinds if part not in parts],
        "waits": waits,
    }


def _chosen(sharing: Sharing) -> Generator[None, None, list[str]]:
    """Return the parts to measure: all, or those that it costs most to share in a first look."""
    parts = [*sharing.kinds]
    if len(parts) <= MOST_PARTS:
        return parts
    speeds = dict.fromkeys(parts[:MOST_LOOKED_AT], 0.0)
    for _ in range(LOOKS):
        for part in speeds:
            yield
            speeds[part] += sharing.rate(KEPT + part)
    return sorted(speeds, key=speeds.__getitem__)[:MOST_PARTS]


def _watched(sharing: Sharing, way: str) -> Generator[None, None, dict[str, int]]:
    waits = Waits()
    for _ in range(WATCHED_TURNS):
        yield
        sharing.rate(way, waits)
    return waits.counts()
