"""The verdict on the runs of a script, by statistics.
Its sentences are in ftsafety.repro.verdict_words.

Failures are tested in groups: all failures; failures of the same kind and name; failures of the
same kind, name and place. So a crash that occurs only without the GIL is found, even if the script
raises an exception everywhere.

If a failure was seen in some configurations only, Fisher's exact test decides: the difference is
reported if it is unlikely to be chance. Bonferroni's correction accounts for the number of tests.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ftrun.configurations import CONFIGURATIONS
from ftsafety.repro.campaign import Runs, every_outcome
from ftsafety.repro.outcome import SEVERITY, Kind, Outcome, Signature

SIGNIFICANT = 0.05
CONFIDENCE = 0.95
MOST_GROUPS = 10  # of signatures without their places, and with them


class Pattern(enum.Enum):
    """The configurations in which a script fails. A member's value is the exit status
    of ``./twins repro``.
    """

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
    """Counts, by configuration, of one group of failures:
    all failures, or those with the same signature.
    """

    signature: Signature | None
    """None for the group of all failures. A signature without a place stands
    for its failures at any place.
    """
    seen: Mapping[str, tuple[int, int]]
    """By configuration: (runs with this failure, runs that could show it).
    A crash hides milder failures.
    """
    pattern: Pattern = Pattern.OTHER
    p: float | None = None
    """Fisher's p, Bonferroni-corrected: configurations with this failure against those without;
    None if all have it.
    """

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
        """True unless the failure `main` was seen in some configurations only,
        and this may be by chance.
        """
        return self.main is None or self.main.p is None or self.main.p < self.level


def interval(failures: int, runs: int) -> tuple[float, float]:
    """Return the Clopper-Pearson 95% interval of a failure rate. It is conservative, and valid for
    0 failures too.
    """
    from scipy.stats import binomtest

    estimate = binomtest(failures, runs).proportion_ci(CONFIDENCE, method="exact")
    return float(estimate.low), float(estimate.high)


def p_value(a: tuple[int, int], b: tuple[int, int]) -> float:
    """Return the p-value of Fisher's exact test (two-sided) for two failure rates,
    given as (failures, runs).
    """
    from scipy.stats import fisher_exact

    return float(fisher_exact([[a[0], a[1] - a[0]], [b[0], b[1] - b[0]]]).pvalue)


def total(counts: Mapping[str, tuple[int, int]], configs: Iterable[str]) -> tuple[int, int]:
    """Return the sums of failures and of runs over *configs*.
    *counts*: (failures, runs) by configuration.
    """
    chosen = [counts[config] for config in configs]
    return sum(failures for failures, _ in chosen), sum(runs for _, runs in chosen)


def judge(every: Mapping[str, Runs], level: float = SIGNIFICANT) -> Verdict:
    """Return the verdict on the runs. Runs of interpreters
    that were given with `--interpreter` are ignored.

    Args:
        every: the runs by configuration, from `ftsafety.repro.blocked.settled`.
        level: the significance level.
    """
    runs = {config: every[config] for config in CONFIGURATIONS if config in every}
    judged = tuple(config for config, config_runs in runs.items() if config_runs.counted)
    unknown = tuple(config for config, config_runs in runs.items() if _is_unknown(config_runs))
    if not any(config_runs.failures for config_runs in runs.values()):
        return Verdict(_pattern_without_failures(runs, judged, unknown), judged, unknown)
    groups = list(_groups(runs, judged))
    tests = _number_of_tests(groups)
    findings = []
    for signature, group in groups:
        finding = _finding(runs, judged, signature, group)
        if finding.p is not None:
            finding = replace(finding, p=min(1.0, finding.p * tests))
        findings.append(_named(finding, level))
    main = _main(findings)
    return Verdict(main.pattern, judged, unknown, main, _besides(findings, main), level)


def _is_unknown(runs: Runs) -> bool:
    """Return True if runs are missing, or if the few runs that count say nothing,
    since most do not.
    """
    return bool(runs.missing) or 2 * runs.counted < len(runs.outcomes) or not runs.counted


def _pattern_without_failures(runs: Mapping[str, Runs], judged: tuple, unknown: tuple) -> Pattern:
    if not judged and any(outcome.kind is Kind.BLOCKED for outcome in every_outcome(runs)):
        return Pattern.NOT_BEGUN
    return Pattern.UNJUDGED if unknown else Pattern.NOT_REPRODUCED


def _main(findings: list[FailureCounts]) -> FailureCounts:
    """Return the finding for the headline."""
    for pattern in _SOUGHT:
        for finding in findings:
            if finding.pattern is pattern:
                return finding
    return findings[0]


def _besides(findings: list[FailureCounts], main: FailureCounts) -> tuple[FailureCounts, ...]:
    """Return the findings on kinds of failure that the report names in addition to *main*."""
    kinds = [finding for finding in findings if finding.signature and not finding.signature.place]
    if main.signature is None and main.pattern not in _SOUGHT and len(kinds) > 1:
        return tuple(kinds)
    elsewhere = [finding for finding in kinds if set(finding.failing) - set(main.failing)]
    return tuple(finding for finding in elsewhere if finding.seen != main.seen)


_Group = dict[str, set[int]]  # numbers of runs by configuration


def signatures_of(outcome: Outcome) -> tuple[Signature, ...]:
    """Return the signatures of a failed run, () for other runs."""
    if not outcome.kind.failed:
        return ()
    return outcome.signatures or (Signature(outcome.kind, outcome.detail),)


def groups_of(outcome: Outcome) -> set[Signature]:
    """Return the groups of a failed run: each of its signatures,
    once with and once without its place.

    For runs that did not fail, the set is empty.
    """
    signatures = signatures_of(outcome)
    return {*signatures, *(signature._replace(place="") for signature in signatures)}


def _number_of_tests(groups: list[tuple[Signature | None, _Group]]) -> int:
    """Return the number of groups. Groups that consist of the same runs are one test."""
    tests = set()
    for _, group in groups:
        tests.add(frozenset((config, frozenset(numbers)) for config, numbers in group.items()))
    return len(tests)


def _groups(
    runs: Mapping[str, Runs], judged: Iterable[str]
) -> Iterator[tuple[Signature | None, _Group]]:
    """Yield (signature, group) for each group of failures.

    A group is {configuration: numbers of the runs that had one of these failures}. First comes the
    group of all failures (signature None), then signatures without a place, then those with a
    place.
    """
    groups: dict[Signature | None, _Group] = {None: {}}
    counts: Counter[Signature] = Counter()
    for config in judged:
        for number, outcome in enumerate(runs[config].outcomes):
            signatures = groups_of(outcome)
            for signature in signatures:
                counts[signature] += 1
                groups.setdefault(signature, {}).setdefault(config, set()).add(number)
            if signatures:
                groups[None].setdefault(config, set()).add(number)

    def order(signature: Signature) -> tuple:
        return -SEVERITY.index(Kind(signature.kind)), -counts[signature], signature

    severe = sorted(counts, key=order)
    without = [signature for signature in severe if not signature.place][:MOST_GROUPS]
    places = [signature for signature, _ in counts.most_common() if signature.place][:MOST_GROUPS]
    for chosen in (None, *without, *places):
        yield chosen, groups[chosen]


def _finding(
    runs: Mapping[str, Runs], judged: Iterable[str], signature: Signature | None, group: _Group
) -> FailureCounts:
    """Return the finding for a group of failures. The caller then sets its `pattern`
    and corrects its p-value.
    """
    # A run that ended with a more severe failure could not show this one any more.
    milder = None if signature is None else SEVERITY[: SEVERITY.index(Kind(signature.kind)) + 1]
    counts = {}
    for config in judged:
        numbers = group.get(config, set())
        capable = 0
        for number, outcome in enumerate(runs[config].outcomes):
            if number in numbers or (outcome.kind.judged and _could_show(outcome, milder)):
                capable += 1
        counts[config] = (len(numbers), capable)
    failing = [config for config, (number, _) in counts.items() if number]
    sound = [config for config, (number, capable) in counts.items() if not number and capable]
    p = p_value(total(counts, failing), total(counts, sound)) if sound else None
    return FailureCounts(signature, counts, p=p)


def _could_show(outcome: Outcome, milder: tuple[Kind, ...] | None) -> bool:
    return milder is None or not outcome.kind.failed or outcome.kind in milder


def _named(finding: FailureCounts, level: float) -> FailureCounts:
    """Return the finding with its pattern."""
    capable = {config for config, (_, runs) in finding.seen.items() if runs}
    certain = finding.p is None or finding.p < level
    if not certain or capable != set(CONFIGURATIONS):
        return finding
    return replace(finding, pattern=_NAMED.get(finding.failing, Pattern.OTHER))
