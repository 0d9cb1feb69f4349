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
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter, methodcaller
from typing import NamedTuple

from ftrun.configurations import CONFIGURATIONS
from ftsafety.repro.campaign import AllRuns, Runs
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
SOUGHT = (Pattern.WITHOUT_GIL, Pattern.FREE_THREADED)
"""Of several signatures, the one whose pattern comes first makes the headline."""


Configs = tuple[str, ...]
"""Names of configurations, in their usual order."""


class Count(NamedTuple):
    """Number of failures among runs of one or more configurations."""

    failures: int
    runs: int

    @property
    def successes(self) -> int:
        return self.runs - self.failures

    @property
    def rate(self) -> float:
        return self.failures / self.runs


@dataclass(frozen=True)
class FailureCounts:
    """Counts, by configuration, of one group of failures:
    all failures, or those with the same signature.
    """

    signature: Signature | None
    """None for the group of all failures. A signature without a place stands
    for its failures at any place.
    """
    counts: Mapping[str, Count]
    """By configuration: the runs with this failure, among those that could show it.
    A crash hides milder failures.
    """
    pattern: Pattern = Pattern.OTHER
    p: float | None = None
    """Fisher's p, Bonferroni-corrected: configurations with this failure against those without;
    None if all have it.
    """

    @property
    def failing(self) -> Configs:
        """The configurations with this failure."""
        return _configs(self.counts, attrgetter("failures"))

    @property
    def capable(self) -> Configs:
        """The configurations with runs that could show this failure."""
        return _configs(self.counts, attrgetter("runs"))

    @property
    def sound(self) -> Configs:
        """The configurations in which runs could show this failure, and none did."""
        failing = self.failing
        return tuple(config for config in self.capable if config not in failing)

    @property
    def is_kind(self) -> bool:
        """True for the failures of the same kind and name, at any place."""
        return self.signature is not None and not self.signature.place

    def is_certain(self, level: float) -> bool:
        """Return True unless the failure is in some configurations only, and may be by chance."""
        return self.p is None or self.p < level

    def adds_to(self, other: FailureCounts) -> bool:
        """Return True if this failure is in a configuration that *other* is not in."""
        further = set(self.failing) - set(other.failing)
        return bool(further) and self.counts != other.counts


@dataclass(frozen=True)
class ScriptVerdict:
    """Verdict on the runs, with the statistics behind it."""

    pattern: Pattern
    judged: Configs = ()
    """The configurations with at least one run that counts."""
    unknown: Configs = ()
    """The configurations with missing runs, or in which most runs do not count."""
    main: FailureCounts | None = None
    """The finding that the report's first sentence states; None if nothing failed."""
    besides: tuple[FailureCounts, ...] = ()
    """Findings on failures with other signatures."""
    level: float = SIGNIFICANT

    @property
    def failing(self) -> Configs:
        return self.main.failing if self.main else ()

    @property
    def judged_with_gil(self) -> Configs:
        """The judged configurations in which the GIL is on."""
        return tuple(config for config in self.judged if config != "ft")

    @property
    def certain(self) -> bool:
        """True unless the failure `main` was seen in some configurations only,
        and this may be by chance.
        """
        return self.main is None or self.main.is_certain(self.level)


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

    rows = []
    for failures, runs in (a, b):
        rows.append([failures, runs - failures])
    return float(fisher_exact(rows).pvalue)


def total(counts: Mapping[str, Count], configs: Iterable[str]) -> Count:
    """Return the sums of failures and of runs over *configs*. *counts*: by configuration."""
    failures = runs = 0
    for config in configs:
        failures += counts[config].failures
        runs += counts[config].runs
    return Count(failures, runs)


def judge(every: AllRuns, level: float = SIGNIFICANT) -> ScriptVerdict:
    """Return the verdict on the runs. Runs of interpreters
    that were given with `--interpreter` are ignored.

    Args:
        every: the runs by configuration, from `ftsafety.repro.blocked.settled`.
        level: the significance level.
    """
    runs = {config: every[config] for config in CONFIGURATIONS if config in every}
    judged = _configs(runs, attrgetter("counted"))
    unknown = _configs(runs, _is_unknown)
    if not _configs(runs, attrgetter("failures")):
        return ScriptVerdict(_pattern_without_failures(runs, judged, unknown), judged, unknown)
    findings = _findings(runs, judged, level)
    main = _main(findings)
    besides = _besides(findings, main)
    return ScriptVerdict(main.pattern, judged, unknown, main, besides, level)


def _configs[Value](values: Mapping[str, Value], test: Callable[[Value], object]) -> Configs:
    """Return the configurations whose value passes *test*. *values*: by configuration."""
    return tuple(config for config, value in values.items() if test(value))


def _is_unknown(runs: Runs) -> bool:
    """Return True if runs are missing, or if the few runs that count say nothing,
    since most do not.
    """
    if runs.missing or not runs.counted:
        return True
    return 2 * runs.counted < len(runs.outcomes)


