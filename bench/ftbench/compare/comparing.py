"""Comparison of two runs, A and B, of different machines,
versions or commits, from their results.json alone.

Ratios within a run change with the software; candidates' values change with the machine's speed and
load, too. A change is B's geometric mean divided by A's. Welch's t on the logarithms gives its
interval (B. L. Welch, "The generalization of Student's problem", Biometrika 34, 1947). Its variance
includes that of two hours (ftbench.stats.hours): without it, 34% of pairs of simulated runs of one
unchanged thing had changed. ftbench.stats.comparisons judges changes as it judges ratios.
"""

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from statistics import fmean, variance

from ftbench.compare.identity import HARDWARE, UNKNOWN, described, work
from ftbench.document.model import MeasuredCase, MeasuredScenario, Results, Stress, Verdict
from ftbench.plan.candidates import Pair
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
        return [c for c in self.changes if c.shown]

    def figures(self, scenario: str, is_ratio: bool) -> list[FigureChange]:
        """Return a scenario's changes: of ratios if *is_ratio*, else of values. The largest come
        first, noise last.
        """
        changes = (c for c in self.changes if (c.scenario, c.is_ratio) == (scenario, is_ratio))
        return sorted(changes, key=lambda c: -abs(math.log(c.ratio)) if c.shown else 0)


def compare(a: Results, b: Results, sets: Sequence[Sequence[Results]] = ()) -> RunComparison:
    """Return the differences between the runs A and B.

    sets: runs like A, and runs like B, of other hours; each set is of one machine with equal
    settings and software.
    """
    result = RunComparison(_differences(a, b), [*_cautions("A", a), *_cautions("B", b)])
    if any(title in HARDWARE and UNKNOWN not in values for title, *values in result.differences):
        result.cautions.append(
            "A and B ran on different machines: values compare these, and only ratios the software"
        )
    scenarios = [{s.name: s for s in run.scenarios} for run in (a, b)]
    for name in _in_both(result, "", "measured", scenarios):
        in_a, in_b = (by_name[name] for by_name in scenarios)
        _scenario(
            result,
            in_a,
            in_b,
            _comparable_cases(result, (a, in_a), (b, in_b)),
            _like(sets, a, b, name),
        )
    result.runs = max((change.hours.runs for change in result.changes), default=0)
    _stress(result, a.stress, b.stress)
    judge(result.changes)
    return result


def _differences(a: Results, b: Results) -> list[tuple[str, str, str]]:
    """Return (what, in A, in B) of each difference in machine, software and options."""
    twins = a.environment.twins.keys() & b.environment.twins.keys()
    in_a, in_b = (described(results, twins) for results in (a, b))
    titles = [title for title in {**in_a, **in_b} if in_a.get(title) != in_b.get(title)]
    return [(title, in_a.get(title, "none"), in_b.get(title, "none")) for title in titles]


def _in_both(
    result: RunComparison,
    where: str,
    done: str,
    pair: Sequence[Mapping[str, object]],
    titles: Mapping[str, str] = {},
) -> list[str]:
    """Return the keys that both runs have. Add those of only one run to `result.left_out`, with
    `where` as a prefix.
    """
    a, b = pair
    for run, alone in (
        ("A", [key for key in a if key not in b]),
        ("B", [key for key in b if key not in a]),
    ):
        if alone:
            names = ", ".join(titles.get(key, key) for key in alone)
            result.left_out.append((f"{where}: {names}".strip(": "), f"{done} in {run} alone"))
    return [key for key in a if key in b]


def _stress(result: RunComparison, a: Stress | None, b: Stress | None) -> None:
    """Add to the result those outcomes of the thread-safety suite that differ between the runs."""
    if a is None or b is None:
        if a or b:
            result.left_out.append(("thread-safety suite", f"run in {'A' if a else 'B'} alone"))
        return
    in_a, in_b = (_outcomes(suite) for suite in (a, b))
    for key in _in_both(result, "thread-safety suite", "run", (in_a, in_b)):
        if in_a[key] != in_b[key]:
            result.outcomes.append(f"{key}: {in_a[key]} in A, {in_b[key]} in B")
    for name, suite in (("A", a), ("B", b)):
        if suite.status != "complete":
            result.cautions.append(f"{name}'s thread-safety suite is incomplete: {suite.reason}")


