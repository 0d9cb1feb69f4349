"""Remarks on runs other than failures: output that differs, and uncaught exceptions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from ftsafety.repro.campaign import Runs
from ftsafety.repro.classify import UNSEEN
from ftsafety.repro.outcome import Kind, Outcome

# Addresses of objects, durations, times and builds (of sys.version), which always differ.
VARYING = re.compile(
    r"\b0x[0-9a-fA-F]+|\b\d+\.\d+ ?(?:m?s|seconds?)\b|\b(?:\d{4}-\d\d-\d\d[ "
    r"T])?\d\d:\d\d:\d\d(?:[.,]\d+)?\b"
    r"|(?: experimental)?(?: free-threading build)? \([^()\n]*, \w{3} +\d+ \d{4}, [\d:]+\)"
)
# The state in a line about the GIL, which differs between configurations by design.
STATE = re.compile(r"(?:\bnot )?\b(?:true|false|enabled|disabled|on|off|[01])\b", re.IGNORECASE)
GIL = re.compile(r"(?:\b|_)gil(?:\b|_)", re.IGNORECASE)
# Lines of standard error without news: of tracebacks, all but the last; progress bars.
NO_NEWS = re.compile(r'^(?:  File "|    |Traceback \()|\d(?:it/s|s/it)\b')
# A text in `Outcome.noticed`.
NOTICED = re.compile(r"([^:]*): ([\w.]+)(?:: .*?)?(?: at (\S+:\d+ in .+))?", re.DOTALL)

Lines = tuple[str, ...]


def observations(runs: Mapping[str, Runs]) -> list[str]:
    """Return all remarks on the runs, each as one sentence."""
    return [
        *_noticed(runs),
        *_output(runs, "Standard output", _of_stdout),
        *_output(runs, "Standard error", _of_stderr),
    ]


def sound(runs: Runs) -> list[Outcome]:
    """Return the outcomes of the successful runs."""
    return [outcome for outcome in runs.outcomes if outcome.kind is Kind.OK]


def _noticed(runs: Mapping[str, Runs]) -> Iterator[str]:
    """Yield each exception that did not count as a failure,
    with the number of runs that had it, by configuration.

    Exceptions with the same type and place are counted as one, even if their messages differ.
    Exceptions whose type and place made another run fail are left out.
    """
    failures: set[tuple] = set()
    first: dict[tuple, str] = {}
    counts: Counter[tuple] = Counter()
    for config, config_runs in runs.items():
        for outcome in config_runs.outcomes:
            failures.update(signature[1:] for signature in outcome.signatures)
            for text in outcome.noticed:
                first.setdefault(_kind(text), text)
            counts.update((kind, config) for kind in set(map(_kind, outcome.noticed)))
    for kind, text in first.items():
        if kind[1:] not in failures:
            where = ", ".join(
                f"{counts[kind, config]} of {len(config_runs.outcomes)} runs of {config}"
                for config, config_runs in runs.items()
                if counts[kind, config]
            )
            yield f"{text} ({where})"


def _kind(text: str) -> tuple[str, str, str]:
    """Return (how it was noticed, type, place) of an exception in `Outcome.noticed`,
    without its message.
    """
    match = NOTICED.fullmatch(text)
    return (match[1], match[2], match[3] or "") if match else (text, "", "")


def _output(
    runs: Mapping[str, Runs], name: str, lines_of: Callable[[Outcome], Lines]
) -> Iterator[str]:
    """Yield sentences that say how an output differs between configurations or from run to run.

    *name*: the output's name in the sentences. *lines_of*: returns the output's lines for one run.
    """
    outputs: dict[str, Counter[Lines]] = {}
    for config, config_runs in runs.items():
        if outcomes := sound(config_runs):
            outputs[config] = Counter(map(lines_of, outcomes))
    if len(set().union(*outputs.values())) < 2:
        return
    steady = {}
    for config, counts in outputs.items():
        if len(counts) == 1 and counts.total() > 1:
            steady[config] = next(iter(counts))
    if not steady or len(steady) == len(outputs) == 1:
        yield f"{name} differs from run to run in {', '.join(outputs)}."
        return
    usual = Counter(steady.values()).most_common(1)[0][0]
    same = [config for config, lines in steady.items() if lines == usual]
    for config, counts in outputs.items():
        different = Counter({lines: number for lines, number in counts.items() if lines != usual})
        if different:
            other = different.most_common(1)[0][0]
            more = (
                f"{different.total()} of {counts.total()} runs of {config} printed something else"
            )
            a_run, every_run = (
                f"{_line(other, usual)} in a run of {config}",
                f"{_line(usual, other)} in every run",
            )
            yield f"{name} differs: {a_run}, {every_run} of {', '.join(same)}; {more}."


def _of_stdout(outcome: Outcome) -> Lines:
    return _lines(outcome.stdout)


def _of_stderr(outcome: Outcome) -> Lines:
    text = UNSEEN.sub("", outcome.stderr)  # in `noticed` already
    return tuple(line for line in _lines(text) if line and not NO_NEWS.search(line))


def _lines(text: str) -> Lines:
    """Return the lines of *text*, sorted. "..." replaces strings that vary anyway, such as
    addresses and times.
    """
    lines = VARYING.sub("...", text).splitlines()
    return tuple(sorted(STATE.sub("...", line) if GIL.search(line) else line for line in lines))


def _line(lines: Lines, compared: Lines) -> str:
    """Return the first of *lines* that is not in *compared*, as Markdown code; "fewer lines" if
    there is none.
    """
    first = next((line for line in lines if line not in compared), None)
    return f"`{first[:100]}`" if first is not None else "fewer lines"