def _pattern_without_failures(runs: AllRuns, judged: Configs, unknown: Configs) -> Pattern:
    blocked = _configs(runs, methodcaller("of_kind", Kind.BLOCKED))
    if blocked and not judged:
        return Pattern.NOT_BEGUN
    return Pattern.UNJUDGED if unknown else Pattern.NOT_REPRODUCED


def _findings(runs: AllRuns, judged: Iterable[str], level: float) -> list[FailureCounts]:
    """Return a finding for each group of failures, that of all failures first."""
    groups = _groups(runs, judged)
    # Groups that consist of the same runs are one test.
    tests = len(set(map(frozenset, groups.values())))
    findings = []
    for signature, group in groups.items():
        capable = _capable_kinds(signature)
        counts = {config: _count(runs[config], group, capable) for config in judged}
        finding = _tested(FailureCounts(signature, counts), tests)
        findings.append(_named(finding, level))
    return findings


def _main(findings: list[FailureCounts]) -> FailureCounts:
    """Return the finding for the headline."""
    for pattern in SOUGHT:
        for finding in findings:
            if finding.pattern is pattern:
                return finding
    return findings[0]


def _besides(findings: list[FailureCounts], main: FailureCounts) -> tuple[FailureCounts, ...]:
    """Return the findings on kinds of failure that the report names in addition to *main*."""
    kinds = [finding for finding in findings if finding.is_kind]
    is_of_all = main.signature is None and main.pattern not in SOUGHT
    if is_of_all and len(kinds) > 1:
        return tuple(kinds)
    return tuple(finding for finding in kinds if finding.adds_to(main))


_Group = set[tuple[str, int]]  # (configuration, number of the run)


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
    groups = set()
    for signature in signatures_of(outcome):
        groups.add(signature)
        groups.add(signature._replace(place=""))
    return groups


def _groups(runs: AllRuns, judged: Iterable[str]) -> dict[Signature | None, _Group]:
    """Return {signature: group} for each group of failures: the runs that had one of them.

    First comes the group of all failures (signature None), then signatures without a place, then
    those with a place.
    """
    groups: dict[Signature | None, _Group] = {None: set()}
    counts: Counter[Signature] = Counter()
    for config in judged:
        for number, outcome in enumerate(runs[config].outcomes):
            run = config, number
            signatures = groups_of(outcome)
            counts.update(signatures)
            for signature in signatures:
                groups.setdefault(signature, set()).add(run)
            if signatures:
                groups[None].add(run)
    chosen = (None, *_most_severe(counts), *_most_frequent_places(counts))
    return {signature: groups[signature] for signature in chosen}


def _most_severe(counts: Mapping[Signature, int]) -> list[Signature]:
    """Return the signatures without a place, the most severe and then most frequent first."""

    def order(signature: Signature) -> tuple:
        return -_severity(signature), -counts[signature], signature

    kinds = [signature for signature in counts if not signature.place]
    return sorted(kinds, key=order)[:MOST_GROUPS]


def _most_frequent_places(counts: Counter[Signature]) -> list[Signature]:
    """Return the signatures with a place, the most frequent first."""
    places = []
    for signature, _ in counts.most_common():
        if signature.place:
            places.append(signature)
    return places[:MOST_GROUPS]


def _severity(signature: Signature) -> int:
    return SEVERITY.index(Kind(signature.kind))


def _count(runs: Runs, group: _Group, capable: Container[Kind]) -> Count:
    """Count the runs in *group*, and those that are in it or of the kinds *capable*."""
    failures = total_runs = 0
    for number, outcome in enumerate(runs.outcomes):
        failed = (runs.config, number) in group
        failures += failed
        total_runs += failed or outcome.kind in capable
    return Count(failures, total_runs)


def _capable_kinds(signature: Signature | None) -> tuple[Kind, ...]:
    """Return the kinds of runs that could show the failure *signature*.

    A run that ended with a more severe failure could not any more.
    """
    failures: tuple[Kind, ...] = SEVERITY
    if signature is not None:
        failures = SEVERITY[: _severity(signature) + 1]
    return (Kind.OK, Kind.OUTLASTED, *failures)


def _tested(finding: FailureCounts, tests: int) -> FailureCounts:
    """Return the finding with its p-value, corrected for the number of *tests*."""
    sound = finding.sound
    if not sound:
        return finding
    failing = total(finding.counts, finding.failing)
    p = p_value(failing, total(finding.counts, sound))
    return replace(finding, p=min(1.0, tests * p))


def _named(finding: FailureCounts, level: float) -> FailureCounts:
    """Return the finding with its pattern."""
    everywhere = set(finding.capable) == set(CONFIGURATIONS)
    if not everywhere or not finding.is_certain(level):
        return finding
    pattern = _NAMED.get(finding.failing, Pattern.OTHER)
    return replace(finding, pattern=pattern)
