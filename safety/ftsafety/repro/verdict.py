"""The verdict on the runs of a script: facts and statistics. Its sentences are in ftsafety.repro.phrases.

A failure that was seen in some configurations alone is only called a failure *of* these configurations if Fisher's
exact test says that so uneven a distribution would be rare by chance.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ftrun.configurations import CONFIGURATIONS
from ftsafety.repro.campaign import Runs

SIGNIFICANT = 0.05
CONFIDENCE = 0.95


class Pattern(enum.Enum):
    """The configurations in which a script fails. The value is the exit status of ``./twins repro``."""

    NOT_REPRODUCED = 0
    WITHOUT_GIL = 10
    FREE_THREADED = 11
    EVERYWHERE = 12
    OTHER = 13
    UNJUDGED = 14


_NAMED = {
    ("ft",): Pattern.WITHOUT_GIL,
    ("ft-gil", "ft"): Pattern.FREE_THREADED,
    ("gil", "ft-gil", "ft"): Pattern.EVERYWHERE,
}


@dataclass(frozen=True)
class Verdict:
    """A verdict, and the figures that it rests on."""

    pattern: Pattern
    judged: tuple[str, ...] = ()
    """The configurations of which runs could be counted."""
    failing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """The configurations that were not run, or of which most runs could not be counted."""
    p: float | None = None
    """Of failing against sound configurations; None if there are no sound ones."""


def interval(failures: int, runs: int) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a failure rate: conservative, and right for 0 of n as well."""
    from scipy.stats import binomtest

    found = binomtest(failures, runs).proportion_ci(CONFIDENCE, method="exact")
    return float(found.low), float(found.high)


def p_value(a: tuple[int, int], b: tuple[int, int]) -> float:
    """Return the p of Fisher's exact test, two-sided, of (failures, runs) against (failures, runs)."""
    from scipy.stats import fisher_exact

    return float(fisher_exact([[a[0], a[1] - a[0]], [b[0], b[1] - b[0]]]).pvalue)


def total(runs: Mapping[str, Runs], configs: Iterable[str]) -> tuple[int, int]:
    """Return (failures, runs that count) of configurations together."""
    chosen = [runs[config] for config in configs]
    return sum(each.failures for each in chosen), sum(each.counted for each in chosen)


def judge(runs: Mapping[str, Runs]) -> Verdict:
    """Return the verdict on the runs of some or all configurations."""
    judged = tuple(config for config in CONFIGURATIONS if config in runs and runs[config].counted)
    failing = tuple(config for config in judged if runs[config].failures)
    # The few runs of a configuration that count say nothing if most do not.
    unknown = tuple(
        config
        for config, each in runs.items()
        if each.missing or 2 * each.counted < len(each.outcomes) or not each.counted
    )
    if not failing:
        return Verdict(Pattern.UNJUDGED if unknown else Pattern.NOT_REPRODUCED, judged, (), unknown)
    sound = [config for config in judged if config not in failing]
    p = p_value(total(runs, failing), total(runs, sound)) if sound else None
    everything = set(judged) == set(CONFIGURATIONS)
    certain = p is None or p < SIGNIFICANT
    pattern = _NAMED.get(failing, Pattern.OTHER) if everything and certain else Pattern.OTHER
    return Verdict(pattern, judged, failing, unknown, p)
