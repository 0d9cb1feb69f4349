"""The view of a comparison of two runs, in words."""

from collections.abc import Iterator
from dataclasses import dataclass

from ftbench.compare.comparing import FigureChange, RunComparison
from ftbench.document.model import Results
from ftbench.plan.metrics import METRICS
from ftbench.plan.unit import unit_of
from ftbench.report import run_words, verdict_words
from ftbench.stats.hours import FEWEST, USUAL, USUAL_OF_VALUES


@dataclass(frozen=True)
class RunView:
    """One of the two runs."""

    name: str
    """A or B."""
    path: str
    """As it was given."""
    about: list[str]
    """Lines on its time, machine and builds."""


@dataclass(frozen=True)
class FiguresView:
    """The ratios or the values of one scenario."""

    title: str
    changed: list[str]
    unchanged: list[str]
    """One line for each metric."""


@dataclass(frozen=True)
class ComparisonView:
    """All that the output of a comparison shows."""

    runs: list[RunView]
    differences: list[tuple[str, str, str]]
    """(what, in A, in B)"""
    hours: str
    """A sentence on the deviation between hours; empty if nothing is compared."""
    cautions: list[str]
    left_out: list[tuple[str, str]]
    """(what, why)"""
    outcomes: list[str] | None
    """Outcomes of the thread-safety suite that changed; None if it did not run in both."""
    figures: list[FiguresView]
    conclusion: str


def view(
    comparison: RunComparison, a: tuple[str, Results], b: tuple[str, Results]
) -> ComparisonView:
    """Return the view of a comparison; `a` and `b` are (path of results.json, its content)."""
    (_, results_a), (_, results_b) = a, b
    outcomes = None
    if comparison.outcomes or (results_a.stress and results_b.stress):
        outcomes = comparison.outcomes
    return ComparisonView(
        runs=[_run("A", *a), _run("B", *b)],
        differences=comparison.differences,
        hours=hours(comparison) if comparison.changes else "",
        cautions=comparison.cautions,
        left_out=comparison.left_out,
        outcomes=outcomes,
        figures=[*_scenarios(comparison)],
        conclusion=conclusion(comparison),
    )


def _scenarios(comparison: RunComparison) -> Iterator[FiguresView]:
    """Yield the ratios, then the values, of each scenario."""
    for scenario in dict.fromkeys(change.scenario for change in comparison.changes):
        for is_ratio, title in ((True, "ratios within the runs"), (False, "values")):
            changes = comparison.figures(scenario, is_ratio)
            if changes:
                yield _figures(f"{scenario}, {title}", changes)


def _run(name: str, path: str, results: Results) -> RunView:
    revision = run_words.revision(results)
    when = f"{results.started}, revision {revision}, {results.status}"
    return RunView(name, path, [when, run_words.machine(results), *run_words.builds(results)])


def _figures(title: str, changes: list[FigureChange]) -> FiguresView:
    factors = verdict_words.in_factors(change for change in changes if change.shown)
    changed: list[str] = []
    by_metric: dict[str, list[FigureChange]] = {}
    for change in changes:
        if change.shown:
            changed.append(describe(change, factors))
        else:
            by_metric.setdefault(change.metric, []).append(change)
    return FiguresView(title, changed, [*map(unchanged, by_metric.values())])


def hours(comparison: RunComparison) -> str:
    """Return a sentence on the deviation between two runs
    at different hours that the intervals include.
    """
    usual = f"{100 * USUAL:.0f}% of ratios and memory, {100 * USUAL_OF_VALUES:.0f}% of other values"
    deviation = f"{usual}, assumed, since fewer than {FEWEST} runs like A or B were found"
    if comparison.runs:
        sigmas = [100 * change.hours.sigma for change in comparison.changes]
        ends = f"{min(sigmas):.1f}% to {max(sigmas):.1f}%"
        deviation = f"{ends}, from {comparison.runs} runs like A or B and the usual {usual}"
    return (
        f"Each interval allows for what hours do on one machine (standard deviation {deviation})."
    )


def unchanged(changes: list[FigureChange]) -> str:
    """Return a line about *changes* in one metric,
    none of which was shown to be more than noise.
    """
    verdict = "unchanged"
    why = "no change that can be told from noise"
    far = 1.0
    for change in changes:
        far = max(far, change.ratio, 1 / change.ratio)
        if change.low is None:
            verdict = "unknown  "
            why = "too few rounds to tell"
    figures = f"{run_words.count(len(changes), 'figure')} of {METRICS[changes[0].metric].noun}"
    return f"{verdict} {figures}, at most {verdict_words.distance(far)} apart: {why}"


def describe(change: FigureChange, factors: bool | None = None) -> str:
    """Return a change in words: "ft loader threads x2: 14% faster (8% to 20%): 1512 samples/s in A,
    1720 in B". *factors*: see verdict_words.outcome.
    """
    metric = unit_of(change.scenario).metric(change.metric)
    words = verdict_words.outcome(metric, change, factors)
    if change.is_ratio:
        return f"{change.what}, {metric.noun}: {change.a:.2f}x in A, {change.b:.2f}x in B: {words}"
    if metric.name != "throughput":
        words = f"{metric.noun} {words}"
    values = f"{metric.write(change.a)} {metric.unit} in A, {metric.write(change.b)} in B"
    return f"{change.what}: {words}: {values}"


def conclusion(comparison: RunComparison) -> str:
    """Return a sentence that counts the figures that were compared,
    and those that changed beyond the noise.
    """
    if not comparison.changes:
        return "Nothing could be compared."
    changed = comparison.beyond_noise
    total = run_words.count(len(comparison.changes), "figure")
    if all(change.low is None for change in comparison.changes):
        return f"Of {total} none can be told from noise: three rounds are needed in both runs."
    if not changed:
        return f"Of {total} none changed beyond the noise; that is not to say that nothing changed."
    values = [change for change in changed if not change.is_ratio]
    better = sum(change.better for change in values)
    ratios = run_words.count(len(changed) - len(values), "ratio")
    directions = f"{better} better in B, {len(values) - better} worse"
    return (
        f"Of {total} {len(changed)} changed beyond the noise: {ratios} within the runs, and "
        f"{run_words.count(len(values), 'value')} ({directions})."
    )
