"""What threads fight over, in words and as a table (``--why``)."""

from __future__ import annotations

from dataclasses import dataclass

from ftbench.measure.sharing import ALL
from ftbench.report import terminal
from ftbench.report.tables import Table
from ftbench.stats.sharing import SharedPart, Why
from ftbench.stats.statistics import Ratio

SCALES = 0.85
"""Share of the ideal speed from which threads are said to scale."""
ON_CPU = 0.8
"""Share of their time on a CPU below which threads mostly wait for something else."""


@dataclass(frozen=True)
class WhyView:
    """All words of the answer."""

    sentences: list[str]
    table: Table


def view(dataset: str, why: Why) -> WhyView:
    """Return the view of why threads scale as they do. *dataset*: its name."""
    number = why.threads
    sentences = [
        f"{dataset}: {number} threads without the GIL are {_times(why.shared)} one; "
        f"with a copy of the dataset each {_times(why.copied)} one."
    ]
    culprits = why.culprits
    if culprits:
        sentences += [_blame(part) for part in culprits]
        if ALL not in why.lacking:
            sentences.append("DataLoader(copy_dataset=True) gives each thread a copy.")
    elif why.gain.low and why.gain.low > 1:
        sentences.append(
            "Copies help, and no attribute alone is to blame: DataLoader(copy_dataset=True)."
        )
    else:
        sentences.append("No attribute is shown to be fought over.")
    sentences += _rest(why)
    sentences += [f"Not copied: {part}: {reason}" for part, reason in why.lacking.items()]
    return WhyView(sentences, _table(why))


def write(why_view: WhyView) -> None:
    """Print the answer on stdout."""
    with terminal.printed() as console:
        console.print()
        first, *others = why_view.sentences
        terminal.say(console, [first], "bold")
        terminal.say(console, others)
        console.print()
        terminal.table(console, "What a copy for each thread brings", why_view.table)


def _blame(part: SharedPart) -> str:
    return (
        f"They fight over `{part.name}`: threads that share it, and nothing else, are "
        f"{_slower(part.harm)}; a copy of it alone makes them {_times(part.cure)} as fast."
    )


def _rest(why: Why) -> list[str]:
    ideal = why.threads
    if why.copied.ratio >= SCALES * ideal:
        return []
    rest = f"What no copy cures: {why.copied.ratio:.2f} of {ideal} times"
    if why.busy < ON_CPU:
        return [
            f"{rest}. The threads are on a CPU {why.busy:.0%} of the time: they wait for a lock, a "
            "disk or a network, or other programs have the CPUs."
        ]
    return [f"{rest}: module globals, class attributes, the interpreter or the machine's memory."]


def _times(ratio: Ratio) -> str:
    interval = f" ({ratio.low:.2f} to {ratio.high:.2f})" if ratio.low and ratio.high else ""
    return f"{ratio.ratio:.2f} times{interval}"


def _slower(harm: Ratio) -> str:
    interval = f" ({harm.low:.2f} to {harm.high:.2f})" if harm.low and harm.high else ""
    return f"{harm.ratio:.2f} times slower{interval}"


def _table(why: Why) -> Table:
    head = ("attribute", "shared: slower", "a copy of it alone", "fought over")
    rows = [
        (part.name, _times(part.harm), _times(part.cure), "yes" if part.fought_over else "")
        for part in why.parts
    ]
    rows.append(("everything", _times(why.gain), "", ""))
    return Table(head, tuple(rows), frozenset({1, 2}))
