"""Measures what threads gain if each has a copy of a part of the dataset (``--why``).

Without the GIL, threads that change the reference counts of the same objects wait for each other.
N threads load the same samples in several *ways*: they share the dataset; each has a copy of the
object alone, with the attributes of the original; of the object and one attribute; of everything
but one attribute; of everything. Attributes may share objects, such as the words of a list and of a
dictionary: then a copy of one of them cures nothing, but sharing either still does harm.
All ways take turns in one process, in another order in each round.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any

ALONE, SHARED, OBJECT, ALL = "one thread", "shared", "the object", "everything"
"""Names of the ways that are not an attribute's."""
COPIED, KEPT = "copied: ", "shared: "
"""Beginnings of the names of the ways with a copy of one attribute, and of all others but one."""
TURN_SECONDS = 0.1
BATCH_SIZE = 16
# Attributes that are copied one at a time; of more, those that have the longest pickles.
MOST_PARTS = 8
# Datasets that a dataset wraps (Subset, a transform's wrapper) have attributes of their own.
DEPTH = 3
Path = tuple[str, ...]
"""Attributes that lead from the dataset to a part of it: ("dataset", "vocabulary")."""


def parts_of(dataset: Any) -> list[Path]:
    """Return the paths of the attributes that threads may wait for each other at."""
    from torch.utils.data import Dataset

    from ftloader.diagnosis.lookups import attributes_of, is_a

    parts: list[Path] = []
    wrapped: list[tuple[Path, Any]] = [((), dataset)]
    while wrapped:
        path, value = wrapped.pop()
        for name, attribute in attributes_of(value).items():
            if is_a(attribute, Dataset) and len(path) < DEPTH:
                wrapped.append(((*path, name), attribute))
            elif not _is_immortal(attribute):
                parts.append((*path, name))
    return parts


def _is_immortal(value: Any) -> bool:
    """True if the interpreter does not count references to *value*: None, a bool, a small integer,
    a function, class or module.
    """
    if value is None or isinstance(value, bool | type) or callable(value) and _is_function(value):
        return True
    return isinstance(value, int) and -5 <= value <= 256 or type(value).__name__ == "module"


def _is_function(value: Any) -> bool:
    return type(value).__name__ in ("function", "builtin_function_or_method")


def copied(value: Any) -> Any:
    """Return a copy of *value*, made as for ``DataLoader(copy_dataset=True)``; raises TypeError."""
    from ftloader.compat.torch_private import DatasetKind
    from ftloader.workers.copies import Copier, UserObjects

    return Copier(UserObjects(value, list, None), DatasetKind.Map, 1).copy().dataset


def with_part(value: Any, path: Path) -> Any:
    """Return a new object like *value*, with its attributes, and a copy of the one at *path*."""
    if not path:
        return _like(value)
    name, *rest = path
    attribute = value.__dict__[name]
    return _like(value, **{name: with_part(attribute, tuple(rest)) if rest else copied(attribute)})


def without_part(value: Any, path: Path) -> Any:
    """Return a copy of *value* that shares the attribute at *path* with it."""
    name, *rest = path
    attribute = value.__dict__[name]
    new = copied(_like(value, **{name: None}))
    new.__dict__[name] = without_part(attribute, tuple(rest)) if rest else attribute
    return new


def _like(value: Any, **attributes: Any) -> Any:
    new = object.__new__(type(value))
    new.__dict__.update(value.__dict__, **attributes)
    return new


@dataclass(frozen=True)
class Way:
    """One way to load: what each thread has for itself."""

    name: str
    make: Callable[[], tuple[Any, Callable]]
    """Function that returns the dataset and the collate_fn of the thread that calls it."""
    threads: int


def ways(dataset: Any, collate: Callable, threads: int) -> tuple[list[Way], dict[str, str]]:
    """Return the ways to load with *threads* threads, and {part: reason} of what has no copy."""
    chosen = [
        Way(ALONE, lambda: (dataset, collate), 1),
        Way(SHARED, lambda: (dataset, collate), threads),
    ]
    lacking: dict[str, str] = {}

    def add(part: str, *pairs: tuple[str, Callable[[], tuple[Any, Callable]]]) -> bool:
        try:
            for _, make in pairs:
                make()
        except Exception as error:  # a user's class may raise anything
            lacking[part] = str(error)
            return False
        for name, make in pairs:
            chosen.append(Way(name, make, threads))
        return True

    whole = add(ALL, (ALL, lambda: copied((dataset, collate))))
    if whole and add(OBJECT, (OBJECT, lambda: (with_part(dataset, ()), collate))):
        for path in _longest(dataset, parts_of(dataset)):
            name = ".".join(path)
            add(
                name,
                (COPIED + name, partial(_with_part, dataset, collate, path)),
                (KEPT + name, partial(_without_part, dataset, collate, path)),
            )
    return chosen, lacking


def _with_part(dataset: Any, collate: Callable, path: Path) -> tuple[Any, Callable]:
    return with_part(dataset, path), collate


