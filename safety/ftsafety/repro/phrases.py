"""The sentences of a verdict, and of what qualifies it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ftrun.configurations import CONFIGURATIONS
from ftsafety.repro.campaign import Runs
from ftsafety.repro.verdict import SIGNIFICANT, Pattern, Verdict, interval, p_value, total

_CLAIMS = {
    Pattern.WITHOUT_GIL: "Fails only without the GIL",
    Pattern.FREE_THREADED: "Fails on the free-threaded build even with the GIL on",
    Pattern.EVERYWHERE: "Fails everywhere",
}


def rate(failures: int, runs: int) -> str:
    """Return a failure rate with its interval: "25% (9% to 49%)"."""
    if not runs:
        return "-"
    low, high = interval(failures, runs)
    return f"{failures / runs:.0%} ({low:.0%} to {high:.0%})"


def sentence(verdict: Verdict, runs: Mapping[str, Runs]) -> str:
    """Return the verdict in one sentence."""
    if not verdict.judged:
        return f"Cannot be judged: no run could be counted ({_why_not(runs, runs)})."
    if verdict.pattern is Pattern.UNJUDGED:
        were, why = _were(verdict.unknown), _why_not(runs, verdict.unknown)
        return f"Cannot be judged: no run failed, but {were} not run to the end ({why})."
    if verdict.pattern is Pattern.NOT_REPRODUCED:
        counts = " and ".join(sorted({str(runs[config].counted) for config in verdict.judged}))
        high = max(interval(0, runs[config].counted)[1] for config in verdict.judged)
        surely = f"with 95% confidence it fails in less than {high:.0%} of runs."
        return f"Not reproduced in {counts} runs of each configuration; {surely}"
    seen = ", ".join(f"{runs[c].failures} of {runs[c].counted} runs failed in {c}" for c in verdict.judged)
    if verdict.p is not None and verdict.p >= SIGNIFICANT:
        return (
            f"Fails, but too rarely to tell where: {seen}; this difference may be chance "
            f"(Fisher's exact test: p = {verdict.p:.2g}). Run more with --repeat."
        )
    test = "" if verdict.p is None else f" (Fisher's exact test: p = {verdict.p:.2g})"
    return f"{_claim(verdict)}: {seen}{test}."


def remarks(verdict: Verdict, runs: Mapping[str, Runs]) -> Iterator[str]:
    """Yield sentences that qualify the verdict: what was not run, or does not count, and why."""
    for why in dict.fromkeys(each.missing for each in runs.values() if each.missing):
        configs = [config for config, each in runs.items() if each.missing == why]
        begun = any(runs[config].outcomes for config in configs)
        yield f"{_were(configs)} not run{' to the end' if begun else ''}: {why}."
    for config, each in runs.items():
        left_out = [outcome.detail for outcome in each.outcomes if not outcome.kind.judged]
        for detail in dict.fromkeys(left_out):
            yield f"{left_out.count(detail)} of {len(each.outcomes)} runs of {config} do not count: {detail}."
        if each.forced_off:
            yield (
                "The other runs of ft were made with PYTHON_GIL=0, which keeps the GIL off. Without it this script "
                "runs with the GIL even on the free-threaded build."
            )
    absent = [config for config in CONFIGURATIONS if config not in verdict.judged]
    if verdict.judged and absent:
        yield f"Nothing is known of {', '.join(absent)}."
    if verdict.failing == verdict.judged:
        yield from _more_often(verdict, runs)


def _claim(verdict: Verdict) -> str:
    if verdict.pattern in _CLAIMS:
        return _CLAIMS[verdict.pattern]
    if verdict.failing == verdict.judged == ("ft",):
        return "Fails without the GIL (nothing else was run)"
    where = " and on ".join(CONFIGURATIONS[config].build for config in verdict.failing)
    return f"Fails on {where}" + ("" if verdict.failing == verdict.judged else ", and only there")


def _more_often(verdict: Verdict, runs: Mapping[str, Runs]) -> Iterator[str]:
    """Yield whether a script that fails everywhere fails more often without the GIL."""
    others = [config for config in verdict.judged if config != "ft"]
    if "ft" not in verdict.judged or not others:
        return
    without, with_ = total(runs, ["ft"]), total(runs, others)
    p = p_value(without, with_)
    if p < SIGNIFICANT:
        more = without[0] / without[1] > with_[0] / with_[1]
        yield f"It fails {'more' if more else 'less'} often without the GIL than with it (p = {p:.2g})."


def _were(configs: Iterable[str]) -> str:
    names = list(configs)
    return f"{', '.join(names)} {'was' if len(names) == 1 else 'were'}"


def _why_not(runs: Mapping[str, Runs], configs: Iterable[str]) -> str:
    """Return why these configurations tell nothing: each reason once."""
    found: dict[str, list[str]] = {}
    for config in configs:
        details = (outcome.detail for outcome in runs[config].outcomes if not outcome.kind.judged)
        found.setdefault(runs[config].missing or next(details, "nothing was run"), []).append(config)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in found.items())
