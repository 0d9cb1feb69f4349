"""The summary of an audit, next to its findings: the dataset, the bursts and checks made, and their limits."""

from ftrun.configurations import gil_enabled
from ftsafety.audit.comparison import Raised
from ftsafety.audit.concurrent_loads import Burst
from ftsafety.audit.report import Report
from ftsafety.audit.samples import Loads
from ftsafety.audit.serial import Serial


def describe(loads: Loads) -> str:
    """Return the dataset's class and size."""
    kind = type(loads.dataset)
    try:
        size = f", {len(loads.dataset)} samples"
    except (TypeError, NotImplementedError):
        size = ""
    return f"{kind.__module__}.{kind.__qualname__}{size}"


def say_what_was_tried(report: Report, bursts: list[Burst], serial: Serial, functions: int, watched: bool) -> None:
    """Fill in what the audit did, and what that cannot show."""
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
    failing = {key: got.text for key, got in serial.reference.items() if isinstance(got, Raised)}
    if failing:
        text = next(iter(failing.values()))
        cannot.append(f"anything about {loads.shown(failing)}: loading raises with one thread too ({text})")
    if gil_enabled():
        cannot.append(
            "what happens without the GIL: it is on here, which hides races; audit with a free-threaded "
            "Python (./twins audit ft MODULE:OBJECT)"
        )


def say_that_it_ended_there(report: Report, loads: Loads) -> None:
    """Fill in the same for a dataset that only the thread that made it can use."""
    how = "by another thread than the one that made the dataset, and by that one"
    report.tried.append(f"{len(loads.keys)} {loads.units} {how}")
    why = "worker threads cannot load a sample, so nothing more was tried; fix this, and audit again"
    report.cannot.append(f"what else is unsafe: {why}")