def _without_part(dataset: Any, collate: Callable, path: Path) -> tuple[Any, Callable]:
    return without_part(dataset, path), copied(collate)


def _longest(dataset: Any, parts: list[Path]) -> list[Path]:
    if len(parts) <= MOST_PARTS:
        return parts
    return sorted(parts, key=lambda path: _size(dataset, path), reverse=True)[:MOST_PARTS]


def _size(dataset: Any, path: Path) -> int:
    from ftloader.compat.torch_private import DatasetKind
    from ftloader.workers.copies import Copier, UserObjects

    value = dataset
    for name in path:
        value = value.__dict__[name]
    with contextlib.suppress(Exception):
        return Copier(UserObjects(value, list, None), DatasetKind.Map, 1).nbytes
    return sys.maxsize  # to be tried, and named


@dataclass
class Turn:
    """What one thread did in a turn."""

    began: float
    ended: float
    cpu: float


@dataclass
class _Thread:
    """Thread that loads in all ways. Its objects are its own: it has made them."""

    number: int
    ways: list[Way]
    turn: threading.Lock
    """Held by the thread that makes its objects."""
    tasks: SimpleQueue = field(default_factory=SimpleQueue)
    results: SimpleQueue = field(default_factory=SimpleQueue)

    def run(self) -> None:
        with self.turn:
            objects = {way.name: way.make() for way in self.ways}
        self.results.put(None)
        while (task := self.tasks.get()) is not None:
            name, indices, start = task
            try:
                dataset, collate = objects[name]
                start.wait()
                self.results.put(load(dataset, collate, indices))
            except BaseException as error:
                self.results.put(error)


def load(dataset: Any, collate: Callable, indices: range) -> Turn:
    """Load the samples *indices*, modulo the dataset's length, in batches."""
    length = len(dataset)
    began, cpu = time.perf_counter(), time.thread_time()
    for first in indices[::BATCH_SIZE]:
        batch = range(first, min(first + BATCH_SIZE, indices.stop))
        collate([dataset[index % length] for index in batch])
    return Turn(began, time.perf_counter(), time.thread_time() - cpu)


class Sharing:
    """Threads that load a dataset in several ways, by turns. Used by one thread."""

    def __init__(self, dataset: Any, collate: Callable, threads: int) -> None:
        self.ways, self.lacking = ways(dataset, collate, threads)
        turn = threading.Lock()
        self._threads = [_Thread(number, self.ways, turn) for number in range(threads)]
        running = [threading.Thread(target=thread.run, daemon=True) for thread in self._threads]
        for runner in running:
            runner.start()
        for thread in self._threads:
            thread.results.get()
        self._running = running
        sample = load(dataset, collate, range(BATCH_SIZE))
        sample = load(dataset, collate, range(BATCH_SIZE))
        seconds = max(1e-7, sample.ended - sample.began) / BATCH_SIZE
        self.samples = max(BATCH_SIZE, round(TURN_SECONDS / seconds))
        """Samples of each thread in a turn."""
        self._random = random.Random(0)
        self._next = 0

    def close(self) -> None:
        for thread in self._threads:
            thread.tasks.put(None)
        for running in self._running:
            running.join()

    def round(self) -> Iterator[tuple[str, float, float]]:
        """Yield (way, samples/s, share of the time on a CPU) for each way, in a new order."""
        first, self._next = self._next, self._next + self.samples * len(self._threads)
        for way in self._random.sample(self.ways, len(self.ways)):
            yield way.name, *self._turn(way, first)

    def _turn(self, way: Way, first: int) -> tuple[float, float]:
        threads = self._threads[: way.threads]
        start = threading.Barrier(len(threads))
        for thread in threads:
            begin = first + thread.number * self.samples
            thread.tasks.put((way.name, range(begin, begin + self.samples), start))
        turns = []
        for thread in threads:
            result = thread.results.get()
            if isinstance(result, BaseException):
                raise result
            turns.append(result)
        seconds = max(turn.ended for turn in turns) - min(turn.began for turn in turns)
        busy = sum(turn.cpu for turn in turns) / sum(turn.ended - turn.began for turn in turns)
        return self.samples * len(threads) / seconds, busy


def usual_threads() -> int:
    """Return the number of threads to compare: as many as CPUs, from 2 to 8."""
    return min(8, max(2, os.process_cpu_count() or 2))


def measure(sharing: Sharing, rounds: int) -> Generator[None, None, dict]:
    """Measure this number of *rounds*, each of which is a turn of the trial; return the rates and
    shares of CPU time of each way in each round.
    """
    rates: dict[str, list[float]] = {way.name: [] for way in sharing.ways}
    busy: dict[str, list[float]] = {way.name: [] for way in sharing.ways}
    for _ in range(rounds):
        yield
        for name, rate, share in sharing.round():
            rates[name].append(rate)
            busy[name].append(share)
    return {"rates": rates, "busy": busy, "lacking": sharing.lacking}
