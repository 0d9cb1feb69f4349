"""The verdict on the runs of a script, by statistics. Its sentences are in ftsafety.repro.verdict_words.

Failures are tested in groups: all failures; failures of the same kind and name; failures of the same kind, name and
place. So a crash that occurs only without the GIL is found, even if the script raises an exception everywhere.

If a failure was seen in some configurations only, Fisher's exact test decides: the difference is reported if it is
unlikely to be chance. Bonferroni's correction accounts for the number of tests.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ftrun.configurations import CONFIGURATIONS
from ftsafety.repro.campaign import Runs
from ftsafety.repro.outcome import SEVERITY, Kind, Outcome, Signature

SIGNIFICANT = 0.05
CONFIDENCE = 0.95
MOST_GROUPS = 10  # of signatures without their places, and with them


class Pattern(enum.Enum):
    """The configurations in which a script fails. A member's value is the exit status of ``./twins repro``."""

    NOT_REPRODUCED = 0
    WITHOUT_GIL = 10
    FREE_THREADED = 11
    EVERYWHERE = 12
    OTHER = 13
    UNJUDGED = 14
    NOT_BEGUN = 15


_NAMED = {
    ("ft",): Pattern.WITHOUT_GIL,
    ("ft-gil", "ft"): Pattern.FREE_THREADED,
    ("gil", "ft-gil", "ft"): Pattern.EVERYWHERE,
}
# Of several signatures, the one whose pattern comes first makes the headline.
_SOUGHT = (Pattern.WITHOUT_GIL, Pattern.FREE_THREADED)


@dataclass(frozen=True)
class FailureCounts:
    """Counts, by configuration, of one group of failures: all failures, or those with the same signature."""

    signature: Signature | None
    """None for the group of all failures. A signature without a place stands for its failures at any place."""
    seen: Mapping[str, tuple[int, int]]
    """By configuration: (runs with this failure, runs that could show it). A crash hides milder failures."""
    pattern: Pattern = Pattern.OTHER
    p: float | None = None
    """Fisher's p, Bonferroni-corrected: configurations with this failure against those without; None if all have it."""

    @property
    def failing(self) -> tuple[str, ...]:
        return tuple(config for config, (number, _) in self.seen.items() if number)


@dataclass(frozen=True)
class Verdict:
    """Verdict on the runs, with the statistics behind it."""

    pattern: Pattern
    judged: tuple[str, ...] = ()
    """The configurations with at least one run that counts."""
    unknown: tuple[str, ...] = ()
    """The configurations with missing runs, or in which most runs do not count."""
    main: FailureCounts | None = None
    """The finding that the report's first sentence states; None if nothing failed."""
    besides: tuple[FailureCounts, ...] = ()
    """Findings on failures with other signatures."""
    level: float = SIGNIFICANT

    @property
    def failing(self) -> tuple[str, ...]:
        return self.main.failing if self.main else ()

    @property
    def certain(self) -> bool:
        """True unless the failure `main` was seen in some configurations only, and this may be by chance."""
        return self.main is None or self.main.p is None or self.main.p < self.level


def interval(failures: int, runs: int) -> tuple[float, float]:
    """Return the Clopper-Pearson 95% interval of a failure rate. It is conservative, and valid for 0 failures too."""
    from scipy.stats import binomtest

    found = binomtest(failures, runs).proportion_ci(CONFIDENCE, method="exact")
    return float(found.low), float(found.high)


def p_value(a: tuple[int, int], b: tuple[int, int]) -> float:
    """Return the p-value of Fisher's exact test (two-sided) for two failure rates, given as (failures, runs)."""
    from scipy.stats import fisher_exact

    return float(fisher_exact([[a[0], a[1] - a[0]], [b[0], b[1] - b[0]]]).pvalue)


def total(seen: Mapping[str, tuple[int, int]], configs: Iterable[str]) -> tuple[int, int]:
    """Return the sums of failures and of runs over *configs*. *seen*: (failures, runs) by configuration."""
    chosen = [seen[config] for config in configs]
    return sum(number for number, _ in chosen), sum(of for _, of in chosen)


