"""The sentences of a report: the verdict, and remarks that qualify it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ftrun.configurations import CONFIGURATIONS
from ftsafety.repro.blocked import lacking, reason, stopped
from ftsafety.repro.campaign import Runs, every_outcome
from ftsafety.repro.outcome import Kind, Signature
from ftsafety.repro.verdict import FailureCounts, Pattern, Verdict, interval, p_value, total

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
    return signature.what + (f" at {signature.place}" if signature.place else "")


def sentence(verdict: Verdict, runs: Mapping[str, Runs]) -> str:
    """Return the verdict in one sentence."""
    if verdict.pattern is Pattern.NOT_BEGUN:
        why = "; ".join(reason(blocker) for blocker in stopped(runs))
        return f"Did not get to its bug: {why}."
    if not verdict.judged:
        return f"Cannot be judged: no run could be counted ({_why_not(runs, runs)})."
    if verdict.pattern is Pattern.UNJUDGED:
        were, why = _were(verdict.unknown), _why_not(runs, verdict.unknown)
        return f"Cannot be judged: no run failed, but {were} not run to the end ({why})."
    if verdict.main is None:
        return _not_reproduced(verdict, runs)
    p = verdict.main.p
    effects = _seen(verdict.main)
    if not verdict.certain:
        always = all(
            failures == number for failures, number in verdict.main.seen.values() if failures
        )
        rarely = "too few runs" if always else "too rarely"
        return (
            f"Fails, but {rarely} to tell where: {effects}; this difference may be chance "
            f"(Fisher's exact test: p = {p:.2g}). Run more with --repeat."
        )
    test = "" if p is None else f" (Fisher's exact test: p = {p:.2g})"
    return f"{_claim(verdict)}: {effects}{test}."


def _not_reproduced(verdict: Verdict, runs: Mapping[str, Runs]) -> str:
    numbers = {runs[config].counted for config in verdict.judged}
    counts = " and ".join(sorted(map(str, numbers)))
    high = interval(0, min(numbers))[1]
    surely = f"with 95% confidence it fails in less than {high:.0%} of runs."
    return f"Not reproduced in {counts} runs of each configuration; {surely}"


def remarks(verdict: Verdict, runs: Mapping[str, Runs]) -> Iterator[str]:
    """Yield sentences that qualify the verdict: further failures, runs that are missing or do not
    count, and why.
    """
    for finding in verdict.besides:
        assert finding.signature is not None
        p = "" if finding.p is None else f" (p = {finding.p:.2g})"
        yield f"Besides, {named(finding.signature)}{_where(finding, verdict)}: {_seen(finding)}{p}."
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
    absent = [config for config in CONFIGURATIONS if config not in verdict.judged]
    if verdict.judged and absent:
        yield f"Nothing is known of {', '.join(absent)}."
    if verdict.failing == verdict.judged:
        yield from _more_often(verdict)


def _missing(runs: Mapping[str, Runs]) -> Iterator[str]:
    """Yield a sentence for each reason why runs are missing."""
    configs_of_reasons: dict[str, list[str]] = {}
    for config, config_runs in runs.items():
        if config_runs.missing:
            configs_of_reasons.setdefault(config_runs.missing, []).append(config)
    for why, configs in configs_of_reasons.items():
        begun = any(runs[config].outcomes for config in configs)
        yield f"{_were(configs)} not run{' to the end' if begun else ''}: {why}."


def _uncounted(config: str, runs: Runs) -> Iterator[str]:
    """Yield a sentence for each reason why runs of *config* do not count."""
    left_out = [outcome for outcome in runs.outcomes if not outcome.kind.judged]
    blocked = {outcome.detail for outcome in left_out if outcome.kind is Kind.BLOCKED}
    for detail, number in Counter(outcome.detail for outcome in left_out).items():
        why = f": {detail}" if detail else ""
        count = "did not get to the bug" if detail in blocked else "do not count"
        yield f"{number} of {len(runs.outcomes)} runs of {config} {count}{why}."


def _outlasted(config: str, limited: Runs, runs: Mapping[str, Runs]) -> Iterator[str]:
    """Yield a sentence if runs of *config* had not failed at the time limit.
    *runs*: those of all configurations.
    """
    spent = [outcome.seconds for outcome in limited.outcomes if outcome.kind is Kind.OUTLASTED]
    if spent:
        failures = [outcome.seconds for outcome in every_outcome(runs) if outcome.kind.failed]
        yield (
            f"{len(spent)} of {len(limited.outcomes)} runs of {config} had not failed within "
            f"{min(spent):.0f} s, when the time limit ended them; the runs that failed did so "
            f"within {max(failures):.2g} s."
        )


def others(runs: Mapping[str, Runs]) -> Iterator[str]:
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
    fixes = max(
        description["interpreter"]["upstream_fixes"] for description in descriptions.values()
    )
    version = next(iter(descriptions.values()))["interpreter"]["version"]
    if fixes:
        # The header of a script of the gallery (repro/README.md).
        header = re.search(
            rf"^# Package: CPython\n# Fails: {re.escape(version)}$", source, re.MULTILINE
        )
        fails = "fails, as the script's header says" if header else "may fail"
        yield (
            f"This CPython {version} has {fixes} upstream fixes (docs/interpreters.md). An "
            f"unpatched {version} {fails}: --interpreter PATH adds it."
        )


def _seen(finding: FailureCounts) -> str:
    effect = "failed" if finding.signature is None else "showed it"
    counts = finding.seen.items()
    return ", ".join(
        f"{number} of {runs} runs {effect} in {config}" for config, (number, runs) in counts if runs
    )


def _claim(verdict: Verdict) -> str:
    assert verdict.main is not None
    signature = verdict.main.signature
    subject = "Fails" if signature is None else named(signature)
    if verdict.pattern in _CLAIMS:
        return f"{subject} {_CLAIMS[verdict.pattern]}"
    alone = " (no other configuration could be judged)" if len(verdict.judged) == 1 else ""
    if alone and verdict.failing == ("ft",):
        return f"{subject} without the GIL{alone}"
    where = " and on ".join(CONFIGURATIONS[config].build for config in verdict.failing) + alone
    return f"{subject} on {where}" + (
        "" if verdict.failing == verdict.judged else ", and only there"
    )


def _where(finding: FailureCounts, verdict: Verdict) -> str:
    if finding.failing == verdict.judged and len(verdict.judged) > 1:
        return " in every configuration"
    return f" {_CLAIMS[finding.pattern]}" if finding.pattern in _CLAIMS else ""


def _more_often(verdict: Verdict) -> Iterator[str]:
    """Yield a sentence if the failure rates without and with the GIL differ significantly."""
    assert verdict.main is not None or not verdict.judged
    configs = [config for config in verdict.judged if config != "ft"]
    if verdict.main is None or "ft" not in verdict.judged or not configs:
        return
    without, with_ = total(verdict.main.seen, ["ft"]), total(verdict.main.seen, configs)
    p = p_value(without, with_)
    if p < verdict.level:
        more = without[0] / without[1] > with_[0] / with_[1]
        yield (
            f"It fails {'more' if more else 'less'} often without the GIL than with it (p = "
            f"{p:.2g})."
        )


def _were(configs: Iterable[str]) -> str:
    names = list(configs)
    return f"{', '.join(names)} {'was' if len(names) == 1 else 'were'}"


def _why_not(runs: Mapping[str, Runs], configs: Iterable[str]) -> str:
    """Return the reasons why runs of these configurations are missing or do not count,
    each with its configurations.
    """
    configs_of_reasons: dict[str, list[str]] = {}
    for config in configs:
        details = (outcome.detail for outcome in runs[config].outcomes if not outcome.kind.judged)
        configs_of_reasons.setdefault(
            runs[config].missing or next(details, "nothing was run"), []
        ).append(config)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in configs_of_reasons.items())
