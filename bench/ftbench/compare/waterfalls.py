"""The waterfalls of one run as logarithms, for comparison
with the same waterfalls of other runs.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from ftbench.compare.identity import work
from ftbench.document.model import MeasuredCase, MeasuredScenario, Verdict, Waterfall
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
        verdicts = [change.verdict for change in fall.throughput.changes.values()]
        if len(scenario.rounds) < FEWEST_ROUNDS:
            few = f"{run_words.rounds(scenario)}, and {FEWEST_ROUNDS} are needed"
            yield Incomparable(f"{fall.workload}: {few}")
        elif Verdict.OTHER_SAMPLES in verdicts:
            different = "candidates of this run loaded different samples"
            yield Incomparable(f"{fall.workload}: {different}")
        else:
            yield _comparable(run, scenario, fall)


def _comparable(run: Analysis, scenario: MeasuredScenario, fall: Waterfall) -> ComparableWaterfall:
    chain = fall.throughput.candidates
    speeds = [scenario.in_each_process(key, "throughput") for key in chain]
    return ComparableWaterfall(
        waterfall=fall,
        throughput=_figures(scenario, fall, chain, "throughput"),
        cpu=_figures(scenario, fall, chain, CPU),
        speed=fmean(math.log(speed) for speeds_of_one in speeds for speed in speeds_of_one),
        workload=_workload(run, scenario, fall),
    )


def _figures(
    scenario: MeasuredScenario, fall: Waterfall, chain: Sequence[str], metric: str
) -> Figures:
    pairs = {step.name: pair for step, pair in zip(fall.throughput.steps, zip(chain[1:], chain))}
    pairs[IN_ALL] = chain[-1], chain[0]
    figures = {}
    for name, (after, before) in pairs.items():
        values = [scenario.in_each_process(key, metric) for key in (after, before)]
        logs = logarithms(*values)
        predicted = turns.predicted(scenario, metric, after, before)
        figures[name] = Figure(fmean(logs), *spread(logs, predicted), len(logs))
    return figures


def _workload(run: Analysis, scenario: MeasuredScenario, fall: Waterfall) -> dict[str, str]:
    facts = work(run.results, scenario, case_of(scenario, fall)) | {
        "first candidate": fall.throughput.start.name,
        "changes": "; then ".join(step.name for step in fall.throughput.steps),
        "first samples": _checksums(scenario, fall.throughput.start.candidate),
    }
    return {title: "none" if value is None else str(value) for title, value in facts.items()}


def case_of(scenario: MeasuredScenario, fall: Waterfall) -> MeasuredCase | MeasuredScenario:
    """Return the case of a waterfall; the scenario itself if it has no cases."""
    return next((case for case in scenario.cases if case.name == fall.case), scenario)


def _checksums(scenario: MeasuredScenario, key: str) -> str:
    """Return checksums of a candidate's first batches, or words for rounds that do not agree."""
    rounds = {(trial.first_batch, *trial.rows[:1]) for trial in scenario.trials_of(key)}
    if len(rounds) > 1:
        return "different in each round"
    return " and ".join(f"{checksum or 0:08x}" for checksum in rounds.pop())