def _outcomes(suite: Stress) -> dict[str, str]:
    return {
        f"{result.scenario} in {result.configuration}": result.outcome for result in suite.results
    }


def _scenario(
    result: RunComparison,
    a: MeasuredScenario,
    b: MeasuredScenario,
    cases: set[str],
    sets: Sequence[Sequence[MeasuredScenario]],
) -> None:
    """Add to the result the changes of a scenario's ratios and values, in these *cases* only.

    sets: the scenario in each set of like runs (see `compare`).
    """
    of_case = {candidate.key for candidate in a.candidates if candidate.case in cases}
    values = _values(result, a, b, of_case)
    pairs = _common_pairs(a, b, of_case)
    for metric in (metric for metric in a.metrics if metric in b.metrics):
        in_metric = [pair for pair in pairs if not pair.first_only or metric == a.metrics[0]]
        for title, keys in [*(_ratio(a, pair) for pair in in_metric), *values]:
            result.changes.append(_figure_change((a, b), sets, metric, title, keys))


def _values(
    result: RunComparison, a: MeasuredScenario, b: MeasuredScenario, of_case: Set[str]
) -> list[tuple[str, tuple[str, ...]]]:
    """Return (title, key) of each candidate that was in all rounds of both runs."""
    titles = {c.key: c.title for scenario in (b, a) for c in scenario.candidates}
    whole = [{c.key: c for c in scenario.whole} for scenario in (a, b)]
    keys = _in_both(result, a.name, "measured", whole, titles)
    return [(titles[key], (key,)) for key in keys if key in of_case]


def _ratio(scenario: MeasuredScenario, pair: Pair) -> tuple[str, tuple[str, ...]]:
    """Return (title of a ratio, keys of its candidates)."""
    a, b = (scenario.candidate(key) for key in (pair.numerator, pair.denominator))
    return run_words.title(scenario, a, b, with_case=True), (pair.numerator, pair.denominator)


def _common_pairs(a: MeasuredScenario, b: MeasuredScenario, keys: Set[str]) -> list[Pair]:
    """Return the pairs of candidates that both runs compare, of candidates among *keys*."""
    in_b = {(pair.numerator, pair.denominator) for pair in b.pairs}
    in_both = [pair for pair in a.pairs if (pair.numerator, pair.denominator) in in_b]
    return [pair for pair in in_both if keys >= {pair.numerator, pair.denominator}]


def _figure_change(
    of_runs: Sequence[MeasuredScenario],
    sets: Sequence[Sequence[MeasuredScenario]],
    metric: str,
    title: str,
    keys: Sequence[str],
) -> FigureChange:
    """Return the change of a candidate's value, or of a ratio of two (*keys*)."""
    in_a, in_b = (_logs(scenario, metric, *keys) for scenario in of_runs)
    is_ratio = len(keys) == 2
    usual = USUAL if is_ratio or METRICS[metric].unit == "MiB" else USUAL_OF_VALUES
    hours = deviation([_figures(scenarios, metric, *keys) for scenarios in sets], usual)
    return FigureChange(
        **vars(welch(in_a, in_b, hours)),
        scenario=of_runs[0].name,
        what=title,
        metric=metric,
        is_ratio=is_ratio,
        a=math.exp(fmean(in_a)),
        b=math.exp(fmean(in_b)),
        hours=hours,
    )


def _logs(scenario: MeasuredScenario, metric: str, *keys: str) -> list[float]:
    """Return the logarithms of a candidate's values in each process,
    or of the ratios of two candidates (keys).
    """
    values = [scenario.in_each_process(key, metric) for key in keys]
    return logarithms(*values) if len(keys) == 2 else [*map(math.log, *values)]


def _figures(scenarios: Sequence[MeasuredScenario], metric: str, *keys: str) -> list[RunFigure]:
    """Return (mean, standard error) of a candidate's values, or of a ratio, in each run with two
    rounds or more.
    """
    figures = []
    for scenario in scenarios:
        whole = {candidate.key for candidate in scenario.whole}
        if whole.issuperset(keys) and metric in scenario.metrics and len(scenario.rounds) > 1:
            logs = _logs(scenario, metric, *keys)
            figures.append((fmean(logs), math.sqrt(variance(logs) / len(logs))))
    return figures


