"""What may be said of a script after so many runs: in words, with rates and their uncertainty.

A failure that was seen in one configuration alone is only called a failure *of* that configuration if
Fisher's exact test says that so uneven a distribution would be rare by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ftrun.configurations import CONFIGURATIONS
from ftsafety.repro.campaign import Runs
from ftsafety.repro.outcome import NOT_JUDGED

SIGNIFICANT = 0.05
CONFIDENCE = 0.95

NOT_REPRODUCED, WITHOUT_GIL, FREE_THREADED, EVERYWHERE, OTHER, UNJUDGED = range(6)
EXIT_STATUS = {NOT_REPRODUCED: 0, WITHOUT_GIL: 10, FREE_THREADED: 11, EVERYWHERE: 12, OTHER: 13, UNJUDGED: 14}

CONFIGS = tuple(CONFIGURATIONS)


@dataclass(frozen=True)
class Verdict:
    """A verdict: its class, one sentence, and what qualifies it."""

    kind: int
    sentence: str
    remarks: tuple[str, ...] = ()

    @property
    def exit_status(self) -> int:
        return EXIT_STATUS[self.kind]


def interval(failures: int, runs: int) -> tuple[float, float]:
    """The Clopper-Pearson interval of a failure rate: conservative, and right for 0 of n as well."""
    from scipy.stats import binomtest

    found = binomtest(failures, runs).proportion_ci(CONFIDENCE, method="exact")
    return float(found.low), float(found.high)


def rate(failures: int, runs: int) -> str:
    """A failure rate in words, with its interval."""
    if not runs:
        return "-"
    low, high = interval(failures, runs)
    return f"{failures / runs:.0%} ({low:.0%} to {high:.0%})"


def p_value(a: tuple[int, int], b: tuple[int, int]) -> float:
    """Fisher's exact test, two-sided, of (failures, runs) against (failures, runs)."""
    from scipy.stats import fisher_exact

    return float(fisher_exact([[a[0], a[1] - a[0]], [b[0], b[1] - b[0]]]).pvalue)


def _sum(runs: Mapping[str, Runs], configs) -> tuple[int, int]:
    return sum(runs[c].failures for c in configs), sum(runs[c].counted for c in configs)


def judge(runs: Mapping[str, Runs]) -> Verdict:
    """The verdict on the runs of some or all configurations."""
    judged = [config for config in CONFIGS if config in runs and runs[config].counted]
    remarks = tuple(_remarks(runs, judged))
    if not judged:
        return Verdict(UNJUDGED, f"Cannot be judged: no run could be counted ({_why_not(runs, runs)}).", remarks)
    failing = [config for config in judged if runs[config].failures]
    sound = [config for config in judged if not runs[config].failures]
    # What most runs of a configuration did not come to, the few others do not show.
    unknown = [
        config for config, each in runs.items() if each.missing or each.counted < each.not_judged or not each.counted
    ]
    if not failing and unknown:
        return Verdict(
            UNJUDGED,
            f"Cannot be judged: no run failed, but {_were(unknown)} not run to the end ({_why_not(runs, unknown)}).",
            remarks,
        )
    if not failing:
        counts = " and ".join(sorted({str(runs[config].counted) for config in judged}))
        high = max(interval(0, runs[config].counted)[1] for config in judged)
        return Verdict(
            NOT_REPRODUCED,
            f"Not reproduced in {counts} runs of each configuration; with 95% confidence it "
            f"fails in less than {high:.0%} of runs.",
            remarks,
        )
    kind, claim = _pattern(failing, judged)
    seen = ", ".join(f"{runs[c].failures} of {runs[c].counted} runs failed in {c}" for c in judged)
    if not sound:
        return Verdict(kind, f"{claim}: {seen}.", (*remarks, *_more_often(runs, judged)))
    p = p_value(_sum(runs, failing), _sum(runs, sound))
    if p < SIGNIFICANT:
        return Verdict(kind, f"{claim}: {seen} (Fisher's exact test: p = {p:.2g}).", remarks)
    return Verdict(
        OTHER,
        f"Fails, but too rarely to tell where: {seen}; this difference may be chance "
        f"(Fisher's exact test: p = {p:.2g}). Run more with --repeat.",
        remarks,
    )


def _pattern(failing: list[str], judged: list[str]) -> tuple[int, str]:
    if set(judged) == set(CONFIGS):
        named = {
            ("ft",): (WITHOUT_GIL, "Fails only without the GIL"),
            ("ft-gil", "ft"): (FREE_THREADED, "Fails on the free-threaded build even with the GIL on"),
            CONFIGS: (EVERYWHERE, "Fails everywhere"),
        }
        if tuple(failing) in named:
            return named[tuple(failing)]
    elif failing == judged == ["ft"]:
        return OTHER, "Fails without the GIL (nothing else was run)"
    where = " and on ".join(CONFIGURATIONS[config].build for config in failing)
    return OTHER, f"Fails on {where}" + ("" if failing == judged else ", and only there")


def _more_often(runs: Mapping[str, Runs], judged: list[str]):
    """Where everything fails: whether it fails more often without the GIL."""
    if "ft" not in judged or len(judged) < 2:
        return
    others = [config for config in judged if config != "ft"]
    without, with_ = _sum(runs, ["ft"]), _sum(runs, others)
    p = p_value(without, with_)
    if p < SIGNIFICANT:
        more = without[0] / without[1] > with_[0] / with_[1]
        yield f"It fails {'more' if more else 'less'} often without the GIL than with it (p = {p:.2g})."


def _remarks(runs: Mapping[str, Runs], judged: list[str]):
    for why in dict.fromkeys(each.missing for each in runs.values() if each.missing):
        configs = [config for config, each in runs.items() if each.missing == why]
        begun = any(runs[config].outcomes for config in configs)
        yield f"{_were(configs)} not run{' to the end' if begun else ''}: {why}."
    for config, each in runs.items():
        left_out = [outcome for outcome in each.outcomes if outcome.kind in NOT_JUDGED]
        for detail in dict.fromkeys(outcome.detail for outcome in left_out):
            number = sum(outcome.detail == detail for outcome in left_out)
            yield f"{number} of {len(each.outcomes)} runs of {config} do not count: {detail}."
        if each.forced_off:
            yield (
                "The other runs of ft were made with PYTHON_GIL=0, which keeps the GIL off. Without it this script "
                "runs with the GIL even on the free-threaded build."
            )
    absent = [config for config in CONFIGS if config not in judged]
    if judged and absent:
        yield f"Nothing is known of {', '.join(absent)}."


def _were(configs: list[str]) -> str:
    return f"{', '.join(configs)} {'was' if len(configs) == 1 else 'were'}"


def _why_not(runs: Mapping[str, Runs], configs: Iterable[str]) -> str:
    """Why these configurations tell nothing: each reason once."""
    found: dict[str, list[str]] = {}
    for config in configs:
        details = (outcome.detail for outcome in runs[config].outcomes if outcome.kind in NOT_JUDGED)
        found.setdefault(runs[config].missing or next(details, "nothing was run"), []).append(config)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in found.items())
