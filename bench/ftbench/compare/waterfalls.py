"""The waterfalls of one run as logarithms, for comparison
with the same waterfalls of other runs.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from ftbench.compare.identity import work
from ftbench.document.model import Change, MeasuredCase, MeasuredScenario, Verdict, Waterfall
from ftbench.plan.waterfall import IN_ALL
from ftbench.report import run_words
from ftbench.stats import turns
from ftbench.stats.analysis import Analysis
from ftbench.stats.comparisons import CPU
from ftbench.stats.statistics import FEWEST_ROUNDS, logarithms, spread


class Incomparable(Exception):
    """Raised, or yielded, for a run or waterfall that cannot be compared; the message says why."""


class Figure(NamedTuple):
    """Logarithm of a ratio over the rounds: its mean, variance between rounds, and rounds."""

    mean: float
    variance: float
    degrees: int
    """Degrees of freedom of the variance."""
    rounds: int
    unseen: float = 0.0
    """How much wider an interval is, up and down, since few turns may hold no long one."""

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return math.sqrt(self.variance / self.rounds)


Figures = dict[str, Figure]
"""{step of a waterfall, or IN_ALL: its figure}"""


@dataclass(frozen=True)
class ComparableWaterfall:
    """One waterfall of one run, with what has to be equal in the waterfalls it is compared with."""

    waterfall: Waterfall
    throughput: Figures
    cpu: Figures
    speed: float
    """Mean logarithm of the throughput of all candidates in the chain."""
    workload: dict[str, str]
    """{title: words} of the work, the changes and the first samples."""


def waterfalls(run: Analysis) -> Iterator[ComparableWaterfall | Incomparable]:
    """Yield the waterfalls of a run, or the reasons why they cannot be compared."""
    for fall in run.waterfalls:
        scenario = run.scenario(fall.scenario)
        if len(scenario.rounds) < FEWEST_ROUNDS:
            few = f"{run_words.rounds(scenario)}, and {FEWEST_ROUNDS} are needed"
            yield Incomparable(f"{fall.workload}: {few}")
        elif any(map(_is_of_other_samples, fall.throughput.changes.values())):
            different = "candidates of this run loaded different samples"
            yield Incomparable(f"{fall.workload}: {different}")
        else:
            yield _comparable(run, scenario, fall)


def _is_of_other_samples(change: Change) -> bool:
    return change.verdict == Verdict.OTHER_SAMPLES


def _comparable(run: Analysis, scenario: MeasuredScenario, fall: Waterfall) -> ComparableWaterfall:
    chain = fall.throughput.candidates
    speeds: list[float] = []
    for key in chain:
        speeds += scenario.in_each_process(key, "throughput")
    return ComparableWaterfall(
        waterfall=fall,
        throughput=_figures(scenario, fall, chain, "throughput"),
        cpu=_figures(scenario, fall, chain, CPU),
        speed=fmean(map(math.log, speeds)),
        workload=_workload(run, scenario, fall),
    )


def _figures(
    scenario: MeasuredScenario, fall: Waterfall, chain: Sequence[str], metric: str
) -> Figures:
    figures = {}
    for step, (before, after) in zip(fall.throughput.steps, pairwise(chain), strict=True):
        figures[step.name] = _figure(scenario, metric, after, before)
    figures[IN_ALL] = _figure(scenario, metric, chain[-1], chain[0])
    return figures


def _figure(scenario: MeasuredScenario, metric: str, after: str, before: str) -> Figure:
    """Return the ratio of two candidates (keys)."""
    numerators = scenario.in_each_process(after, metric)
    logs = logarithms(numerators, scenario.in_each_process(before, metric))
    predicted = turns.predicted(scenario, metric, after, before)
    unseen = predicted.unseen if predicted else 0.0
    return Figure(fmean(logs), *spread(logs, predicted), len(logs), unseen)


def _workload(run: Analysis, scenario: MeasuredScenario, fall: Waterfall) -> dict[str, str]:
    facts = work(run.results, scenario, case_of(scenario, fall))
    facts["first candidate"] = fall.throughput.start.name
    facts["changes"] = "; then ".join(step.name for step in fall.throughput.steps)
    facts["first samples"] = _checksums(scenario, fall.throughput.start.candidate)
    for title, value in facts.items():
        # not "None", which people would read
        facts[title] = "none" if value is None else str(value)
    return facts


def case_of(scenario: MeasuredScenario, fall: Waterfall) -> MeasuredCase | MeasuredScenario:
    """Return the case of a waterfall; the scenario itself if it has no cases."""
    for case in scenario.cases:
        if case.name == fall.case:
            return case
    return scenario


def _checksums(scenario: MeasuredScenario, key: str) -> str:
    """Return checksums of a candidate's first batches, or words for rounds that do not agree."""
    rounds = set()
    for trial in scenario.trials_of(key):
        rounds.add((trial.first_batch, *trial.rows[:1]))
    if len(rounds) > 1:
        return "different in each round"
    return " and ".join(f"{checksum or 0:08x}" for checksum in rounds.pop())
