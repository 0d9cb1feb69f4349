"""The figures of a waterfall: the ratios of its steps,
and their product, the ratio of the whole chain.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ftbench.document.model import MeasuredScenario, Start, Steps, Trial, Waterfall, WaterfallStep
from ftbench.measure.checksums import by_batch
from ftbench.plan.candidates import CONFIGS, Candidate, in_order, plural
from ftbench.plan.comparisons import Side
from ftbench.plan.metrics import METRICS
from ftbench.plan.unit import RUN
from ftbench.plan.waterfall import (
    COPIED,
    COPIES,
    PROCESSES,
    RUNS,
    STEP,
    THREADS,
    TODAY,
    TOTAL,
    cells,
)
from ftbench.stats.comparisons import CPU, MeasuredComparison, level, of_two
from ftbench.stats.statistics import Ratio
from ftrun.configurations import CONFIGURATIONS

# With fewer rounds, the width of an interval is too random to stop a run by it: rounds without a
# candidate's rare long turns have both a narrow interval and a wrong mean. Stopped from the fifth
# round on, intervals of candidates with such pauses held the truth in 91.7% of simulated runs, from
# the eighth on in 93.9%.
FEWEST_TO_STOP = 8
WIDEST = 1.3
# Metrics that are given for both ends of the chain.
ENDS = ("slowest_rank", "time_to_first_batch", "memory_mib")


Checksums = dict[str, set[int]]
"""{batch: the checksums that a candidate's trials have of it}"""


class Chain(NamedTuple):
    """The candidates of a waterfall: the start, then one more for each change."""

    links: list[tuple[str, Candidate]]
    """(name of the start or the change, candidate that the change leads to)."""
    missing: list[str]
    """The configurations and loaders that the chain lacks."""

    @property
    def start(self) -> Candidate:
        """The first candidate."""
        return self.links[0][1]

    @property
    def end(self) -> Candidate:
        """The last candidate."""
        return self.links[-1][1]


def chain(scenario: MeasuredScenario, case: str) -> Chain | None:
    """Return the chain of a case, with the most workers; None if there are no two compared
    candidates.
    """
    candidates = {}
    configs: set[str] = set()
    workers, variant = 0, THREADS
    for c in scenario.whole:
        if c.case == case:
            candidates[c.key] = c
            if c.variant in (TODAY, PROCESSES, THREADS, RUNS):
                configs.add(c.config)
                workers = max(workers, c.workers)
            if c.variant == RUNS:
                variant = RUNS
    if not configs:
        return None
    links, lacking = _links(candidates, cells(configs, variant), workers, case)
    if len(links) < 2:
        return None
    result = Chain(links, in_order(set(CONFIGS) - configs) + lacking)
    return result if _is_compared(scenario, result.end, result.start) else None


def _links(
    by_key: Mapping[str, Candidate],
    sides: Iterable[tuple[Side, str]],
    workers: int,
    case: str,
) -> tuple[list[tuple[str, Candidate]], list[str]]:
    """Return (Chain.links as far as the candidates of the *sides* are among *by_key*, the loaders
    of the candidates that are not).
    """
    links: list[tuple[str, Candidate]] = []
    lacking = []
    unreached = ""
    for side, change in sides:
        candidate = by_key.get(side.candidate(workers, case).key)
        if not candidate:
            lacking.append(plural(side.variant))
            # A change whose end could not be measured is part of the next one.
            unreached += f"{change}; " if links else ""
            continue
        name = unreached + change
        if not links and side.variant != TODAY:  # the start of a chain is no change
            name = CONFIGURATIONS[side.config].title
            if side.variant != RUNS:
                name = f"{plural(side.variant)}, {name}"
        links.append((name, candidate))
        unreached = ""
    return links, lacking


def _is_compared(scenario: MeasuredScenario, end: Candidate, start: Candidate) -> bool:
    """True if the run compares the ends of a whole chain."""
    pairs = {(pair.kind, pair.numerator, pair.denominator) for pair in scenario.pairs}
    return (TOTAL, end.key, start.key) in pairs


def apart(scenario: MeasuredScenario, start: Candidate) -> set[tuple[str, str]]:
    """Return the pairs of candidates that loaded different samples, in the case of *start*: they
    cannot be compared.

    A pair is two keys; both (a, b) and (b, a) are included. If the samples of *start* differ from
    round to round, no candidate can be checked, and the set is empty.
    """
    checksums: dict[str, Checksums] = {}
    for c in scenario.candidates:
        if c.case == start.case:
            checksums[c.key] = _checksums(scenario.trials_of(c.key))
    if max(map(len, checksums[start.key].values()), default=0) > 1:
        return set()
    different = set()
    for a, b in itertools.combinations(checksums, 2):
        if _differ(checksums[a], checksums[b]):
            different |= {(a, b), (b, a)}
    return different


def _differ(a: Checksums, b: Checksums) -> bool:
    """True if two candidates have different checksums of a batch."""
    return any(len(a[name] | b[name]) > 1 for name in a.keys() & b.keys())


def _checksums(trials: Iterable[Trial]) -> Checksums:
    checksums: Checksums = defaultdict(set)
    for trial in trials:
        by_name = by_batch(trial.first_batch, trial.rows, len(trial.turn_seconds))
        for name, checksum in by_name.items():
            checksums[name].add(checksum)
    return checksums


def waterfall(
    scenario: MeasuredScenario, comparisons: Iterable[MeasuredComparison], case: str
) -> Waterfall | None:
    """Return a case's waterfall: its total ratio, split into one ratio for each step; None if no
    chain was measured.
    """
    links = chain(scenario, case)
    if links is None:
        return None
    throughput = _steps(scenario, links, comparisons, "throughput")
    cpu = _steps(scenario, links, comparisons, CPU)
    if throughput is None or cpu is None:
        return None
    different = apart(scenario, links.start)
    others = [c.key for c in scenario.candidates if (links.start.key, c.key) in different]
    return Waterfall(
        throughput=throughput,
        workload=_workload(scenario, case),
        scenario=scenario.name,
        case=case,
        workers=links.start.workers,
        cpu_per_1000=cpu,
        ends=_ends(scenario, links.start, links.end),
        missing=links.missing,
        others=others,
    )


def _steps(
    scenario: MeasuredScenario, links: Chain, comparisons: Iterable[MeasuredComparison], metric: str
) -> Steps | None:
    """Return the figures of a chain in a metric; None if a comparison is missing, as it may be in a
    results.json from elsewhere.
    """
    estimates = {}
    for c in comparisons:
        if c.metric == metric:
            estimates[c.kind, c.numerator.key] = c.estimate
    total = estimates.get((TOTAL, links.end.key))
    steps = []
    for name, candidate in links.links[1:]:
        if estimate := estimates.get((STEP, candidate.key)):
            steps.append(WaterfallStep(estimate.change, name, candidate.key))
    if total is None or len(steps) < len(links.links) - 1:
        return None
    copies = replace(links.end, variant=COPIES).key
    further = []
    if estimate := estimates.get((STEP, copies)):
        further.append(WaterfallStep(estimate.change, COPIED, copies))
    return Steps(
        start=_start(scenario, links, metric),
        steps=steps,
        total=total.change,
        end=scenario.typical(links.end.key, metric),
        further=further,
    )


def _start(scenario: MeasuredScenario, links: Chain, metric: str) -> Start:
    name, candidate = links.links[0]
    method = ""
    if candidate.variant in (TODAY, PROCESSES):
        method = _start_method(scenario, candidate)
    if method:
        name = f"{name} ({method})"
    return Start(name, candidate.key, scenario.typical(candidate.key, metric))


def _ends(scenario: MeasuredScenario, start: Candidate, end: Candidate) -> dict[str, list[float]]:
    """Return the values of the first and the last candidate
    in the metrics of ENDS that were measured.
    """
    ends = {}
    for metric in ENDS:
        if metric in scenario.metrics:
            first = scenario.typical(start.key, metric)
            ends[metric] = [first, scenario.typical(end.key, metric)]
    return ends


def _workload(scenario: MeasuredScenario, case: str) -> str:
    """Return the name of what a case loads: "raw-size on 2 ranks: 4 MiB"."""
    name, separator = scenario.name, ": "
    if scenario.unit is RUN:
        name, separator = scenario.description, ", "
    if scenario.ranks:
        name += f" on {scenario.ranks} ranks"
    for measured in scenario.cases:
        if measured.name == case and measured.title:
            return f"{name}{separator}{measured.title}"
    return name


def _start_method(scenario: MeasuredScenario, start: Candidate) -> str:
    """Return the start method of a candidate's processes ("fork"); "" if its trials recorded
    different ones or none.
    """
    methods = {trial.start_method or "" for trial in scenario.trials_of(start.key)}
    return methods.pop() if len(methods) == 1 else ""


def precise(scenario: MeasuredScenario, precision: float) -> bool:
    """True if a scenario has enough rounds, and all intervals that answer its question are narrow.

    In a waterfall, an interval is narrow if its ends are at most a factor of 1 + *precision* from
    its middle. If the main metric is itself a ratio, an interval is narrow if its ends differ by at
    most a factor of WIDEST.
    """
    if len(scenario.rounds) < FEWEST_TO_STOP:
        return False
    main = scenario.metrics[0]
    if METRICS[main].ideal == "1":
        widths = [_half_width(level(scenario, c.key, main)) for c in scenario.whole]
        return bool(widths) and max(widths) <= math.log(WIDEST) / 2
    widths = []
    for pair in scenario.pairs:
        if pair.asked and pair.kind in (STEP, TOTAL):
            ratio = of_two(scenario, pair.numerator, pair.denominator, "throughput")
            widths.append(_half_width(ratio))
    return bool(widths) and max(widths) <= math.log1p(precision)


def _half_width(r: Ratio) -> float:
    """Return half the width of an interval, as a logarithm."""
    return math.log((r.high or 0) / (r.low or 1)) / 2
