"""Contention of threads for shared state in the interpreter:
why threads can be slower than processes.

Each case is one small operation, which one worker or all workers repeat. Worker processes contend
only for the machine (memory, caches, turbo). So if threads are slower than processes, they contend
for objects that threads share. In the free-threaded build (PEP 703), a thread that did not create
an object counts the object's references by atomic instructions, which need exclusive access to the
cache line. Dicts are read without a lock. References to immortal objects (PEP 683: small integers,
None, constants, interned strings) are not counted. The cases "owned", "dict-copy" and
"dict-interned" show what removes this cost.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ftbench.measure.neighbours import alternate, condition_ratios
from ftbench.plan.candidates import worker_counts
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import CASE, COUNT, IMPORTANCE, Comparison, ComparisonPlan, Side
from ftbench.plan.scenario import Scenario, Task, Turns
from ftrun.parent_death import die_with_parent

# Longest wait of a worker for the others at the start (s).
GONE_SECONDS = 120.0
# Operations in one pass of a loop, so that the loop itself takes little of the time.
UNROLLED = 10

Spans = list[tuple[float, float]]
"""(start, end) of each worker, by time.perf_counter()."""


@dataclass(frozen=True)
class Operation:
    """A kind of operation, with the state that the operation reads or changes."""

    title: str
    make: Callable[[], Any]
    """Function that makes the state: called once for all threads, or once in each process."""
    operation: str
    """The operation: a statement of Python, in which `shared` is the state."""
    first: str = "pass"
    """Statement that runs once, before the operations."""
    weight: int = 1
    """Weight of one operation: heavier ones are done less often."""
    private: bool = False
    """True if each thread makes its own state and shares nothing, for comparison."""

    @functools.cached_property
    def loop(self) -> Callable[[Any, int], None]:
        """Function (state, operations) that repeats the operation. `operations` has to be a
        multiple of UNROLLED.
        """
        body = f"        {self.operation}\n" * UNROLLED
        loop = f"    for _ in range(operations // {UNROLLED}):\n{body}"
        namespace: dict[str, Any] = {}
        exec(f"def loop(shared, operations):\n    {self.first}\n{loop}", namespace)
        return namespace["loop"]


class Holder:
    """Shared object with attributes, like a configuration object."""

    def __init__(self) -> None:
        self.value, self.count, self.lock = 1, 0, threading.Lock()


def _table() -> dict:
    # The values are small integers, which are immortal: only the dict is shared.
    return {f"key{number}": number % 100 for number in range(1000)}


def _one_object() -> dict:
    return dict.fromkeys(_table(), object())


def _interned_value() -> dict:
    # Immortal without the GIL, unlike a string that was read or computed.
    return dict.fromkeys(_table(), sys.intern("".join(["wo", "rd"])))


READ = "_ = shared[key]", 'key = "key500"'
RAISE = "with lock: shared.count += 1", "lock = shared.lock"
MAP = (
    "with mmap(-1, 1 << 20) as memory: memory.write(content)",
    "from mmap import mmap; content = bytes(1 << 20)",
)
# The most important kinds first: no contention, then the most.
OPERATIONS: dict[str, Operation] = {
    "private": Operation("reads of a dict of its own", _table, *READ, private=True),
    "reference": Operation(
        "references to one shared object, made and dropped", object, "_ = shared"
    ),
    "dict": Operation("reads of one shared dict, immortal values", _table, *READ),
    "dict-object": Operation(
        "reads of one shared dict whose values are one object", _one_object, *READ
    ),
    # What removes the cost of "reference" and "dict-object".
    "owned": Operation(
        "references to an object that the thread made itself", object, "_ = shared", private=True
    ),
    "dict-copy": Operation(
        "reads of a copy each of the dict whose values are one object",
        _one_object,
        *READ,
        private=True,
    ),
    "dict-interned": Operation(
        "reads of one shared dict whose values are one interned string", _interned_value, *READ
    ),
    "attribute": Operation("attribute look-ups on one shared object", Holder, "_ = shared.value"),
    "lock": Operation("one shared lock, taken, a count raised, let go", Holder, *RAISE, weight=5),
    "allocation": Operation(
        "64 bytes allocated and freed", lambda: None, "bytearray(64)", weight=2
    ),
    "pages": Operation("1 MiB mapped, filled and unmapped", lambda: None, *MAP, weight=5000),
}


@contextlib.contextmanager
def started(
    kind: Operation, workers: int, processes: bool
) -> Iterator[Callable[[int, int], Spans]]:
    """Context manager: start worker threads or forked processes for one kind of operation.

    Yields a function run(operations, workers): `workers` workers (1 or all) start together, each
    does `operations` operations, and the function returns the Spans (each worker's start and end).
    Threads share one state, unless the kind is private.
    """
    fork = multiprocessing.get_context("fork")
    barrier = fork.Barrier if processes else threading.Barrier
    shared = None if processes or kind.private else kind.make()
    starts = {count: barrier(count) for count in (1, workers)}
    begin = functools.partial(_begin, kind.loop, kind.make, shared, starts, processes)
    pool: Executor = (
        ProcessPoolExecutor(workers, fork, begin)
        if processes
        else ThreadPoolExecutor(workers, initializer=begin)
    )

    def run(operations: int, workers: int) -> Spans:
        # Each worker waits for the others at the barrier, so that no worker takes two calls.
        return list(pool.map(_timed, [operations] * workers, [workers] * workers))

    try:
        run(0, workers)  # starts the workers
        yield run
    finally:
        if processes:
            for child in multiprocessing.active_children():
                # a trial has no other children, and a worker may hang
                child.terminate()
        pool.shutdown()


# A worker's loop, its state and the barriers.
_mine = threading.local()


def _begin(
    loop: Callable, make: Callable[[], Any], shared: Any, starts: Mapping[int, Any], processes: bool
) -> None:
    if processes:
        die_with_parent()
    _mine.loop, _mine.starts = loop, starts
    _mine.state = make() if shared is None else shared


def _timed(operations: int, workers: int) -> tuple[float, float]:
    loop, state, start = _mine.loop, _mine.state, _mine.starts[workers]
    try:
        start.wait(GONE_SECONDS)
        begin = time.perf_counter()
        loop(state, operations)
        return begin, time.perf_counter()
    except BaseException:
        start.abort()
        raise


def seconds(spans: Spans) -> float:
    """Return the time from the first worker's start to the last worker's end."""
    return max(end for _, end in spans) - min(begin for begin, _ in spans)


def measure(task: Task) -> Turns:
    """Time one kind of operation (the case's parameter "kind") in one worker and in all,
    in neighbouring turns.

    Returns the metrics operation_ns (time of one operation while all workers run) and scaling
    (operations/s of all workers, divided by those of one worker alone).
    """
    kind = OPERATIONS[task.parameters["kind"]]
    operations = (
        max(1, task.batch_size * (task.batches // task.workers) // kind.weight // UNROLLED)
        * UNROLLED
    )
    with started(kind, task.workers, processes=task.variant == "bare-process") as run:
        # The first run warms caches and lets the interpreter specialise its bytecode.
        run(operations, 1)
        run(operations, task.workers)
        conditions = {
            "alone": lambda: seconds(run(operations, 1)),
            "together": lambda: seconds(run(operations, task.workers)),
        }
        seconds_of_conditions = yield from alternate(conditions, task.turns)
    result = condition_ratios(
        {"scaling": (seconds_of_conditions["alone"], seconds_of_conditions["together"])}
    )
    result["metrics"]["scaling"] *= task.workers
    result["metrics"]["operation_ns"] = fmean(seconds_of_conditions["together"]) / operations * 1e9
    return {
        **result,
        "turn_seconds": seconds_of_conditions["together"],
        "samples": operations * task.workers * task.turns,
    }


CASES = tuple(Case(name, kind.title, {"kind": name}) for name, kind in OPERATIONS.items())


def comparisons(configs: tuple[str, ...]) -> tuple[Comparison, ...]:
    """Return comparisons of threads in the last of `configs`: with processes there, and with
    threads under the GIL.
    """
    main = configs[-1]
    threads = {config: Side(config, "bare-thread") for config in configs}
    contention = Comparison(
        threads[main], Side(main, "bare-process"), kind="method", every_count=True
    )
    comparisons = [
        Comparison(threads[main], threads[other], kind="gil", every_count=True, quick=quick)
        for other, quick in (("ft-gil", ""), ("gil", "most"))
        if other in configs and other != main
    ]
    return (contention, *comparisons)


SCENARIO = Scenario(
    name="contention",
    question="why can threads lose?",
    description="small operations on what threads share, by one worker and by many; processes "
    "share nothing",
    sample_bytes=1,
    measure=measure,
    metrics=("scaling", "operation_ns"),
    plan=ComparisonPlan(comparisons, CASES, order=(COUNT, IMPORTANCE, CASE)),
    case_axis="operation",
    full=Amount(batch_size=100_000, batches_per_worker=10, turns=5, seconds=825),
    quick=Amount(batch_size=100_000, batches_per_worker=3, turns=6, seconds=330),
    # Every trial measures one worker too, so this begins with two.
    workers=lambda cpus: worker_counts(cpus)[1:] or [1],
    batched=False,
    one_rank="it loads nothing",
    needs_workers="it loads nothing",
)
