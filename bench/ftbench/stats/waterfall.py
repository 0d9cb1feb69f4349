"""The figures of a waterfall: the ratios of its steps,
and their product, the ratio of the whole chain.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping

from ftbench.document.model import Scenario, Start, Steps, Waterfall, WaterfallStep
from ftbench.measure.checksums import by_batch
from ftbench.plan.candidates import CONFIGS, Candidate, plural
from ftbench.plan.metrics import METRICS
from ftbench.plan.waterfall import PROCESSES, STEP, THREADS, TODAY, TOTAL, cells
from ftbench.stats.comparisons import CPU, Comparison, level, of_two
from ftrun.configurations import CONFIGURATIONS

# With fewer rounds, the width of an interval is too random to stop a run by it: rounds without a
# candidate's rare long turns have both a narrow interval and a wrong mean. Stopped from the fifth
# round on, intervals of candidates with such pauses held the truth in 91.7% of simulated runs, from
# the eighth on in 93.9%.
FEWEST_TO_STOP = 8
WIDEST = 1.3
# Metrics that are given for both ends of the chain.
ENDS = ("slowest_rank", "time_to_first_batch", "memory_mib")

Chain = list[tuple[str, Candidate]]
"""List of (name, candidate): first the start, then each change
with the candidate that the change leads to.
"""


def chain(scenario: Scenario, case: str) -> tuple[Chain, list[str]]:
    """Return (the chain of a case, with the most workers;
    the configurations and loaders that the chain lacks).

    Return ([], []) if the case has no chain, that is, no two compared candidates.
    """
    by_key = {c.key: c for c in scenario.whole if c.case == case}
    measured_configs = {c.config for c in by_key.values()}
    if not measured_configs:
        return [], []
    links, lacking = _links(by_key, measured_configs, _most_workers(by_key.values()), case)
    if len(links) < 2 or not _is_compared(scenario, links[-1][1], links[0][1]):
        return [], []
    return links, [*(config for config in CONFIGS if config not in measured_configs), *lacking]


def _most_workers(candidates: Iterable[Candidate]) -> int:
    """Return the highest number of workers of candidates that may be in a chain;
    0 if there are none.
    """
    return max(
        (c.workers for c in candidates if c.variant in (TODAY, PROCESSES, THREADS)), default=0
    )


def _links(
    by_key: Mapping[str, Candidate], configs: set[str], workers: int, case: str
) -> tuple[Chain, list[str]]:
    """Return (the chain as far as its candidates are among *by_key*, the loaders of the candidates
    that are not).
    """
    links: Chain = []
    lacking = []
    unreached = ""
    for side, change in cells(configs):
        candidate = by_key.get(side.candidate(workers, case).key)
        if not candidate:
            lacking.append(plural(side.variant))
            # A change whose end could not be measured is part of the next one.
            unreached += f"{change}; " if links else ""
            continue
        name = unreached + change
        if not links and side.variant != TODAY:  # the start of a chain is no change
            name = f"{plural(side.variant)}, {CONFIGURATIONS[side.config].title}"
        links.append((name, candidate))
        unreached = ""
    return links, lacking


def _is_compared(scenario: Scenario, end: Candidate, start: Candidate) -> bool:
    """True if the run compares the ends of a whole chain."""
    return any(
        (p.kind, p.numerator, p.denominator) == (TOTAL, end.key, start.key) for p in scenario.pairs
    )


def apart(scenario: Scenario, start: Candidate) -> set[tuple[str, str]]:
    """Return the pairs of candidates that loaded different samples, in the case of *start*: they
    cannot be compared.

    A pair is two keys; both (a, b) and (b, a) are included. If the samples of *start* differ from
    round to round, no candidate can be checked, and the set is empty.
    """
    checksums_of: dict[str, dict[str, set[int]]] = {
        c.key: {} for c in scenario.candidates if c.case == start.case
    }
    for finished in scenario.rounds:
        for trial in finished.trials:
            if trial.candidate in checksums_of:
                for name, checksum in by_batch(
                    trial.first_batch, trial.rows, len(trial.turn_seconds)
                ).items():
                    checksums_of[trial.candidate].setdefault(name, set()).add(checksum)
    if any(len(checksums) > 1 for checksums in checksums_of[start.key].values()):
        return set()
    different = set()
    for (a, of_a), (b, of_b) in itertools.permutations(checksums_of.items(), 2):
        if any(len(of_a[name] | of_b[name]) > 1 for name in of_a.keys() & of_b.keys()):
            different.add((a, b))
    return different


def waterfall(scenario: Scenario, comparisons: Iterable[Comparison], case: str) -> Waterfall | None:
    """Return a case's waterfall: its total ratio, split into one ratio for each step; None if no
    chain was measured.
    """
    links, missing = chain(scenario, case)
    if not links:
        return None
    by_place = {
        (c.kind, c.numerator.key, c.metric): c for c in comparisons if c.kind in (STEP, TOTAL)
    }
    (name, start), *changes = links
    if start.variant in (TODAY, PROCESSES) and (method := _start_method(scenario, start)):
        name = f"{name} ({method})"
    end, different = changes[-1][1], apart(scenario, start)
    for metric in ("throughput", CPU):
        places = {(TOTAL, end.key, metric), *((STEP, c.key, metric) for _, c in changes)}
        if not by_place.keys() >= places:
            return None  # a results.json from elsewhere may lack comparisons
    links = [(name, start), *changes]
    throughput, cpu = (_steps(scenario, links, by_place, metric) for metric in ("throughput", CPU))
    return Waterfall(
        throughput=throughput,
        workload=_workload(scenario, case),
        scenario=scenario.name,
        case=case,
        workers=start.workers,
        cpu_per_1000=cpu,
        ends=_ends(scenario, start, end),
        missing=missing,
        others=[c.key for c in scenario.candidates if (start.key, c.key) in different],
    )


def _steps(
    scenario: Scenario,
    links: Chain,
    by_place: Mapping[tuple[str, str, str], Comparison],
    metric: str,
) -> Steps:
    """Return the figures of a chain in a metric.

    *by_place*: {(kind of comparison, key of the numerator, metric): comparison}.
    """
    (name, start), *changes = links
    end = changes[-1][1]
    return Steps(
        start=Start(name, start.key, scenario.typical(start.key, metric)),
        steps=[
            WaterfallStep(by_place[STEP, c.key, metric].estimate.change, change, c.key)
            for change, c in changes
        ],
        total=by_place[TOTAL, end.key, metric].estimate.change,
        end=scenario.typical(end.key, metric),
    )


def _ends(scenario: Scenario, start: Candidate, end: Candidate) -> dict[str, list[float]]:
    """Return the values of the first and the last candidate
    in the metrics of ENDS that were measured.
    """
    metrics = [metric for metric in ENDS if metric in scenario.metrics]
    return {
        metric: [scenario.typical(start.key, metric), scenario.typical(end.key, metric)]
        for metric in metrics
    }


def _workload(scenario: Scenario, case: str) -> str:
    """Return the name of what a case loads: "raw-size on 2 ranks: 4 MiB"."""
    where = f"{scenario.name} on {scenario.ranks} ranks" if scenario.ranks else scenario.name
    title = next((measured.title for measured in scenario.cases if measured.name == case), "")
    return f"{where}: {title}" if title else where


def _start_method(scenario: Scenario, start: Candidate) -> str:
    """Return the start method of a candidate's processes ("fork"); "" if its trials recorded
    different ones or none.
    """
    methods = {trial.start_method or "" for trial in scenario.trials_of(start.key)}
    return methods.pop() if len(methods) == 1 else ""


def precise(scenario: Scenario, precision: float) -> bool:
    """True if a scenario has enough rounds, and all intervals that answer its question are narrow.

    In a waterfall, an interval is narrow if its ends are at most a factor of 1 + *precision* from
    its middle. If the main metric is itself a ratio, an interval is narrow if its ends differ by at
    most a factor of WIDEST.
    """
    main = scenario.metrics[0]
    if METRICS[main].ideal == "1":
        ratios, widest = (
            [level(scenario, c.key, main) for c in scenario.whole],
            math.log(WIDEST) / 2,
        )
    else:
        pairs = [p for p in scenario.pairs if p.asked and p.kind in (STEP, TOTAL)]
        ratios = [of_two(scenario, p.numerator, p.denominator, "throughput") for p in pairs]
        widest = math.log1p(precision)
    if not ratios or len(scenario.rounds) < FEWEST_TO_STOP:
        return False
    return max(math.log((r.high or 0) / (r.low or 1)) / 2 for r in ratios) <= widest
