"""The sentences of a report: the verdict, and remarks that qualify it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ftrun.configurations import CONFIGURATIONS
from ftsafety.repro.blocked import lacking, reason, stopped
from ftsafety.repro.campaign import AllRuns, Runs, every_outcome, names_by_value
from ftsafety.repro.outcome import Kind, Signature
from ftsafety.repro.verdict import FailureCounts, Pattern, ScriptVerdict, interval, p_value, total

_CLAIMS = {
    Pattern.WITHOUT_GIL: "only without the GIL",
    Pattern.FREE_THREADED: "on the free-threaded build even with the GIL on",
    Pattern.EVERYWHERE: "everywhere",
}


def rate(failures: int, runs: int) -> str:
    """Return a failure rate with its interval: "25% (9% to 49%)"."""
    if not runs:
        return "-"
    low, high = interval(failures, runs)
    return f"{failures / runs:.0%} ({low:.0%} to {high:.0%})"


def named(signature: Signature) -> str:
    """Return a signature in words: "SIGSEGV", "IndexError at bug.py:12 in f"."""
    if not signature.place:
        return signature.what
    return f"{signature.what} at {signature.place}"


def sentence(verdict: ScriptVerdict, runs: AllRuns) -> str:
    """Return the verdict in one sentence."""
    if verdict.pattern is Pattern.NOT_BEGUN:
        return f"Did not get to its bug: {'; '.join(map(reason, stopped(runs)))}."
    if not verdict.judged:
        return f"Cannot be judged: no run could be counted ({_why_not(runs, runs)})."
    if verdict.pattern is Pattern.UNJUDGED:
        were = _were(verdict.unknown)
        why = _why_not(runs, verdict.unknown)
        return f"Cannot be judged: no run failed, but {were} not run to the end ({why})."
    if verdict.main is None:
        return _not_reproduced(verdict, runs)
    if not verdict.certain:
        return _uncertain(verdict.main)
    test = ""
    if verdict.main.p is not None:
        test = f" ({_fisher(verdict.main.p)})"
    return f"{_claim(verdict)}: {_seen(verdict.main)}{test}."


def _not_reproduced(verdict: ScriptVerdict, runs: AllRuns) -> str:
    numbers = {runs[config].counted for config in verdict.judged}
    counts = " and ".join(sorted(map(str, numbers)))
    high = interval(0, min(numbers))[1]
    surely = f"with 95% confidence it fails in less than {high:.0%} of runs."
    return f"Not reproduced in {counts} runs of each configuration; {surely}"


def _uncertain(finding: FailureCounts) -> str:
    rarely = "too few runs"
    for config in finding.failing:
        if finding.counts[config].successes:
            rarely = "too rarely"
    return (
        f"Fails, but {rarely} to tell where: {_seen(finding)}; this difference may be chance "
        f"({_fisher(finding.p)}). Run more with --repeat."
    )


def _fisher(p: float | None) -> str:
    return f"Fisher's exact test: p = {p:.2g}"


def remarks(verdict: ScriptVerdict, runs: AllRuns) -> Iterator[str]:
    """Yield sentences that qualify the verdict: further failures, runs that are missing or do not
    count, and why.
    """
    for finding in verdict.besides:
        yield _besides(finding, verdict)
    yield from _missing(runs)
    for config, config_runs in runs.items():
        yield from _uncounted(config, config_runs)
        yield from _outlasted(config, config_runs, runs)
        if config_runs.forced_off:
            yield (
                f"The other runs of {config} were made with PYTHON_GIL=0, which keeps the GIL off. "
                "Without it this script runs with the GIL even on the free-threaded build."
            )
    for blocker, configs in lacking(runs).items():
        yield f"A part of it did not run in {', '.join(configs)}: {reason(blocker)}."
    if verdict.judged:
        yield from _unknown(verdict)
    if verdict.failing == verdict.judged:
        yield from _more_often(verdict)


def _besides(finding: FailureCounts, verdict: ScriptVerdict) -> str:
    assert finding.signature is not None
    p = ""
    if finding.p is not None:
        p = f" (p = {finding.p:.2g})"
    name = named(finding.signature)
    where = _where(finding, verdict)
    return f"Besides, {name}{where}: {_seen(finding)}{p}."


def _missing(runs: AllRuns) -> Iterator[str]:
    """Yield a sentence for each reason why runs are missing."""
    reasons = ((config, config_runs.missing) for config, config_runs in runs.items())
    for why, configs in names_by_value(reasons).items():
        if not why:
            continue
        to_the_end = ""
        for config in configs:
            if runs[config].outcomes:
                to_the_end = " to the end"
        yield f"{_were(configs)} not run{to_the_end}: {why}."


def _uncounted(config: str, runs: Runs) -> Iterator[str]:
    """Yield a sentence for each reason why runs of *config* do not count."""
    blocked = {outcome.detail for outcome in runs.of_kind(Kind.BLOCKED)}
    for detail, number in Counter(runs.uncounted_details()).items():
        why = f": {detail}" if detail else ""
        count = "did not get to the bug" if detail in blocked else "do not count"
        share = f"{number} of {len(runs.outcomes)}"
        yield f"{share} runs of {config} {count}{why}."


def _outlasted(config: str, limited: Runs, runs: AllRuns) -> Iterator[str]:
    """Yield a sentence if runs of *config* had not failed at the time limit.
    *runs*: those of all configurations.
    """
    outlasted = limited.of_kind(Kind.OUTLASTED)
    if outlasted:
        limit = min(outcome.seconds for outcome in outlasted)
        failures = [outcome.seconds for outcome in every_outcome(runs) if outcome.kind.failed]
        share = f"{len(outlasted)} of {len(limited.outcomes)}"
        yield (
            f"{share} runs of {config} had not failed within {limit:.0f} s, when the time limit "
            f"ended them; the runs that failed did so within {max(failures):.2g} s."
        )


def _unknown(verdict: ScriptVerdict) -> Iterator[str]:
    absent = [config for config in CONFIGURATIONS if config not in verdict.judged]
    if absent:
        yield f"Nothing is known of {', '.join(absent)}."


def others(runs: AllRuns) -> Iterator[str]:
    """Yield a sentence on each interpreter that --interpreter names.
    The verdict leaves these interpreters out.
    """
    for config, config_runs in runs.items():
        if config not in CONFIGURATIONS and config_runs.outcomes:
            yield f"{config}: {config_runs.failures} of {config_runs.counted} runs failed."


def unpatched(descriptions: Mapping[str, dict], source: str) -> Iterator[str]:
    """Yield a sentence if the interpreters have fixes that official releases lack.
    *source*: the script's source.
    """
    interpreters = [description["interpreter"] for description in descriptions.values()]
    fixes = max(interpreter["upstream_fixes"] for interpreter in interpreters)
    version = interpreters[0]["version"]
    if fixes:
        # The header of a script of the gallery (repro/README.md).
        header = rf"^# Package: CPython\n# Fails: {re.escape(version)}$"
        fails = "may fail"
        if re.search(header, source, re.MULTILINE):
            fails = "fails, as the script's header says"
        yield (
            f"This CPython {version} has {fixes} upstream fixes (docs/interpreters.md). An "
            f"unpatched {version} {fails}: --interpreter PATH adds it."
        )


def _seen(finding: FailureCounts) -> str:
    effect = "failed" if finding.signature is None else "showed it"
    words = []
    for config in finding.capable:
        count = finding.counts[config]
        share = f"{count.failures} of {count.runs}"
        words.append(f"{share} runs {effect} in {config}")
    return ", ".join(words)


def _claim(verdict: ScriptVerdict) -> str:
    assert verdict.main is not None
    subject = "Fails"
    if verdict.main.signature is not None:
        subject = named(verdict.main.signature)
    if verdict.pattern in _CLAIMS:
        return f"{subject} {_CLAIMS[verdict.pattern]}"
    return f"{subject} {_conditions(verdict)}"


def _conditions(verdict: ScriptVerdict) -> str:
    """Return where the script fails, for patterns that have no name of their own."""
    alone = ""
    if len(verdict.judged) == 1:
        alone = " (no other configuration could be judged)"
        if verdict.failing == ("ft",):
            return f"without the GIL{alone}"
    builds = [CONFIGURATIONS[config].build for config in verdict.failing]
    only_there = "" if verdict.failing == verdict.judged else ", and only there"
    return f"on {' and on '.join(builds)}{alone}{only_there}"


def _where(finding: FailureCounts, verdict: ScriptVerdict) -> str:
    if finding.failing == verdict.judged and len(verdict.judged) > 1:
        return " in every configuration"
    if finding.pattern in _CLAIMS:
        return f" {_CLAIMS[finding.pattern]}"
    return ""


def _more_often(verdict: ScriptVerdict) -> Iterator[str]:
    """Yield a sentence if the failure rates without and with the GIL differ significantly."""
    assert verdict.main is not None or not verdict.judged
    configs = verdict.judged_with_gil
    if verdict.main is None or "ft" not in verdict.judged or not configs:
        return
    counts = verdict.main.counts
    without = counts["ft"]
    with_ = total(counts, configs)
    p = p_value(without, with_)
    if p < verdict.level:
        more = "more" if without.rate > with_.rate else "less"
        yield f"It fails {more} often without the GIL than with it (p = {p:.2g})."


def _were(configs: Iterable[str]) -> str:
    names = list(configs)
    verb = "was" if len(names) == 1 else "were"
    return f"{', '.join(names)} {verb}"


def _why_not(runs: AllRuns, configs: Iterable[str]) -> str:
    """Return the reasons why runs of these configurations are missing or do not count,
    each with its configurations.
    """
    reasons = names_by_value((config, _why_missing(runs[config])) for config in configs)
    words = []
    for why, names in reasons.items():
        words.append(f"{', '.join(names)}: {why}")
    return "; ".join(words)


def _why_missing(runs: Runs) -> str:
    if runs.missing:
        return runs.missing
    return next(iter(runs.uncounted_details()), "nothing was run")
