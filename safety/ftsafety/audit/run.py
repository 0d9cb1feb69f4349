"""``audit()``: the function that runs all steps of an audit and returns the report."""

import gc
import time
import types
from collections.abc import Callable, Iterable
from typing import Any

from ftrun import host
from ftrun.configurations import gil_enabled
from ftrun.gil import noticing
from ftrun.target import is_factory
from ftsafety.audit import findings, gil, kinds, same_values
from ftsafety.audit.at_once import AtOnce
from ftsafety.audit.comparison import Raised
from ftsafety.audit.concurrent_loads import Burst
from ftsafety.audit.ignored import collecting
from ftsafety.audit.observer import Observed
from ftsafety.audit.reachable import Node
from ftsafety.audit.report import ABSENT, Finding, Report
from ftsafety.audit.samples import IterableLoads, Loads, choose
from ftsafety.audit.serial import OBSERVED, AuditError, Fresh, Serial

__all__ = ["AuditError", "Finding", "Report", "audit"]


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
    """Try to show that *dataset* is not safe under threads; return a report.

    Restores the dataset's attributes and containers between the steps and at the end. The audit runs in your process:
    a crash of the dataset ends your program, and threads that hang stay alive. To avoid both, run
    ``python -m ftsafety.audit FILE.py:NAME``, which audits in a child process.

    Args:
        dataset: map-style or iterable-style, as for ``ftloader.DataLoader``; or a function or class that makes one.
            With a function or class, threads also load from new datasets, which have opened and decoded nothing yet.
        indices: indices to load. By default *samples* random ones, including the first and the last.
        samples: number of samples to load; for an iterable-style dataset, the number for each worker.
        threads: number of threads that load at the same time, at least 2.
        seconds: seconds of loading in all threads. The second look, which confirms failures, may take as long again.
        patience: seconds without a finished sample after which threads count as stuck.
        seed: chooses the indices and their order.
        progress: called with a line of text at each step.

    Raises:
        AuditError: with one thread, loading hangs or always fails; the dataset has no samples; *patience* is too short.
        TypeError, ValueError: *dataset* is no dataset, or is empty, or an argument is invalid.
    """
    if threads < 2:
        raise ValueError("threads= must be at least 2")
    say = progress or (lambda text: None)
    begin = time.monotonic()
    with collecting():  # of all steps, so that each is printed once
        with noticing() as turned_on, collecting() as ignored:
            fresh = Fresh(dataset) if is_factory(dataset) else None
            loads = choose(fresh.first if fresh else dataset, indices, samples, threads, seed)
            serial = Serial(loads, patience, fresh)
            codes, observed = _observe(serial, ignored, say)
        report = Report(_describe(loads), f"{gil.describe()}; {threads} threads")
        if observed is None:
            report.findings.append(serial.in_own_thread())
            how = "by another thread than the one that made the dataset, and by that one"
            why = "worker threads cannot load a sample, so nothing more was tried; fix this, and audit again"
            report.tried.append(f"{len(loads.keys)} {loads.units} {how}")
            report.cannot.append(f"what else is unsafe: {why}")
        else:
            _judge(report, serial, codes, observed, gil.findings(turned_on), seconds, seed, say)
        serial.snapshot.restore()
    report.seconds = time.monotonic() - begin
    return report


def _judge(
    report: Report,
    serial: Serial,
    codes: set[types.CodeType],
    observed: tuple[Observed, Observed, list[Node]],
    of_gil: list[Finding],
    seconds: float,
    seed: int,
    say: Callable[[str], None],
) -> None:
    """Run the steps that follow the observation, and add the findings of all steps to the report."""
    first, second, nodes = observed
    suspects = findings.from_observation(first, second, nodes)
    scratch = findings.from_arrays(serial.loads.dataset, serial.overwritten_arrays, codes, suspects, second)
    alone = _of_one_thread(serial, say)
    report.findings += [*suspects, *alone, *scratch, *of_gil]
    at_once = AtOnce(serial, codes, seconds, seed, say)
    failures = at_once.run(suspects + scratch + [finding for finding in alone if finding.kind == "files-written"])
    report.unconfirmed += at_once.unconfirmed
    if not failures and not report.unconfirmed:
        report.findings = findings.softened(report.findings, same_values.harmless(serial, codes, first, second))
    report.findings += failures
    watched = bool(first.instructions and second.instructions)
    _say_what_was_tried(report, at_once.bursts + at_once.again, serial, len(codes), watched)


