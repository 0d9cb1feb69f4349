"""What threads fight over, in words and as a table (``--why``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ftbench.measure.sharing import ALL, OBJECT
from ftbench.report import terminal
from ftbench.report.tables import Table
from ftbench.report.verdict_words import figure
from ftbench.stats.sharing import SharedPart, Why
from ftbench.stats.statistics import Ratio

SCALES = 0.85
"""Share of the ideal speed from which threads are said to scale."""
ADVICE = "DataLoader(..., copy_dataset=True) gives each worker thread its own copy"
ELSEWHERE = "module globals, class attributes, what copies share, the interpreter or memory"

BUSY = "Threads that seldom run at the same time fight less: a quiet machine shows more."


@dataclass(frozen=True)
class WhyView:
    """All words of the answer."""

    sentences: list[str]
    """The answer first."""
    table: Table


def view(dataset: str, why: Why) -> WhyView:
    """Return the view of why threads scale as they do. *dataset*: its name."""
    return WhyView([*_sentences(dataset, why)], _table(why))


def write(why_view: WhyView) -> None:
    """Print the answer on stdout."""
    with terminal.printed() as console:
        console.print()
        terminal.say(console, why_view.sentences[:2], "bold")
        terminal.say(console, why_view.sentences[2:])
        if why_view.table.rows:
            console.print()
            terminal.table(console, "What sharing costs", why_view.table)


def _sentences(dataset: str, why: Why) -> Iterator[str]:
    threads = f"{dataset}: {why.threads} threads without the GIL"
    yield f"{threads} are {_times(why.shared)} one{_with_copies(why)}.{_load(why)}"
    yield from _answer(why)
    yield from _rest(why)
    for part, reason in why.lacking.items():
        if part != ALL:
            yield f"`{part}` has no copy, so the threads always shared it: {reason}."
    if why.unmeasured:
        yield f"Not measured, since a first look found less harm: {', '.join(why.unmeasured)}."


def _load(why: Why) -> str:
    """Return what other programs took of the CPUs: without it, the speeds mislead."""
    if not why.disturbances:
        return ""
    load = "; ".join(why.disturbances)
    return f" But {load}. {BUSY}"


def _with_copies(why: Why) -> str:
    if why.copied is None:
        return f"; the dataset cannot be copied ({why.lacking[ALL]})"
    return f"; with a copy of the dataset each {_times(why.copied)}"


def _answer(why: Why) -> Iterator[str]:
    """Yield what threads fight over, and the remedy."""
    if why.unclear:
        yield "The turns varied too much to say why: run it again on a quiet machine."
        return
    culprits = why.culprits
    gains = why.gain is not None and (why.gain.low or 0) > 1
    if not culprits and gains:
        yield "Copies help, but no attribute alone is shown to be fought over."
    elif not culprits:
        yield "Nothing in the dataset is shown to be fought over."
    elif len(culprits) == 1:
        (part,) = culprits
        cured = f"With a copy of {_title(part)} each {_times(part.cured)}"
        yield f"{cured}: it is what they fight over. {_harm(part)}."
    else:
        # A copy of one of them may cure nothing, as they may hold the same objects.
        for part in culprits:
            alone = f"with a copy of it alone {_times(part.cured)} one"
            yield f"They fight over {_title(part).rstrip(',')}. {_harm(part)}; {alone}."
    if gains:
        yield ADVICE + _condition(why)


def _condition(why: Why) -> str:
    """Return the rest of the advice: what has to be done first."""
    if not why.lacking:
        return "."
    return f", once __getstate__ leaves out what has none: {', '.join(why.lacking)}."


def _title(part: SharedPart) -> str:
    if part.name == OBJECT:
        return "the dataset object, without what its attributes hold,"
    return f"`{part.name}` ({part.kind})"


def _harm(part: SharedPart) -> str:
    nothing_else = "and nothing else "
    if part.name == OBJECT:
        nothing_else = ""
    return f"Threads that share it {nothing_else}are {_times(part.harm)} slower"


def _rest(why: Why) -> Iterator[str]:
    """Yield what limits the threads apart from what copies cure."""
    if why.unclear or why.best.ratio >= SCALES * why.threads:
        return
    rest = f"What no copy cures: {figure(why.best.ratio)} of {why.threads} times."
    if why.waits:
        waits = "; ".join(f"{share:.0%} at {line}" for line, share in why.waits)
        yield f"{rest} Of their time, the threads spend more than one thread does: {waits}"
    else:
        yield f"{rest} They wait for each other at no line. What is left is {ELSEWHERE}."


def _times(ratio: Ratio) -> str:
    return f"{_figures(ratio)} times"


def _figures(ratio: Ratio) -> str:
    """Return a ratio with its interval: "1.40 (1.35 to 1.45)"."""
    if ratio.low is None or ratio.high is None:
        return figure(ratio.ratio)
    return f"{figure(ratio.ratio)} ({figure(ratio.low)} to {figure(ratio.high)})"


def _table(why: Why) -> Table:
    head = ("shared, and nothing else", "times slower", "with a copy of it: times one thread", "")
    rows = []
    for part in why.parts:
        name, verdict = part.name, ""
        if part.name == OBJECT:
            name = "the dataset object"
        if part in why.culprits:
            verdict = "fought over"
        rows.append((name, _figures(part.harm), _figures(part.cured), verdict))
    return Table(head, tuple(rows), frozenset({1, 2}))
