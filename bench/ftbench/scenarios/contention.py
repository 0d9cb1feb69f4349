"""Why threads can lose: what the free-threaded interpreter's workers share, operation by operation.

One small operation, over and over, by one worker and by many. Each touches the interpreter in one way. Worker
processes have their own copies of everything and so nothing to wait for but the machine itself (memory, caches,
turbo): what threads lose against them is contention. PEP 703 says how the free-threaded build counts references (an
object's own thread without, other threads with atomic instructions, which need the cache line for themselves) and
reads dicts without a lock; immortal objects (PEP 683: small integers, None, modules' constants) are not counted.

To see one kind by hand, run its loop (ftbench.scenarios.contention.KINDS) in one thread and in many.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from ftbench.plan.contest import CASE, COUNT, IMPORTANCE, Comparison, Contest, Entry
from ftbench.plan.contestants import worker_counts
from ftbench.plan.scenario import Amount, Case, Scenario, Task
from ftrun.parent_death import die_with_parent

# Measured in turns, one worker and all workers, so that both see the same machine.
REPETITIONS = 5
# A worker that waits so long for the others has lost them.
GONE_SECONDS = 120.0
# Operations in one turn of a loop, so that the loop itself is little of what is timed.
UNROLLED = 10


@dataclass(frozen=True)
class Kind:
    """One operation and what its workers have in common."""

    title: str
    make: Callable[[], Any]
    """Makes what the operation is done to: once for all threads, which share it; processes make their own."""
    loop: Callable[[Any, int], None]
    """Does `operations` operations (a multiple of UNROLLED) on it."""
    weight: int = 1
    """How many operations of the lightest kind one of these stands for: heavy ones are done less often."""
    private: bool = False
    """Whether threads make their own too and share nothing, for comparison."""


class Holder:
    """An object with attributes: what configuration objects and `self` are to workers."""

    def __init__(self) -> None:
        self.value = 1
        self.lock = threading.Lock()
        self.count = 0


def _unrolled(statement: str, first: str = "pass") -> Callable[[Any, int], None]:
    """A loop over a statement about `shared`, as timeit makes one: UNROLLED times in a row."""
    lines = [
        "def loop(shared, operations):",
        f"    {first}",
        f"    for _ in range(operations // {UNROLLED}):",
        *[f"        {statement}"] * UNROLLED,
    ]
    found: dict[str, Any] = {}
    exec("\n".join(lines), found)
    return found["loop"]


_dict = _unrolled("_ = shared[key]", 'key = "key500"')
_attribute = _unrolled("_ = shared.value")
_reference = _unrolled("_ = shared")
_allocate = _unrolled("bytearray(64)")


def _lock(holder: Holder, operations: int) -> None:
    lock = holder.lock
    for _ in range(operations):
        with lock:
            holder.count += 1


PAGES_BYTES = 1 << 20


def _pages(_nothing: None, operations: int) -> None:
    import mmap

    content = bytes(PAGES_BYTES)
    for _ in range(operations):
        with mmap.mmap(-1, PAGES_BYTES) as memory:
            memory.write(content)


def _table() -> dict:
    # The values are small integers, which are immortal: what is read is the dict alone.
    return {f"key{number}": number % 100 for number in range(1000)}


def _table_of_one() -> dict:
    # All values are one object, which every read counts a reference to.
    one = object()
    return {f"key{number}": one for number in range(1000)}


KINDS: dict[str, Kind] = {
    "private": Kind("reads of a dict of its own", _table, _dict, private=True),
    "dict": Kind("reads of one shared dict, immortal values", _table, _dict),
    "dict-object": Kind("reads of one shared dict whose values are one object", _table_of_one, _dict),
    "attribute": Kind("attribute look-ups on one shared object", Holder, _attribute),
    "reference": Kind("references to one shared object, made and dropped", object, _reference),
    "lock": Kind("one shared lock, taken, a count raised, let go", Holder, _lock, weight=5),
    "allocation": Kind("64 bytes allocated and freed", lambda: None, _allocate, weight=2),
    "pages": Kind("1 MiB mapped, filled and unmapped", lambda: None, _pages, weight=5000),
}


class Threads:
    """Worker threads, and what each run of them took. Used by one thread."""

    def __init__(self, kind: Kind, workers: int):
        self._kind, self.workers = kind, workers
        self._shared = None if kind.private else kind.make()

    def run(self, operations: int) -> list[tuple[float, float]]:
        """(begin, end) of each worker, perf_counter seconds, all starting together."""
        start = threading.Barrier(self.workers)
        # Each thread writes its own place, and they are read after join().
        spans: list[Any] = [None] * self.workers

        def work(place: int) -> None:
            try:
                state = self._kind.make() if self._kind.private else self._shared
                spans[place] = _timed(self._kind, state, operations, start)
            except BaseException as error:
                spans[place] = error
                start.abort()

        threads = [threading.Thread(target=work, args=(place,)) for place in range(self.workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for span in spans:
            if isinstance(span, BaseException):
                raise span
        return spans

    def close(self) -> None:
        """The threads have ended with their run."""


class Processes:
    """Worker processes that wait for runs. Used by one thread; forked while no other thread runs."""

    def __init__(self, kind: Kind, workers: int):
        context = multiprocessing.get_context("fork")
        self.workers = workers
        start = context.Barrier(workers)
        self._workers = []
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(kind, start, theirs))
            process.start()
            theirs.close()
            self._workers.append((process, ours))

    def run(self, operations: int) -> list[tuple[float, float]]:
        """As Threads.run; perf_counter is one clock for all processes of a machine (CLOCK_MONOTONIC)."""
        for _, connection in self._workers:
            connection.send(operations)
        spans = []
        for process, connection in self._workers:
            if not connection.poll(GONE_SECONDS):
                raise RuntimeError(f"worker process {process.pid} does not answer")
            spans.append(connection.recv())
        return spans

    def close(self) -> None:
        """End the processes, wherever they are: they own nothing that others would miss."""
        for process, connection in self._workers:
            process.terminate()
            process.join()
            connection.close()


def _serve(kind: Kind, start: Any, connection: Any) -> None:
    """A worker process: runs until it is ended."""
    die_with_parent()
    state = kind.make()
    while True:
        connection.send(_timed(kind, state, connection.recv(), start))


def _timed(kind: Kind, state: Any, operations: int, start: Any) -> tuple[float, float]:
    start.wait(GONE_SECONDS)
    begin = time.perf_counter()
    kind.loop(state, operations)
    return begin, time.perf_counter()


# By variant (ftbench.plan.variants).
WORKERS: dict[str, type[Threads | Processes]] = {"bare-thread": Threads, "bare-process": Processes}


def seconds(spans: list[tuple[float, float]]) -> float:
    """From the first worker's begin to the last one's end."""
    return max(end for _, end in spans) - min(begin for begin, _ in spans)


def measure(task: Task) -> dict:
    """Time one kind of operation (the case's parameter "kind") by one worker and by all, in turns.

    Every worker does `batch_size` x batches-per-worker operations, fewer of heavy kinds. Returns the metrics
    operation_ns, the time of one operation in a worker while all are at it (ns, median of the repetitions),
    and scaling, how many times the operations per second of one worker that all of them do together (1 to the
    number of workers, or less than 1 where they hinder each other). And the distributions `operation` and
    `operation-alone`: ns an operation, of each worker in each repetition.
    """
    kind = KINDS[task.parameters["kind"]]
    operations = max(1, task.batch_size * (task.batches // task.workers) // kind.weight // UNROLLED) * UNROLLED
    alone: list[float] = []
    together: list[float] = []
    each_alone: list[float] = []
    each_together: list[float] = []
    # Processes first of all: forking is for a process with one thread.
    one, many = WORKERS[task.variant](kind, 1), WORKERS[task.variant](kind, task.workers)
    try:
        for repetition in range(REPETITIONS + 1):
            for workers, totals, each in ((one, alone, each_alone), (many, together, each_together)):
                spans = workers.run(operations)
                if repetition:  # the first warms caches and lets the interpreter specialise its bytecode
                    totals.append(seconds(spans))
                    each += [(end - begin) / operations * 1e9 for begin, end in spans]
    finally:
        one.close()
        many.close()
    took = median(together)
    return {
        "metrics": {"operation_ns": took / operations * 1e9, "scaling": task.workers * median(alone) / took},
        "distributions": {
            "operation": {"unit": "ns", "values": each_together},
            "operation-alone": {"unit": "ns", "values": each_alone},
        },
        "samples": operations * task.workers * REPETITIONS,
    }


CASES = tuple(Case(name, kind.title, {"kind": name}) for name, kind in KINDS.items())
# What stays: no contention, and the most.
ENDS_FIRST = tuple(sorted(CASES, key=lambda case: case.name not in ("private", "reference")))


def dataset(task: Task) -> None:
    """Nothing is loaded."""


def workers(cpus: int) -> Iterable[int]:
    """One worker alone is part of every trial, so two and more."""
    return [count for count in worker_counts(cpus) if count > 1] or [1]


def comparisons(configs: tuple[str, ...]) -> tuple[Comparison, ...]:
    """Threads against processes in every kind, then threads without the GIL against threads with it.

    Processes contend for nothing with any interpreter: one's are enough.
    """
    main = configs[-1]
    threads = {config: Entry(config, "bare-thread") for config in configs}
    contention = Comparison(threads[main], Entry(main, "bare-process"), kind="method", every_count=True)
    others = [
        Comparison(threads[main], threads[other], kind="gil", every_count=True, quick=quick)
        for other, quick in (("ft-gil", ""), ("gil", "most"))
        if other in configs and other != main
    ]
    return (contention, *others)


SCENARIO = Scenario(
    name="contention",
    question="why can threads lose?",
    description="small operations on what threads share, by one worker and by many; processes share nothing",
    sample="one operation",
    sample_bytes=1,
    dataset=dataset,
    measure=measure,
    metrics=("scaling", "operation_ns"),
    contest=Contest(comparisons, ENDS_FIRST, order=(COUNT, IMPORTANCE, CASE)),
    cases=CASES,
    case_axis="operation",
    full=Amount(batch_size=100_000, batches_per_worker=10),
    quick=Amount(batch_size=100_000, batches_per_worker=3),
    seconds=600,
    quick_seconds=240,
    workers=workers,
    batched=False,
)
