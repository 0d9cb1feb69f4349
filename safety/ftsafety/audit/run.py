"""``audit()``: the function that runs all steps of an audit and returns the report."""

import gc
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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
from ftsafety.audit.monitoring import Codes
from ftsafety.audit.observer import Observations
from ftsafety.audit.report import ABSENT, CURED_BY_COPIES, Finding, Level, Report
from ftsafety.audit.samples import IterableLoads, Loads, choose
from ftsafety.audit.serial import OBSERVED, AuditError, Fresh, Serial

__all__ = ["AuditError", "Finding", "Report", "audit"]


def audit(  # noqa: PLR0913 - a public signature
    dataset: Any,
    *,
    indices: Iterable[Any] | None = None,
    samples: int = 32,
    threads: int = 8,
    seconds: float = 10.0,
    patience: float = 20.0,
    seed: int = 0,
    copies: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Try to show that *dataset* is not safe under threads; return a report.

    Restores the dataset's attributes and containers between the steps and at the end. The audit
    runs in your process: a crash of the dataset ends your program, and threads that hang stay
    alive. To avoid both, run ``python -m ftsafety.audit FILE.py:NAME``, which audits in a child
    process.

    Args:
        dataset: map-style or iterable-style, as for ``ftloader.DataLoader``; or a function or class
            that makes one. With a function or class, threads also load from new datasets, which
            have opened and decoded nothing yet.
        indices: indices to load. By default *samples* random ones, including the first and the
            last.
        samples: number of samples to load; for an iterable-style dataset, the number for each
            worker.
        threads: number of threads that load at the same time, at least 2.
        seconds: seconds of loading in all threads. The second look, which confirms failures, may
            take as long again.
        patience: seconds without a finished sample after which threads count as stuck.
        seed: chooses the indices and their order.
        copies: True if each thread loads from a copy of its own of a map-style dataset, as with
            ``ftloader.DataLoader(copy_dataset=True)``.
        progress: called with a line of text at each step.

    Raises:
        AuditError: with one thread, loading hangs or always fails; the dataset has no samples;
            *patience* is too short.
        TypeError, ValueError: *dataset* is no dataset, or is empty, or cannot be copied, or an
            argument is invalid.
    """
    settings = AuditSettings(indices, samples, threads, seconds, patience, seed, copies)
    return audit_with(dataset, settings, progress or (lambda text: None))


@dataclass(frozen=True)
class AuditSettings:
    """Settings of an audit: the arguments of `audit` with the same names."""

    indices: Iterable[Any] | None
    samples: int
    threads: int
    seconds: float
    patience: float
    seed: int
    copies: bool = False


def audit_with(dataset: Any, settings: AuditSettings, say: Callable[[str], None]) -> Report:
    """Audit *dataset*, as `audit` does. *say* is called with a line of text at each step."""
    threads = settings.threads
    if threads < 2:
        raise ValueError("threads= must be at least 2")
    begin = time.monotonic()
    with collecting():  # of all steps, so that each is printed once
        with noticing() as turned_on, collecting() as ignored:
            fresh = Fresh(dataset) if is_factory(dataset) else None
            first_dataset = fresh.first if fresh else dataset
            loads = choose(
                first_dataset,
                settings.indices,
                settings.samples,
                threads,
                settings.seed,
                settings.copies,
            )
            serial = Serial(loads, settings.patience, fresh)
            codes, observed = _observe(serial, ignored, say)
        number = f"{threads} threads{loads.each_with}"
        report = Report(_describe(loads), f"{gil.describe()}; {number}")
        if observed is None:
            _judge_unloadable(report, serial)
        else:
            report.findings += gil.findings(turned_on)
            _judge(report, serial, codes, observed, settings, say)
        serial.restore()
    report.seconds = time.monotonic() - begin
    return report


def _judge_unloadable(report: Report, serial: Serial) -> None:
    """Add the finding that only the thread that made the dataset can load a sample."""
    loads = serial.loads
    report.findings.append(serial.in_own_thread())
    threads = "by another thread than the one that made the dataset, and by that one"
    why = (
        "worker threads cannot load a sample, so nothing more was tried; fix this, and audit again"
    )
    report.tried.append(f"{len(loads.keys)} {loads.units} {threads}")
    report.cannot.append(f"what else is unsafe: {why}")


def _judge(
    report: Report,
    serial: Serial,
    codes: Codes,
    observed: Observations,
    settings: AuditSettings,
    say: Callable[[str], None],
) -> None:
    """Run the steps that follow the observation,
    and add the findings of all steps to the report.
    """
    first, second, nodes = observed
    written = findings.from_observation(first, second, nodes)
    dataset = serial.loads.dataset
    arrays = findings.from_arrays(dataset, serial.overwritten_arrays, codes, written, second)
    alone = _of_one_thread(serial, say)
    report.findings = written + alone + arrays + report.findings
    suspects = written + arrays
    for finding in alone:
        if finding.kind == "files-written":
            suspects.append(finding)
    at_once = AtOnce(serial, codes, settings.seconds, settings.seed, say)
    failures = at_once.run(suspects)
    report.unconfirmed += at_once.unconfirmed
    if not failures and not report.unconfirmed:
        harmless = same_values.harmless(serial, codes, first, second)
        report.findings = findings.softened(report.findings, harmless)
    report.findings += failures
    watched = bool(first.instructions and second.instructions)
    bursts = at_once.bursts + at_once.again
    report.tried += _tried(serial.loads, bursts, len(codes))
    report.cannot += _cannot(serial, len(codes), watched)
    _add_failing(report, serial)
    report.copies = _advice_on_copies(report, serial.loads)


def _advice_on_copies(report: Report, loads: Loads) -> str:
    """Return what a copy of the dataset for each thread may cure, in words; "" if nothing."""
    shared = any(
        finding.kind in CURED_BY_COPIES and finding.level != Level.NOTE
        for finding in report.findings
    )
    if not shared or not loads.can_be_copied():
        return ""
    return (
        "DataLoader(copy_dataset=True) gives each thread a copy of the dataset, which cures what "
        "threads share by its attributes, but not by global variables or class attributes. "
        "--copies audits that"
    )


def _observe(
    serial: Serial, ignored: list[Raised], say: Callable[[str], None]
) -> tuple[Codes, Observations | None]:
    """Load with one thread, then observe the dataset twice.

    Returns the dataset's functions that ran, and the observations;
    None for these if no sample can be loaded.
    """
    say(f"loading {len(serial.loads.keys)} {serial.loads.units} serially, three times")
    codes = serial.alone(serial.passes)
    # Else cycles would be destroyed by chance: perhaps under threads alone, which load more.
    gc.collect()
    # Not later: an observer keeps objects alive, and so changes when they end.
    serial.ignored.update(ignored)
    copies = serial.reference.values()
    loaded = [copy for copy in copies if not isinstance(copy, Raised)]
    if not loaded:
        return codes, None
    if isinstance(serial.loads, IterableLoads):
        if not any(share.parts for share in loaded):
            raise AuditError(
                "the dataset yields no sample to any worker: there is nothing to audit"
            )
    say("watching what the dataset's lines write, in two threads that take turns")
    return codes, serial.alone(lambda: serial.observe_twice(codes))


def _of_one_thread(serial: Serial, say: Callable[[str], None]) -> list[Finding]:
    """Load in one thread at a time; return the findings for faults that need no concurrency."""
    alone = findings.from_serial(serial)
    keys = [key for key in serial.loads.keys if key not in serial.unequal]
    step = math.ceil(len(keys) / OBSERVED) or 1
    keys = keys[::step]
    say(f"loading {len(keys)} of them in the thread that made the dataset, at least twice")
    alone += serial.other_in_makers_thread(keys)
    return alone


def _describe(loads: Loads) -> str:
    """Return the dataset's class and number of samples, in words."""
    kind = type(loads.dataset)
    try:
        size = f", {len(loads.dataset)} samples"
    except Exception:  # a __len__ may raise anything
        size = ""
    return f"{kind.__module__}.{kind.__qualname__}{size}"


def _tried(loads: Loads, bursts: list[Burst], functions: int) -> list[str]:
    """Return the report's section "what was tried". *functions*:
    the number of the dataset's functions.
    """
    calls = sum(burst.calls for burst in bursts)
    rounds = sum(burst.rounds for burst in bursts)
    ways = {burst.way for burst in bursts}
    return [
        f"{len(loads.keys)} {loads.units} three times by one thread, in two orders",
        f"writes, file positions and random draws of {functions} functions of the dataset, twice, "
        "by two threads in turns",
        f"{calls} loads in {rounds} rounds by {loads.threads} threads at once, in {len(ways)} "
        "ways: the same sample or another one in each thread; the dataset as it was at first, or "
        "warm; its lines as they are, or with pauses between them",
    ]


def _cannot(serial: Serial, functions: int, watched: bool) -> list[str]:
    """Return the report's section "what this cannot say". *watched*:
    True if the interpreter reported instructions.
    """
    cannot = [
        "that there is no race: only the samples, threads and orders that were tried are judged",
        "what C and C++ code does (its writes are not seen, only wrong results and crashes)",
    ]
    if not functions:
        cannot.append("what the dataset's lines write: none of its code is Python")
    elif not watched:
        cannot.append(
            "what the dataset's lines write: the interpreter reported none of its instructions"
        )
    cannot += _uncompared(serial)
    if serial.opened.written() or serial.opened.rewritable():
        cannot.append(ABSENT)
    if serial.only_first:
        cannot.append(
            f"what the first load alone does, in objects that are not restored: {serial.only_first}"
        )
    if gil_enabled():
        cannot.append(
            "what happens without the GIL: it is on here, which hides races; audit with a "
            f"free-threaded Python ({host.audit('FILE.py:NAME')})"
        )
    return cannot


def _uncompared(serial: Serial) -> list[str]:
    """Return what the report says of samples that could be compared in part only."""
    in_words = serial.loads.shown
    cannot = []
    opaque = [key for key, copy in serial.reference.items() if copy.opaque]
    if opaque:
        cannot.append(
            f"whether all of {in_words(opaque)} is right: of some parts only the type can be "
            f"compared"
        )
    if serial.unequal:
        cannot.append(
            f"whether the values of {in_words(serial.unequal)} are right, since they differ "
            f"serially too"
        )
    return cannot


def _add_failing(report: Report, serial: Serial) -> None:
    """Add a finding for samples that raise with one thread too."""
    loads = serial.loads
    errors = {}
    for key, copy in serial.reference.items():
        if isinstance(copy, Raised):
            errors[key] = copy
    if not errors:
        return
    first = next(iter(errors.values()))
    keys = loads.shown(errors)
    report.findings.append(kinds.make("raises", first.line, keys=keys, error=first))
    units = loads.unit if len(loads.keys) == 1 else loads.units
    report.unjudged = f"{len(errors)} of {len(loads.keys)} {units} could not be judged"
