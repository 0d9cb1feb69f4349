"""Conclusions of scenarios in sentences, and the chart of threads against processes over all of them."""

from collections.abc import Iterator, Sequence
from statistics import median

from ftbench.document.model import Verdict
from ftbench.plan.candidates import VARIANTS
from ftbench.plan.metrics import METRICS
from ftbench.report import phrases, waterfalls
from ftbench.report.draw import Chart, Ratios, Row
from ftbench.report.tables import Table
from ftbench.stats.analysis import AnalysedScenario, Analysis
from ftbench.stats.comparisons import Comparison
from ftbench.stats.statistics import FEWEST_ROUNDS

# Of a scenario's conclusion.
MOST_SENTENCES = 3
# From this number of outcomes on, their median is given.
FEWEST_TYPICAL = 3


def advantage(comparison: Comparison) -> tuple[float, float | None, float | None]:
    """Return the ratio and its interval, turned so that above 1 the first is better."""
    ratio, low, high = comparison.ratio, comparison.low, comparison.high
    if METRICS[comparison.metric].best == "higher":
        return ratio, low, high
    return 1 / ratio, high and 1 / high, low and 1 / low


def outcome(comparison: Comparison) -> str:
    """Return how the first did: "better", "worse", "same" or "unknown" (too few rounds)."""
    if not phrases.shown(comparison):
        return "unknown" if comparison.verdict == Verdict.TOO_FEW else "same"
    return "better" if advantage(comparison)[0] > 1 else "worse"


def _tell(scenario: AnalysedScenario, found: Sequence[Comparison], ours: str, theirs: str) -> str:
    """Word comparisons of one metric under several cases: how many went which way, and the extremes."""
    about, number = METRICS[found[0].metric], len(found)
    outcomes = {name: [c for c in found if outcome(c) == name] for name in ("better", "worse", "same", "unknown")}
    if len(outcomes["unknown"]) == number:
        low, high = (phrases.directed(about, which(c.ratio for c in found)) for which in (min, max))
        return (
            f"{ours} and {theirs} met in {number} comparisons ({low} to {high}), all of too few rounds "
            f"for a verdict ({FEWEST_ROUNDS} are needed)."
        )
    parts = []
    for name, extreme_of in (("better", max), ("worse", min)):
        those = outcomes[name]
        if those:
            extreme = extreme_of(those, key=lambda c: advantage(c)[0])
            most = "most" if len(those) > 1 else "namely"
            if len(those) >= FEWEST_TYPICAL:
                most = f"typically {phrases.directed(about, median([c.ratio for c in those]))}, {most}"
            count = "all" if len(those) == number else len(those)
            where = phrases.case_title(scenario, extreme.numerator.case)
            parts.append(f"did {name} in {count} ({most} {phrases.short(extreme)} in {where})")
    if outcomes["same"]:
        count = "any" if len(outcomes["same"]) == number else len(outcomes["same"])
        parts.append(f"were not shown to differ in {count}")
    if outcomes["unknown"]:
        parts.append(f"had too few rounds in {len(outcomes['unknown'])}")
    listed = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
    return f"of {number} comparisons with {theirs}, {ours} {listed}."


def _who(scenario: AnalysedScenario, comparison: Comparison, with_case: bool) -> tuple[str, str, str]:
    """Return what both have in common, as the start of a sentence, and the names of both."""
    a, b = comparison.numerator, comparison.denominator
    same = a.workers == b.workers
    before = f"With {phrases.workers(a.workers)}, " if same and a.workers else ""
    ours, theirs = (phrases.describe(scenario, c, with_workers=not same, with_case=with_case) for c in (a, b))
    return before, ours, theirs


def conclusion(scenario: AnalysedScenario, comparison: Comparison) -> str:
    """Word one comparison of the scenario's metric in a sentence."""
    a, b = comparison.numerator, comparison.denominator
    before, ours, theirs = _who(scenario, comparison, with_case=a.case != b.case)
    case = phrases.case_title(scenario, a.case) if a.case == b.case else ""
    more = phrases.settles(scenario, comparison, comparison.metric)
    after = f" ({more})" if more else ""
    target = f"; target {phrases.target(comparison)}" if comparison.target else ""
    about = phrases.metric(scenario)
    of = "" if phrases.COMPARED[about.name][0] in ("faster", "more memory") else f"{about.noun} "
    said = f"{of}{phrases.short(comparison)}{after}{target}"
    return phrases.capital(f"{before}{ours} against {theirs}{f', {case}' if case else ''}: {said}.")