def _like(
    sets: Sequence[Sequence[Results]], a: Results, b: Results, name: str
) -> list[list[MeasuredScenario]]:
    """Return the scenario called *name* in each set of runs, where its work is that of the set's
    own run, A or B.
    """
    alike = []
    for reference, runs in zip((a, b), sets, strict=False):
        like = next(scenario for scenario in reference.scenarios if scenario.name == name)
        scenarios = [
            (run, scenario) for run in runs for scenario in run.scenarios if scenario.name == name
        ]
        alike.append(
            [
                scenario
                for run, scenario in scenarios
                if work(run, scenario, scenario) == work(reference, like, like)
            ]
        )
    return alike


def _comparable_cases(result: RunComparison, *runs: tuple[Results, MeasuredScenario]) -> set[str]:
    """Return the names of the cases with equal work in both runs.
    Add the others, with reason, to `result.left_out`.
    """
    scenario = runs[0][1].name
    cases: list[dict[str, MeasuredCase | MeasuredScenario]] = [
        {case.name: case for case in s.cases} or {"": s} for _, s in runs
    ]
    same = set()
    for name in _in_both(result, scenario, "measured", cases):
        in_a, in_b = (
            work(run, s, of_run[name]) for (run, s), of_run in zip(runs, cases, strict=True)
        )
        if in_a == in_b:
            same.add(name)
        else:
            where = f"{scenario}: {name}" if name else scenario
            result.left_out.append((where, f"not the same work: {_different(in_a, in_b)}"))
        lengths = [of_run[name].load.batches_per_worker for of_run in cases]
        if scenario == OWN and lengths[0] != lengths[1]:
            in_each = "batches a worker in a turn are {} in A and {} in B".format(*lengths)
            result.cautions.append(f"{OWN}: {in_each}, chosen from measured times")
    return same


def _different(in_a: Mapping[str, object], in_b: Mapping[str, object]) -> str:
    titles = [title for title in in_a if in_a[title] != in_b[title]]
    return "; ".join(f"{title} is {in_a[title]} in A and {in_b[title]} in B" for title in titles)


def welch(a: Sequence[float], b: Sequence[float], hours: Deviation = NO_HOURS) -> Ratio:
    """Return exp(mean(b) - mean(a)) for logarithms a and b;
    with an interval if both have >= FEWEST_ROUNDS values.

    hours: the variance of each mean between hours, in addition to that within a and b.
    """
    far, n = fmean(b) - fmean(a), min(len(a), len(b))
    low = high = p = None
    if n >= FEWEST_ROUNDS:
        from scipy.special import stdtr, stdtrit

        parts = [(variance(logs) / len(logs), len(logs) - 1.0) for logs in (a, b)]
        parts.append((2 * hours.variance, hours.degrees))
        error, degrees = math.sqrt(math.fsum(part for part, _ in parts)), degrees_of_sum(*parts)
        width = float(stdtrit(degrees, (1 + CONFIDENCE) / 2)) * error
        low, high = exponential(far - width), exponential(far + width)
        # Where nothing varies, the ratio is certain.
        p = 2 * float(stdtr(degrees, -abs(far) / error)) if error else float(far == 0)
    return Ratio(
        ratio=math.exp(far), low=low, high=high, n=n, p=p, resolution=None, verdict=Verdict.TOO_FEW
    )


def _cautions(name: str, results: Results) -> Iterator[str]:
    if results.status != "complete":
        yield f"{name} is incomplete: {results.reason}"
    for scenario in results.scenarios:
        rounds = scenario.rounds
        marked = sum(bool(run_words.marked(measured)) for measured in rounds)
        if marked:
            yield (
                f"{name}: {scenario.name}: {marked} of {len(rounds)} rounds were disturbed "
                f"by other load"
            )
        if len(rounds) < FEWEST_ROUNDS:
            few = f"{FEWEST_ROUNDS} are needed to tell a change from noise"
            yield f"{name}: {scenario.name} has {run_words.rounds(scenario)}: {few}"
