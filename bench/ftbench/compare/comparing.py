"""Comparison of two runs, A and B, of different machines, versions or commits, from their
results.json alone.

Ratios within a run change with the software; candidates' values change with the machine's speed and
load, too. A change is B's geometric mean divided by A's. Welch's t on the logarithms gives its
interval (B. L. Welch, "The generalization of Student's problem", Biometrika 34, 1947). Its variance
includes that of two hours (ftbench.stats.hours): without it, 34% of pairs of simulated runs of one
unchanged thing had changed. ftbench.stats.comparisons judges changes as it judges ratios.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from statistics import fmean, variance
from typing import NamedTuple

from ftbench.compare.identity import HARDWARE, UNKNOWN, described, differing, work
from ftbench.document.model import MeasuredCase, MeasuredScenario, Results, Stress, Verdict
from ftbench.plan.candidates import by_key
from ftbench.plan.metrics import METRICS
from ftbench.plan.scenario import OWN
from ftbench.report import run_words
from ftbench.stats.comparisons import judge
from ftbench.stats.hours import (
    USUAL,
    USUAL_OF_VALUES,
    Deviation,
    RunFigure,
    degrees_of_sum,
    deviation,
)
from ftbench.stats.statistics import CONFIDENCE, FEWEST_ROUNDS, Ratio, exponential, logarithms

NO_HOURS = Deviation(0.0)


class ScenarioPair(NamedTuple):
    """One scenario in the runs A and B."""

    a: MeasuredScenario
    b: MeasuredScenario

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self.a.name


@dataclass(kw_only=True)
class FigureChange(Ratio):
    """The change of one figure from run A to run B: the figure in B divided by the figure in A."""

    scenario: str
    what: str
    """Title of the candidate, or of the comparison."""
    metric: str
    is_ratio: bool
    """True if the figure is a ratio of two candidates,
    False if it is one candidate's value in the metric's unit.
    """
    a: float
    """The figure in run A: the geometric mean of a ratio over the rounds, or of a candidate's value
    over its trials.
    """
    b: float
    hours: Deviation
    """The deviation between two runs at different hours, which the interval includes."""

    @property
    def better(self) -> bool:
        """True if the figure is better in B than in A."""
        return (self.ratio > 1) == (METRICS[self.metric].best == "higher")

    @property
    def size(self) -> float:
        """The distance from no change, as a logarithm; 0 if it may be noise."""
        return abs(math.log(self.ratio)) if self.shown else 0.0


AnyCase = MeasuredCase | MeasuredScenario
"""A case of a scenario, or the scenario itself if it has no cases."""


class Subject(NamedTuple):
    """What is compared of two runs: one candidate's value, or the ratio of two candidates."""

    title: str
    keys: tuple[str, ...]
    """One candidate, or numerator and denominator."""
    first_only: bool = False
    """True if it is compared in the scenario's first metric only."""

    @property
    def is_ratio(self) -> bool:
        """True for a ratio of two candidates."""
        return len(self.keys) == 2

    def logarithms(self, scenario: MeasuredScenario, metric: str) -> list[float]:
        """Return the logarithm of the value, or of the ratio, in each process."""
        values = [scenario.in_each_process(key, metric) for key in self.keys]
        if self.is_ratio:
            return logarithms(*values)
        return [*map(math.log, values[0])]

    def figures(self, scenarios: Iterable[MeasuredScenario], metric: str) -> list[RunFigure]:
        """Return (mean, standard error) in each run with two rounds or more that has it."""
        figures = []
        for scenario in scenarios:
            if len(scenario.rounds) > 1 and self._is_in(scenario, metric):
                logs = self.logarithms(scenario, metric)
                error = math.sqrt(variance(logs) / len(logs))
                figures.append((fmean(logs), error))
        return figures

    def _is_in(self, scenario: MeasuredScenario, metric: str) -> bool:
        """True if the scenario has this metric of the candidates in all its rounds."""
        whole = by_key(scenario.whole)
        return metric in scenario.metrics and whole.keys() >= set(self.keys)


