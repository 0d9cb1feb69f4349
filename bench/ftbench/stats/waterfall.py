"""The figures of a waterfall: the ratios of its steps, and their product, the ratio of the whole chain."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import fields

from ftbench.document.model import Change, Scenario, Start, Step, Steps, Waterfall
from ftbench.measure.checksums import by_batch
from ftbench.plan.candidates import CONFIGS, Candidate, plural
from ftbench.plan.metrics import METRICS
from ftbench.plan.waterfall import PROCESSES, STEP, THREADS, TODAY, TOTAL, cells
from ftbench.stats.comparisons import CPU, Comparison, level, of_two
from ftrun.configurations import CONFIGURATIONS

# With fewer rounds, the width of an interval is too random to stop a run by it: rounds without a candidate's rare long
# turns have both a narrow interval and a wrong mean. Stopped from the fifth round on, intervals of candidates with such
# pauses held the truth in 91.7% of simulated runs, from the eighth on in 93.9%.
FEWEST_TO_STOP = 8
WIDEST = 1.3
# Metrics that are given for both ends of the chain.
ENDS = ("slowest_rank", "time_to_first_batch", "memory_mib")

Chain = list[tuple[str, Candidate]]
"""List of (name, candidate): first the start, then each change with the candidate that the change leads to."""


def chain(scenario: Scenario, case: str) -> tuple[Chain, list[str]]:
    """Return (the chain of a case, with the most workers; the configurations and loaders that the chain lacks).

    Return ([], []) if the case has no chain, that is, no two compared candidates.
    """
    there = {c.key: c for c in scenario.whole if c.case == case}
    most = max((c.workers for c in there.values() if c.variant in (TODAY, PROCESSES, THREADS)), default=0)
    configs = [config for config in CONFIGS if any(c.config == config for c in there.values())]
    missing = [config for config in CONFIGS if config not in configs]
    found: Chain = []
    before = ""
    for side, change in cells(configs) if configs else ():
        reached = there.get(side.candidate(most, case).key)
        if reached:
            # The start of a chain is no change.
            whole = f"{plural(side.variant)}, {CONFIGURATIONS[side.config].title}"
            found.append((before + change if found or side.variant == TODAY else whole, reached))
            before = ""
        else:
            missing.append(plural(side.variant))
            # A change whose end could not be measured is part of the next one.
            before += f"{change}; " if found else ""
    if len(found) < 2 or not any(
        (p.kind, p.numerator, p.denominator) == (TOTAL, found[-1][1].key, found[0][1].key) for p in scenario.pairs
    ):
        return [], []
    return found, missing


def apart(scenario: Scenario, start: Candidate) -> set[tuple[str, str]]:
    """Return the pairs of candidates that loaded different samples, in the case of *start*: they cannot be compared.

    A pair is two keys; both (a, b) and (b, a) are included. If the samples of *start* differ from round to round, no
    candidate can be checked, and the set is empty.
    """
    seen: dict[str, dict[str, set[int]]] = {c.key: {} for c in scenario.candidates if c.case == start.case}
    for one in scenario.rounds:
        for trial in one.trials:
            if trial.candidate in seen:
                for name, checksum in by_batch(trial.first_batch, trial.rows, len(trial.turn_seconds)).items():
                    seen[trial.candidate].setdefault(name, set()).add(checksum)
    if any(len(checksums) > 1 for checksums in seen[start.key].values()):
        return set()
    return {
        (a, b)
        for a, b in itertools.permutations(seen, 2)
        if any(len(seen[a][name] | seen[b][name]) > 1 for name in seen[a].keys() & seen[b].keys())
    }


def waterfall(scenario: Scenario, comparisons: Iterable[Comparison], case: str) -> Waterfall | None:
    """Return a case's waterfall: its total ratio, split into one ratio for each step; None if no chain was measured."""
    links, missing = chain(scenario, case)
    if not links:
        return None
    by_place = {(c.kind, c.numerator.key, c.metric): c for c in comparisons if c.kind in (STEP, TOTAL)}
    (name, start), *others = links
    if start.variant in (TODAY, PROCESSES) and (method := _start_method(scenario, start)):
        name = f"{name} ({method})"
    end = others[-1][1]
    needed = [(STEP, c.key, metric) for _, c in others for metric in ("throughput", CPU)]
    if not by_place.keys() >= {*needed, (TOTAL, end.key, "throughput"), (TOTAL, end.key, CPU)}:
        return None  # a results.json from elsewhere may lack comparisons

    def steps(metric: str) -> Steps:
        return Steps(
            start=Start(name, start.key, scenario.typical(start.key, metric)),
            steps=[Step(name=name, candidate=c.key, **_change(by_place[STEP, c.key, metric])) for name, c in others],
            total=Change(**_change(by_place[TOTAL, end.key, metric])),
            end=scenario.typical(end.key, metric),
        )

    where = f"{scenario.name} on {scenario.ranks} ranks" if scenario.ranks else scenario.name
    title = next((each.title for each in scenario.cases if each.name == case), "")
    different = apart(scenario, start)
    return Waterfall(
        **vars(steps("throughput")),
        workload=": ".join(filter(None, (where, title))),
        scenario=scenario.name,
        case=case,
        workers=start.workers,
        cpu_per_1000=steps(CPU),
        ends={name: [scenario.typical(c.key, name) for c in (start, end)] for name in ENDS if name in scenario.metrics},
        missing=missing,
        others=[c.key for c in scenario.candidates if (start.key, c.key) in different],
    )


def _start_method(scenario: Scenario, start: Candidate) -> str:
    """Return the start method of a candidate's processes ("fork"); "" if its trials recorded different ones or none."""
    found = {
        trial.start_method or "" for each in scenario.rounds for trial in each.trials if trial.candidate == start.key
    }
    return found.pop() if len(found) == 1 else ""


def _change(c: Comparison) -> dict:
    return {each.name: getattr(c, each.name) for each in fields(Change)}


def precise(scenario: Scenario, precision: float) -> bool:
    """True if a scenario has enough rounds, and all intervals that answer its question are narrow.

    In a waterfall, an interval is narrow if its ends are at most a factor of 1 + *precision* from its middle. If the
    main metric is itself a ratio, an interval is narrow if its ends differ by at most a factor of WIDEST.
    """
    main = scenario.metrics[0]
    if METRICS[main].ideal == "1":
        found, widest = [level(scenario, c.key, main) for c in scenario.whole], math.log(WIDEST) / 2
    else:
        asked = [p for p in scenario.pairs if p.asked and p.kind in (STEP, TOTAL)]
        found = [of_two(scenario, p.numerator, p.denominator, "throughput") for p in asked]
        widest = math.log1p(precision)
    if not found or len(scenario.rounds) < FEWEST_TO_STOP:
        return False
    return max(math.log((r.high or 0) / (r.low or 1)) / 2 for r in found) <= widest