def verdict(scenario: AnalysedScenario) -> list[str]:
    """Word the conclusion: a sentence for each target, otherwise at most three, the most important first.

    The sentences are of the most workers. Comparisons under several cases share one.
    """
    found = phrases.comparisons(scenario, phrases.metric(scenario).name)
    wanted = [c for c in found if c.target is not None]
    if wanted:
        return [conclusion(scenario, c) for c in wanted]
    return [_of_group(scenario, group) for group in _chosen(scenario, found)[:MOST_SENTENCES]]


def _chosen(scenario: AnalysedScenario, found: Sequence[Comparison]) -> list[list[Comparison]]:
    """Return groups of one question each: two of the most important kind, one of each other, then the rest."""
    kinds: dict[str, dict[tuple, list[Comparison]]] = {}
    for c in found:
        who = tuple((p.config, p.variant, p.workers) for p in (c.numerator, c.denominator))
        kinds.setdefault(c.kind, {}).setdefault(who, []).append(c)
    # How a candidate scales is in the charts; threads against processes is what a headline says, too.
    left_out = {"scaling"} | ({"method"} if "headline" in kinds else set())
    chosen = []
    for kind, groups in kinds.items():
        most = max(who[0][2] for who in groups)
        if kind not in left_out or len(kinds) == 1:
            chosen.append([group for who, group in groups.items() if who[0][2] == most])
    if not chosen:
        return []
    first, *others = chosen
    return [*first[:2], *(groups[0] for groups in others), *first[2:], *(g for groups in others for g in groups[1:])]


def _of_group(scenario: AnalysedScenario, group: Sequence[Comparison]) -> str:
    a, b = group[0].numerator, group[0].denominator
    if len(group) == 1 or a.case != b.case:
        return conclusion(scenario, group[0])
    before, ours, theirs = _who(scenario, group[0], with_case=False)
    return phrases.capital(before + _tell(scenario, group, ours, theirs))


def glance(run: Analysis) -> list[tuple[AnalysedScenario, str]]:
    """Return each scenario without a waterfall, with its most important comparison in words."""
    return [(scenario, next(iter(verdict(scenario)), "")) for scenario in run.others]


def sentences(run: Analysis) -> list[str]:
    """Return a sentence for each waterfall, and the first conclusion of each scenario without one."""
    found = [waterfalls.sentence(run, fall) for fall in run.waterfalls]
    return found + [f"{scenario.name}: {answer}" for scenario, answer in glance(run) if answer]


def _meetings(scenario: AnalysedScenario) -> Iterator[tuple[str, Comparison]]:
    """Yield (where, comparison) of threads without the GIL and processes with it: the first of each case."""
    found: dict[str, Comparison] = {}
    for c in phrases.comparisons(scenario, scenario.metrics[0]):
        a, b = c.numerator, c.denominator
        if VARIANTS[b.variant].processes and (a.config, b.config) == ("ft", "gil") and a.workers == b.workers:
            if a.case == b.case and not VARIANTS[a.variant].processes:
                found.setdefault(phrases.case_title(scenario, a.case), c)
    for case, c in found.items():
        yield f"{scenario.name}, {case}" if case else scenario.name, c


def overview(run: Analysis) -> Chart | None:
    """Return the chart of threads without the GIL against processes with it; None for less than two comparisons."""
    found = [(scenario, *each) for scenario in run.others for each in _meetings(scenario)]
    if len(found) < 2:
        return None
    rows, cells = [], []
    for scenario, where, c in found:
        ratio, low, high = advantage(c)
        about, factor, said = METRICS[c.metric], phrases.times(ratio), phrases.short(c)
        hover = f"{where}\n{phrases.title_with_why(scenario, c)}\n{factor}"
        rows.append(Row(f"{where}: {about.noun}", ratio, low, high, hover, detail=said, shown=phrases.shown(c)))
        cells.append((where, about.title, factor, said))
    return Chart(
        "overview",
        "Threads without the GIL against processes with it",
        "Right of 1 the threads are better; lines are 95% confidence intervals. Filled: a difference is shown.",
        "Threads without the GIL against processes with it, above 1 where the threads are better: "
        + "; ".join(f"{where} {factor}" for where, _, factor, _ in cells),
        Ratios([("", rows)], "advantage of threads (above 1: better)"),
        Table(("scenario", "quantity", "advantage of threads", "as measured"), tuple(cells), frozenset({2})),
    )