@dataclass
class RunComparison:
    """The differences between two runs, A and B: in their environments,
    figures and thread-safety outcomes.
    """

    differences: list[tuple[str, str, str]] = field(default_factory=list)
    """(what, in A, in B): machine, interpreters, packages, commit, options."""
    cautions: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    """(what, why) of everything that is not compared,
    since one run lacks it or its work differs.
    """
    changes: list[FigureChange] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    """Scenarios of the thread-safety suite whose outcome changed, in words."""
    runs: int = 0
    """Largest number of runs like A or B that told the deviation between hours of a figure;
    0 if it is assumed.
    """

    @property
    def beyond_noise(self) -> list[FigureChange]:
        """The changes that are shown to be more than noise."""
        return [change for change in self.changes if change.shown]

    @property
    def worse(self) -> list[FigureChange]:
        """The values, not ratios, that are shown to be worse in B."""
        values = [change for change in self.beyond_noise if not change.is_ratio]
        return [change for change in values if not change.better]

    def figures(self, scenario: str, is_ratio: bool) -> list[FigureChange]:
        """Return a scenario's changes: of ratios if *is_ratio*, else of values. The largest come
        first, noise last.
        """
        changes = []
        for change in self.changes:
            if change.scenario == scenario and change.is_ratio == is_ratio:
                changes.append(change)
        return sorted(changes, key=lambda change: change.size, reverse=True)


def compare(a: Results, b: Results, sets: Sequence[Sequence[Results]] = ()) -> RunComparison:
    """Return the differences between the runs A and B.

    sets: runs like A, and runs like B, of other hours; each set is of one machine with equal
    settings and software.
    """
    result = RunComparison(_differences(a, b))
    _add_cautions(result, "A", a)
    _add_cautions(result, "B", b)
    if _on_other_machines(result.differences):
        result.cautions.append(
            "A and B ran on different machines: values compare these, and only ratios the software"
        )
    in_a, in_b = a.by_name, b.by_name
    for name in _in_both(result, "", "measured", in_a, in_b):
        pair = ScenarioPair(in_a[name], in_b[name])
        cases = _comparable_cases(result, (a, b), pair)
        whole = _whole(result, pair)
        subjects = [*_subjects(pair, cases, whole)]
        like = _like(sets, (a, b), pair)
        result.changes += _changes(pair, subjects, like)
    result.runs = max((change.hours.runs for change in result.changes), default=0)
    _stress(result, a.stress, b.stress)
    judge(result.changes)
    return result


def _on_other_machines(differences: Sequence[tuple[str, str, str]]) -> bool:
    """True if a known fact of the hardware differs."""
    for title, in_a, in_b in differences:
        if title in HARDWARE and UNKNOWN not in (in_a, in_b):
            return True
    return False


def _differences(a: Results, b: Results) -> list[tuple[str, str, str]]:
    """Return (what, in A, in B) of each difference in machine, software and options."""
    twins = a.environment.twins.keys() & b.environment.twins.keys()
    return [*differing(described(a, twins), described(b, twins), "none")]


def _in_both[Value](
    result: RunComparison,
    where: str,
    done: str,
    a: Mapping[str, Value],
    b: Mapping[str, Value],
    titles: Mapping[str, str] = {},
) -> list[str]:
    """Return the keys that both runs have. Add those of only one run to `result.left_out`, with
    `where` as a prefix.
    """
    for run, keys, counterpart in (("A", a, b), ("B", b, a)):
        alone = [titles.get(key, key) for key in keys if key not in counterpart]
        if alone:
            subject = f"{where}: {', '.join(alone)}".strip(": ")
            result.left_out.append((subject, f"{done} in {run} alone"))
    return [key for key in a if key in b]