def judge(every: Mapping[str, Runs], level: float = SIGNIFICANT) -> Verdict:
    """Return the verdict on the runs. Runs of interpreters that were given with `--interpreter` are ignored.

    Args:
        every: the runs by configuration, from `ftsafety.repro.blocked.settled`.
        level: the significance level.
    """
    runs = {config: every[config] for config in CONFIGURATIONS if config in every}
    judged = tuple(config for config, each in runs.items() if each.counted)
    # The few runs of a configuration that count say nothing if most do not.
    unknown = tuple(
        config
        for config, each in runs.items()
        if each.missing or 2 * each.counted < len(each.outcomes) or not each.counted
    )
    if not any(each.failures for each in runs.values()):
        kinds = {outcome.kind for each in runs.values() for outcome in each.outcomes}
        if not judged and Kind.BLOCKED in kinds:
            return Verdict(Pattern.NOT_BEGUN, (), unknown)
        return Verdict(Pattern.UNJUDGED if unknown else Pattern.NOT_REPRODUCED, judged, unknown)
    groups = list(_groups(runs, judged))
    found = [_finding(runs, judged, *group) for group in groups]
    # Each group is a test. Groups that consist of the same runs are one test.
    tests = len({frozenset((config, frozenset(numbers)) for config, numbers in group.items()) for _, group in groups})
    found = [_named(replace(each, p=each.p and min(1.0, each.p * tests)), level) for each in found]
    sought = [each for pattern in _SOUGHT for each in found if each.pattern is pattern]
    main = sought[0] if sought else found[0]
    signatures = [each for each in found if each.signature and not each.signature.place]
    besides = [each for each in signatures if each.seen != main.seen and set(each.failing) - set(main.failing)]
    if main.signature is None and main.pattern not in _SOUGHT and len(signatures) > 1:
        besides = signatures  # the report names each kind of failure
    return Verdict(main.pattern, judged, unknown, main, tuple(besides), level)


_Group = dict[str, set[int]]  # numbers of runs by configuration


def signatures_of(outcome: Outcome) -> tuple[Signature, ...]:
    """Return the signatures of a failed run, () for other runs."""
    return (outcome.signatures or (Signature(outcome.kind, outcome.detail),)) if outcome.kind.failed else ()


def groups_of(outcome: Outcome) -> set[Signature]:
    """Return the groups of a failed run: each of its signatures, once with and once without its place.

    For runs that did not fail, the set is empty.
    """
    return {part for each in signatures_of(outcome) for part in (each, each._replace(place=""))}


def _groups(runs: Mapping[str, Runs], judged: Iterable[str]) -> Iterator[tuple[Signature | None, _Group]]:
    """Yield (signature, group) for each group of failures.

    A group is {configuration: numbers of the runs that had one of these failures}. First comes the group of all
    failures (signature None), then signatures without a place, then those with a place.
    """
    groups: dict[Signature | None, _Group] = {None: {}}
    counts: Counter[Signature] = Counter()
    for config in judged:
        for number, outcome in enumerate(runs[config].outcomes):
            shown = groups_of(outcome)
            for signature in shown:
                counts[signature] += 1
                groups.setdefault(signature, {}).setdefault(config, set()).add(number)
            if shown:
                groups[None].setdefault(config, set()).add(number)
    severe = sorted(counts, key=lambda each: (-SEVERITY.index(Kind(each.kind)), -counts[each], each))
    without = [each for each in severe if not each.place][:MOST_GROUPS]
    places = [each for each, _ in counts.most_common() if each.place][:MOST_GROUPS]
    yield from ((each, groups[each]) for each in (None, *without, *places))


def _finding(
    runs: Mapping[str, Runs],
    judged: Iterable[str],
    signature: Signature | None,
    group: _Group,
) -> FailureCounts:
    """Return the finding for a group of failures. The caller then sets its `pattern` and corrects its p-value."""
    # A run that ended with a more severe failure could not show this one any more.
    milder = None if signature is None else SEVERITY[: SEVERITY.index(Kind(signature.kind)) + 1]
    seen = {}
    for config in judged:
        outcomes = runs[config].outcomes
        shown = group.get(config, set())
        could = [
            number
            for number, each in enumerate(outcomes)
            if each.kind.judged and (number in shown or milder is None or not each.kind.failed or each.kind in milder)
        ]
        seen[config] = (len(shown), len(could))
    failing = [config for config, (number, _) in seen.items() if number]
    sound = [config for config, (number, of) in seen.items() if not number and of]
    return FailureCounts(signature, seen, p=p_value(total(seen, failing), total(seen, sound)) if sound else None)


def _named(finding: FailureCounts, level: float) -> FailureCounts:
    everything = {config for config, (_, of) in finding.seen.items() if of} == set(CONFIGURATIONS)
    certain = finding.p is None or finding.p < level
    return replace(
        finding, pattern=_NAMED.get(finding.failing, Pattern.OTHER) if everything and certain else Pattern.OTHER
    )
