"""Remarks on runs other than failures: output that differs, and uncaught exceptions."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from ftsafety.repro.campaign import AllRuns
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


def observations(runs: AllRuns) -> list[str]:
    """Return all remarks on the runs, each as one sentence."""
    return [
        *_noticed(runs),
        *_output(runs, "Standard output", _of_stdout),
        *_output(runs, "Standard error", _of_stderr),
    ]


def _noticed(runs: AllRuns) -> Iterator[str]:
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
            for kind in set(map(_kind, outcome.noticed)):
                counts[kind, config] += 1
    for kind, text in first.items():
        if kind[1:] not in failures:
            numbers = {config: counts[kind, config] for config in runs}
            yield f"{text} ({_shares(numbers, runs)})"


def _shares(numbers: Mapping[str, int], runs: AllRuns) -> str:
    """Return numbers of runs in words. *numbers*: by configuration."""
    words = []
    for config, number in numbers.items():
        if number:
            total = len(runs[config].outcomes)
            words.append(f"{number} of {total} runs of {config}")
    return ", ".join(words)


def _kind(text: str) -> tuple[str, str, str]:
    """Return (how it was noticed, type, place) of an exception in `Outcome.noticed`,
    without its message.
    """
    match = NOTICED.fullmatch(text)
    if match is None:
        return text, "", ""
    return match[1], match[2], match[3] or ""


def _output(runs: AllRuns, name: str, lines_of: Callable[[Outcome], Lines]) -> Iterator[str]:
    """Yield sentences that say how an output differs between configurations or from run to run.

    *name*: the output's name in the sentences. *lines_of*: returns the output's lines for one run.
    """
    outputs = _outputs(runs, lines_of)
    if len(set().union(*outputs.values())) < 2:
        return
    steady = _steady(outputs)
    if not steady:
        yield f"{name} differs from run to run in {', '.join(outputs)}."
        return
    usual = _most_common(Counter(steady.values()))
    same = [config for config, lines in steady.items() if lines == usual]
    everywhere = f"every run of {', '.join(same)}"
    for config, counts in outputs.items():
        different = counts.copy()
        del different[usual]
        if different:
            other = _most_common(different)
            yield (
                f"{name} differs: {_line(other, usual)} in a run of {config}, "
                f"{_line(usual, other)} in {everywhere}; {different.total()} of {counts.total()} "
                f"runs of {config} printed something else."
            )


def _outputs(runs: AllRuns, lines_of: Callable[[Outcome], Lines]) -> dict[str, Counter[Lines]]:
    """Return, by configuration with successful runs, the outputs of these and their numbers."""
    outputs = {}
    for config, config_runs in runs.items():
        if successes := config_runs.of_kind(Kind.OK):
            outputs[config] = Counter(map(lines_of, successes))
    return outputs


def _most_common(counts: Counter[Lines]) -> Lines:
    ((lines, _),) = counts.most_common(1)
    return lines


def _steady(outputs: Mapping[str, Counter[Lines]]) -> dict[str, Lines]:
    """Return, by configuration, the output that several runs had, and no other run."""
    steady = {}
    for config, counts in outputs.items():
        if len(counts) == 1 and counts.total() > 1:
            (steady[config],) = counts
    return steady


def _of_stdout(outcome: Outcome) -> Lines:
    return _lines(outcome.stdout)


def _of_stderr(outcome: Outcome) -> Lines:
    text = UNSEEN.sub("", outcome.stderr)  # in `noticed` already
    lines = filter(None, _lines(text))
    return tuple(itertools.filterfalse(NO_NEWS.search, lines))


def _lines(text: str) -> Lines:
    """Return the lines of *text*, sorted. "..." replaces strings that vary anyway, such as
    addresses and times.
    """
    lines = VARYING.sub("...", text).splitlines()
    return tuple(sorted(map(_without_state, lines)))


def _without_state(line: str) -> str:
    return STATE.sub("...", line) if GIL.search(line) else line


def _line(lines: Lines, compared: Lines) -> str:
    """Return the first of *lines* that is not in *compared*, as Markdown code; "fewer lines" if
    there is none.
    """
    for line in lines:
        if line not in compared:
            return f"`{line[:100]}`"
    return "fewer lines"