def _observe(
    serial: Serial, ignored: list[Raised], say: Callable[[str], None]
) -> tuple[set[types.CodeType], tuple[Observed, Observed, list[Node]] | None]:
    """Load with one thread, then observe the dataset twice.

    Returns the dataset's functions that ran, and a tuple: the first observation, the second, and the dataset's objects.
    The tuple is None if no sample can be loaded.
    """
    say(f"loading {len(serial.loads.keys)} {serial.loads.units} serially, three times")
    codes = serial.alone(serial.passes)
    gc.collect()  # else cycles would be destroyed by chance: perhaps under threads alone, which load more
    serial.ignored.update(ignored)  # not later: an observer keeps objects alive, and so changes when they end
    loaded = [got for got in serial.reference.values() if not isinstance(got, Raised)]
    if not loaded:
        return codes, None
    if isinstance(serial.loads, IterableLoads) and not any(share.parts for share in loaded):
        raise AuditError("the dataset yields no sample to any worker: there is nothing to audit")
    say("watching what the dataset's lines write, in two threads that take turns")
    return codes, serial.alone(lambda: serial.observe_twice(codes))


def _of_one_thread(serial: Serial, say: Callable[[str], None]) -> list[Finding]:
    """Load in one thread at a time; return the findings for faults that need no concurrency."""
    found = findings.from_serial(serial)
    keys = [key for key in serial.loads.keys if key not in serial.unequal]
    keys = keys[:: -(-len(keys) // OBSERVED) or 1]
    say(f"loading {len(keys)} of them in the thread that made the dataset, at least twice")
    return found + serial.other_in_makers_thread(keys)


def _describe(loads: Loads) -> str:
    """Return the dataset's class and number of samples, in words."""
    kind = type(loads.dataset)
    try:
        size = f", {len(loads.dataset)} samples"
    except Exception:  # a __len__ may raise anything
        size = ""
    return f"{kind.__module__}.{kind.__qualname__}{size}"


def _say_what_was_tried(report: Report, bursts: list[Burst], serial: Serial, functions: int, watched: bool) -> None:
    """Fill in the report's sections "what was tried" and "what this cannot say"."""
    loads = serial.loads
    calls, rounds = sum(burst.calls for burst in bursts), sum(burst.rounds for burst in bursts)
    ways = {burst.way for burst in bursts}
    report.tried += [
        f"{len(loads.keys)} {loads.units} three times by one thread, in two orders",
        f"writes, file positions and random draws of {functions} functions of the dataset, twice, by two threads in "
        "turns",
        f"{calls} loads in {rounds} rounds by {loads.threads} threads at once, in {len(ways)} ways: the same sample or "
        "another one in each thread; the dataset as it was at first, or warm; its lines as they are, or with pauses "
        "between them",
    ]
    cannot = report.cannot
    cannot += [
        "that there is no race: only the samples, threads and orders that were tried are judged",
        "what C and C++ code does (its writes are not seen, only wrong results and crashes)",
    ]
    if not functions:
        cannot.append("what the dataset's lines write: none of its code is Python")
    elif not watched:
        cannot.append("what the dataset's lines write: the interpreter reported none of its instructions")
    opaque = [key for key, got in serial.reference.items() if got.opaque]
    if opaque:
        cannot.append(f"whether all of {loads.shown(opaque)} is right: of some parts only the type can be compared")
    if serial.unequal:
        cannot.append(f"whether the values of {loads.shown(serial.unequal)} are right, since they differ serially too")
    failing = {key: got for key, got in serial.reference.items() if isinstance(got, Raised)}
    if failing:
        first = next(iter(failing.values()))
        report.findings.append(kinds.make("raises", first.line, keys=loads.shown(failing), error=first))
        units = loads.unit if len(loads.keys) == 1 else loads.units
        report.unjudged = f"{len(failing)} of {len(loads.keys)} {units} could not be judged"
    if serial.opened.written() or serial.opened.rewritable():
        cannot.append(ABSENT)
    if serial.only_first:
        cannot.append(f"what the first load alone does, in objects that are not restored: {serial.only_first}")
    if gil_enabled():
        cannot.append(
            "what happens without the GIL: it is on here, which hides races; audit with a free-threaded "
            f"Python ({host.audit('FILE.py:NAME')})"
        )
