"""``audit()``: the steps of an audit."""

import time
import types
from collections.abc import Callable, Iterable
from typing import Any

from ftsafety.audit import findings, gil, summary
from ftsafety.audit.at_once import AtOnce
from ftsafety.audit.comparison import Raised
from ftsafety.audit.observer import Observed
from ftsafety.audit.reachable import Node
from ftsafety.audit.report import Finding, Report
from ftsafety.audit.samples import choose
from ftsafety.audit.serial import OBSERVED, AuditError, Serial

__all__ = ["AuditError", "audit"]


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

    Between the steps, and at the end, the dataset's attributes and containers are restored. A crash and hanging threads
    stay in your program; ``python -m ftsafety.audit MODULE:OBJECT`` has its own process.

    Args:
        dataset: map-style or iterable-style, as for ``ftloader.DataLoader``.
        indices: what to load. By default *samples* random indices, including the first and the last.
        samples: number of samples; of an iterable-style dataset, for each worker.
        seconds: how long *threads* load at once; the second look takes at most as long again.
        patience: seconds without a finished sample after which threads count as stuck.
        seed: chooses the indices and their order.
        progress: called with a line of text at each step.

    Raises:
        AuditError: no sample can be loaded serially, or loading serially hangs.
        TypeError, ValueError: *dataset* is no dataset, or is empty.
    """
    if threads < 2:
        raise ValueError("threads= must be at least 2")
    say = progress or (lambda text: None)
    loads = choose(dataset, indices, samples, threads, seed)
    serial = Serial(loads, patience)
    report = Report(summary.describe(loads), f"{gil.describe()}; {threads} threads")
    begin = time.monotonic()
    with gil.noticing() as turned_on:
        codes, observed = _observe(serial, say)
    if observed is None:
        report.findings.append(serial.in_own_thread())
        summary.say_that_it_ended_there(report, loads)
    else:
        first, second, nodes = observed
        suspects = findings.from_observation(first, second, nodes)
        scratch = findings.from_arrays(dataset, serial.overwritten_arrays, codes, suspects, second)
        report.findings += [*suspects, *_of_one_thread(serial, say)]
        report.findings += [*findings.from_changes(dataset, serial.changes, suspects, second), *scratch]
        report.findings += gil.findings(turned_on)
        at_once = AtOnce(serial, codes, seconds, seed, say)
        report.findings += at_once.run(suspects + scratch)
        report.unconfirmed += at_once.unconfirmed
        watched = bool(first.instructions and second.instructions)
        summary.say_what_was_tried(report, at_once.bursts + at_once.again, serial, len(codes), watched)
    serial.snapshot.restore()
    report.seconds = time.monotonic() - begin
    return report


def _observe(
    serial: Serial, say: Callable[[str], None]
) -> tuple[set[types.CodeType], tuple[Observed, Observed, list[Node]] | None]:
    """Load serially and watch the dataset's lines; return its functions and, if samples can be loaded, what they do."""
    say(f"loading {len(serial.loads.keys)} {serial.loads.units} serially, three times")
    codes = serial.alone(serial.passes)
    if all(isinstance(got, Raised) for got in serial.reference.values()):
        return codes, None
    say("watching what the dataset's lines write, in two threads that take turns")
    return codes, serial.alone(lambda: serial.observe_twice(codes))


def _of_one_thread(serial: Serial, say: Callable[[str], None]) -> list[Finding]:
    """Return findings of loads by one thread at a time."""
    found = findings.from_serial(serial.loads, serial.unequal, serial.shared_memory)
    found += serial.alone(serial.aliases)
    keys = [key for key in serial.loads.keys if key not in serial.unequal]
    keys = keys[:: -(-len(keys) // OBSERVED) or 1]
    say(f"loading {len(keys)} of them in the thread that made the dataset, twice")
    return found + findings.from_makers_thread(serial.loads, serial.other_in_makers_thread(keys))