def _stress(result: RunComparison, a: Stress | None, b: Stress | None) -> None:
    """Add to the result those outcomes of the thread-safety suite that differ between the runs."""
    if a is None and b is None:
        return
    if a is None or b is None:
        alone = "A" if a else "B"
        result.left_out.append(("thread-safety suite", f"run in {alone} alone"))
        return
    in_a = _outcomes(a)
    in_b = _outcomes(b)
    for key in _in_both(result, "thread-safety suite", "run", in_a, in_b):
        if in_a[key] != in_b[key]:
            result.outcomes.append(f"{key}: {in_a[key]} in A, {in_b[key]} in B")
    for name, suite in (("A", a), ("B", b)):
        if suite.status != "complete":
            result.cautions.append(f"{name}'s thread-safety suite is incomplete: {suite.reason}")


def _outcomes(suite: Stress) -> dict[str, str]:
    outcomes: dict[str, str] = {}
    for result in suite.results:
        outcomes[f"{result.scenario} in {result.configuration}"] = result.outcome
    return outcomes


def _whole(result: RunComparison, pair: ScenarioPair) -> list[str]:
    """Return the keys of the candidates that were in all rounds of both runs."""
    in_a = by_key(pair.a.whole)
    in_b = by_key(pair.b.whole)
    titles = {}
    for candidate in (*pair.b.candidates, *pair.a.candidates):
        titles[candidate.key] = candidate.title
    return _in_both(result, pair.name, "measured", in_a, in_b, titles)


def _subjects(pair: ScenarioPair, cases: Set[str], whole: Sequence[str]) -> Iterator[Subject]:
    """Yield the ratios, then the values, of both runs in these *cases* only.

    whole: keys of the candidates that were in all rounds of both runs.
    """
    a, b = pair
    of_cases = {candidate.key for candidate in a.candidates if candidate.case in cases}
    in_b = {(compared.numerator, compared.denominator) for compared in b.pairs}
    for compared in a.pairs:
        keys = compared.numerator, compared.denominator
        if keys in in_b and of_cases.issuperset(keys):
            numerator, denominator = map(a.candidate, keys)
            title = run_words.title(a, numerator, denominator, with_case=True)
            yield Subject(title, keys, compared.first_only)
    for key in whole:
        if key in of_cases:
            yield Subject(a.candidate(key).title, (key,))


def _changes(
    pair: ScenarioPair, subjects: Sequence[Subject], like: Sequence[Sequence[MeasuredScenario]]
) -> Iterator[FigureChange]:
    """Yield the changes of the subjects, in each metric that both runs have.

    like: the scenario in each set of like runs (see `compare`).
    """
    a, b = pair
    for metric in a.metrics:
        if metric not in b.metrics:
            continue
        for subject in subjects:
            if metric == a.metrics[0] or not subject.first_only:
                yield _figure_change(pair, subject, metric, like)


def _figure_change(
    pair: ScenarioPair, subject: Subject, metric: str, like: Sequence[Sequence[MeasuredScenario]]
) -> FigureChange:
    in_a = subject.logarithms(pair.a, metric)
    in_b = subject.logarithms(pair.b, metric)
    usual = USUAL_OF_VALUES
    if subject.is_ratio or METRICS[metric].unit == "MiB":
        usual = USUAL
    figures = [subject.figures(scenarios, metric) for scenarios in like]
    hours = deviation(figures, usual)
    return FigureChange(
        **vars(welch(in_a, in_b, hours)),
        scenario=pair.name,
        what=subject.title,
        metric=metric,
        is_ratio=subject.is_ratio,
        a=math.exp(fmean(in_a)),
        b=math.exp(fmean(in_b)),
        hours=hours,
    )


def _like(
    sets: Sequence[Sequence[Results]], runs: Sequence[Results], pair: ScenarioPair
) -> list[list[MeasuredScenario]]:
    """Return the scenario in each set of runs, where its work is that of the set's own run."""
    alike = []
    for run, scenario, like in zip(runs, pair, sets, strict=False):
        expected = work(run, scenario, scenario)
        scenarios = []
        for like_run in like:
            measured = like_run.by_name.get(scenario.name)
            if measured and work(like_run, measured, measured) == expected:
                scenarios.append(measured)
        alike.append(scenarios)
    return alike


def _comparable_cases(
    result: RunComparison, runs: Sequence[Results], pair: ScenarioPair
) -> set[str]:
    """Return the names of the cases with equal work in both runs.
    Add the others, with reason, to `result.left_out`.
    """
    cases_a = _cases(pair.a)
    cases_b = _cases(pair.b)
    same = set()
    for name in _in_both(result, pair.name, "measured", cases_a, cases_b):
        case_a = cases_a[name]
        case_b = cases_b[name]
        work_a = work(runs[0], pair.a, case_a)
        work_b = work(runs[1], pair.b, case_b)
        different = _different(work_a, work_b)
        if different:
            where = f"{pair.name}: {name}" if name else pair.name
            result.left_out.append((where, f"not the same work: {different}"))
        else:
            same.add(name)
        if pair.name == OWN:
            _add_caution_of_turns(result, case_a, case_b)
    return same


def _add_caution_of_turns(result: RunComparison, case_a: AnyCase, case_b: AnyCase) -> None:
    """Say so if the turns of a user's dataset differ in their length."""
    batches_a = case_a.load.batches_per_worker
    batches_b = case_b.load.batches_per_worker
    if batches_a != batches_b:
        in_each = f"batches a worker in a turn are {batches_a} in A and {batches_b} in B"
        result.cautions.append(f"{OWN}: {in_each}, chosen from measured times")


def _cases(scenario: MeasuredScenario) -> dict[str, AnyCase]:
    """Return {name: case}; without cases, the scenario itself is one of no name."""
    if not scenario.cases:
        return {"": scenario}
    return {case.name: case for case in scenario.cases}


def _different(in_a: Mapping[str, object], in_b: Mapping[str, object]) -> str:
    """Return the differences between two works in words; "" if they are equal."""
    differences = []
    for title, value_a, value_b in differing(in_a, in_b, None):
        differences.append(f"{title} is {value_a} in A and {value_b} in B")
    return "; ".join(differences)


def welch(a: Sequence[float], b: Sequence[float], hours: Deviation = NO_HOURS) -> Ratio:
    """Return exp(mean(b) - mean(a)) for logarithms a and b;
    with an interval if both have >= FEWEST_ROUNDS values.

    hours: the variance of each mean between hours, in addition to that within a and b.
    """
    far = fmean(b) - fmean(a)
    n = min(len(a), len(b))
    low = high = p = None
    if n >= FEWEST_ROUNDS:
        from scipy.special import stdtr, stdtrit

        in_a = _variance_of_mean(a)
        in_b = _variance_of_mean(b)
        between = 2 * hours.variance, hours.degrees
        variances, _ = zip(in_a, in_b, between, strict=True)
        error = math.sqrt(math.fsum(variances))
        degrees = degrees_of_sum(in_a, in_b, between)
        width = float(stdtrit(degrees, (1 + CONFIDENCE) / 2)) * error
        low = exponential(far - width)
        high = exponential(far + width)
        # Where nothing varies, the ratio is certain.
        p = 2 * float(stdtr(degrees, -abs(far) / error)) if error else float(far == 0)
    return Ratio(
        ratio=math.exp(far), low=low, high=high, n=n, p=p, resolution=None, verdict=Verdict.TOO_FEW
    )


def _variance_of_mean(values: Sequence[float]) -> tuple[float, float]:
    """Return (the variance of the mean of the values, its degrees of freedom)."""
    return variance(values) / len(values), len(values) - 1.0


def _add_cautions(result: RunComparison, name: str, run: Results) -> None:
    """Add what a reader has to know of the run called *name*."""
    if run.status != "complete":
        result.cautions.append(f"{name} is incomplete: {run.reason}")
    for scenario in run.scenarios:
        where = f"{name}: {scenario.name}"
        rounds = len(scenario.rounds)
        marked = len([*filter(run_words.marked, scenario.rounds)])
        if marked:
            disturbed = f"{marked} of {rounds} rounds were disturbed by other load"
            result.cautions.append(f"{where}: {disturbed}")
        if rounds < FEWEST_ROUNDS:
            few = f"{FEWEST_ROUNDS} are needed to tell a change from noise"
            result.cautions.append(f"{where} has {run_words.rounds(scenario)}: {few}")
