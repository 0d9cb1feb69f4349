"""The wording of the benchmark's verdicts: of one ratio, of a scenario, of a waterfall."""

import math
from collections.abc import Sequence
from statistics import median

from ftbench.document.model import Change, Scenario, Verdict, Waterfall
from ftbench.plan.metrics import METRICS, Metric
from ftbench.plan.waterfall import REMOVED, TODAY
from ftbench.report import run_words
from ftbench.stats.analysis import AnalysedScenario, Analysis
from ftbench.stats.comparisons import Comparison, more_minutes
from ftbench.stats.statistics import FEWEST_ROUNDS, negligible
from ftrun.configurations import CONFIGURATIONS

# Of a scenario's conclusion.
MOST_SENTENCES = 3
# From this number of outcomes on, their median is given.
FEWEST_TYPICAL = 3
# A metric's words for a ratio above 1 and below 1.
COMPARED = {
    "throughput": ("faster", "slower"),
    "gb_per_s": ("faster", "slower"),
    "cpu_per_1000": ("more CPU time", "less CPU time"),
    "overhead_us": ("more overhead", "less overhead"),
    "time_to_first_batch": ("later", "sooner"),
    "epoch_gap": ("later", "sooner"),
    "epoch_gap_persistent": ("later", "sooner"),
    "worker_setup": ("later", "sooner"),
    "gpu_mib_per_worker": ("more GPU memory", "less GPU memory"),
    "pss_mib": ("more memory", "less memory"),
    "uss_mib": ("more memory of their own", "less memory of their own"),
    "step_median_ms": ("slower", "faster"),
    "step_p99_ms": ("slower", "faster"),
    "epoch_seconds": ("slower", "faster"),
    "operation_ns": ("longer", "shorter"),
    "step_over_max": ("worse", "better"),
    "step_over_sum": ("larger", "smaller"),
    "scaling": ("better", "worse"),
    "utilisation": ("busier", "less busy"),
}
NOT_COMPARED = "gave other samples: not compared"
TOO_FEW = "too few rounds to be sure"
UNCERTAIN = "not certain among all these comparisons"


def times(value: float) -> str:
    """Return a ratio: "1.43x"."""
    return f"{figure(value)}x"


def figure(value: float) -> str:
    """Return a ratio in figures."""
    # Two rounds can give intervals over many powers of ten, whose digits say nothing.
    if value < 0.1:
        return f"{value:.3f}" if value >= 0.001 else "<0.001"
    return ">100" if value > 100 else f"{value:.2f}"


def interval(comparison: Comparison) -> str:
    """Return a ratio's confidence interval, or a dash where one round gives none."""
    if comparison.low is None or comparison.high is None:
        return "-"
    return f"{figure(comparison.low)} to {figure(comparison.high)}"


def change(ratio: float) -> str:
    """Word a ratio's distance from 1, without a direction: "57%"."""
    part = abs(ratio - 1)
    if ratio < 0.005:
        return "more than 99%"
    if part > 99:
        return "more than 9,900%"
    return f"{100 * part:.1f}%" if part < 0.0095 else f"{100 * part:,.0f}%"


def directed(metric: Metric, ratio: float) -> str:
    """Return a ratio in words: "57% faster", "14% less memory"."""
    above, below = COMPARED[metric.name]
    return f"{change(ratio)} {above if ratio > 1 else below}"


def span(low: float, high: float) -> str:
    """Return an interval on one side of 1 in words: "48% to 66%"."""
    near, far = sorted((low, high), key=lambda ratio: abs(math.log(ratio)))
    return f"{change(near)} to {change(far)}"


def outcome(metric: Metric, c: Change) -> str:
    """Word a ratio's outcome: "57% faster (48% to 66%)", "between 23% slower and 92% faster"."""
    above, below = COMPARED[metric.name]
    if c.verdict == Verdict.OTHER_SAMPLES:
        return NOT_COMPARED
    if c.verdict == Verdict.TOO_FEW or c.low is None or c.high is None:
        return f"{directed(metric, c.ratio)} ({TOO_FEW})"
    low, high = c.low, c.high
    if c.verdict in (Verdict.ABOVE, Verdict.BELOW):
        return f"{directed(metric, c.ratio)} ({span(low, high)})"
    if low <= 1 <= high and not negligible(low, high):
        return f"between {change(low)} {below} and {change(high)} {above}"
    if negligible(c.ratio):
        return f"the same within {change(max(high, 1 / low))}"
    return f"{directed(metric, c.ratio)} ({span(low, high)}), {UNCERTAIN}"


def short(comparison: Comparison) -> str:
    """Return a comparison's outcome: "57% faster (48% to 66%)"; see `outcome`."""
    return outcome(METRICS[comparison.metric], comparison)


def settles(scenario: Scenario, c: Change, metric: str = "throughput") -> str | None:
    """Return what would settle an undecided ratio: "5 more minutes would settle it"; None if the ratio is settled."""
    minutes = more_minutes(scenario, c)
    if minutes == 0:
        about, seen = METRICS[metric], min(c.resolution or 1.0, 100.0)
        less = f"less than {directed(about, seen)} or {directed(about, 1 / seen)}"
        return f"{less} cannot be seen in {run_words.rounds(scenario)}"
    return f"{run_words.count(minutes, 'more minute')} would settle it" if minutes else None


def target(c: Comparison) -> str:
    """Return a ratio's target, and if it was reached: ">= 1.9x: met"; an empty string without a target."""
    if c.target is None:
        return ""
    return f"{'>=' if c.target.at == 'least' else '<='} {c.target.value:.3g}x: {c.reached}"


def resolution(scenario: AnalysedScenario) -> str:
    """Word the smallest difference that the run could have shown."""
    found = [c.resolution for c in scenario.comparisons if c.metric == scenario.metrics[0] and c.resolution]
    if not found:
        return "One round cannot tell a difference from noise."
    ends = dict.fromkeys((change(min(found)), change(max(found))))
    return (
        f"The smallest difference that these {len(scenario.rounds)} rounds could have shown is "
        f"{' to '.join(ends)}{', depending on the comparison' if len(ends) > 1 else ''}."
    )


def _how_it_did(c: Comparison) -> str:
    if not c.shown:
        return "unknown" if c.verdict == Verdict.TOO_FEW else "same"
    return "better" if c.advantage[0] > 1 else "worse"


def _tell(scenario: AnalysedScenario, found: Sequence[Comparison], ours: str, theirs: str) -> str:
    """Word comparisons of one metric under several cases: how many went which way, and the extremes."""
    about, number = METRICS[found[0].metric], len(found)
    outcomes = {name: [c for c in found if _how_it_did(c) == name] for name in ("better", "worse", "same", "unknown")}
    if len(outcomes["unknown"]) == number:
        low, high = (directed(about, which(c.ratio for c in found)) for which in (min, max))
        return (
            f"{ours} and {theirs} met in {number} comparisons ({low} to {high}), all of too few rounds "
            f"for a verdict ({FEWEST_ROUNDS} are needed)."
        )
    parts = []
    for name, extreme_of in (("better", max), ("worse", min)):
        those = outcomes[name]
        if those:
            extreme = extreme_of(those, key=lambda c: c.advantage[0])
            most = "most" if len(those) > 1 else "namely"
            if len(those) >= FEWEST_TYPICAL:
                most = f"typically {directed(about, median([c.ratio for c in those]))}, {most}"
            count = "all" if len(those) == number else len(those)
            where = run_words.case_title(scenario, extreme.numerator.case)
            parts.append(f"did {name} in {count} ({most} {short(extreme)} in {where})")
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
    before = f"With {run_words.workers(a.workers)}, " if same and a.workers else ""
    ours, theirs = (run_words.describe(scenario, c, with_workers=not same, with_case=with_case) for c in (a, b))
    return before, ours, theirs


def conclusion(scenario: AnalysedScenario, comparison: Comparison) -> str:
    """Word one comparison of the scenario's metric in a sentence."""
    a, b = comparison.numerator, comparison.denominator
    before, ours, theirs = _who(scenario, comparison, with_case=a.case != b.case)
    case = run_words.case_title(scenario, a.case) if a.case == b.case else ""
    more = settles(scenario, comparison, comparison.metric)
    after = f" ({more})" if more else ""
    wanted = f"; target {target(comparison)}" if comparison.target else ""
    about = scenario.metric
    of = "" if COMPARED[about.name][0] in ("faster", "more memory") else f"{about.noun} "
    said = f"{of}{short(comparison)}{after}{wanted}"
    return run_words.capital(f"{before}{ours} against {theirs}{f', {case}' if case else ''}: {said}.")


def verdict(scenario: AnalysedScenario) -> list[str]:
    """Word the conclusion: a sentence for each target, otherwise at most three, the most important first.

    The sentences are of the most workers. Comparisons under several cases share one.
    """
    found = scenario.compared()
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
    return run_words.capital(before + _tell(scenario, group, ours, theirs))


def sentence(run: Analysis, fall: Waterfall) -> str:
    """Return a sentence with the total effect of a waterfall, and that of the last step."""
    about, scenario, last = METRICS["throughput"], run.scenario(fall.scenario), fall.steps[-1]
    start = scenario.candidate(fall.start.candidate)
    against = "torch's DataLoader with processes"
    if start.variant != TODAY:
        against = run_words.describe(scenario, start, with_case=False)
    who = f"threads {CONFIGURATIONS[scenario.candidate(last.candidate).config].phrase}"
    if fall.total.verdict == Verdict.OTHER_SAMPLES:
        return f"{fall.workload}: {who} gave other samples than {against}, so their speeds are not compared."
    text = (
        f"{fall.workload}: {who} against {against}: {outcome(about, fall.total)}, "
        f"{about.write(fall.end)} against {about.write(fall.start.value)} samples/s"
    )
    # A step with another name has a further change, which was not measured by itself.
    if last.name == REMOVED and last.verdict != Verdict.OTHER_SAMPLES:
        text += f"; removing the GIL by itself: {outcome(about, last)}"
    return text + "."


def glance(run: Analysis) -> list[tuple[AnalysedScenario, str]]:
    """Return each scenario without a waterfall, with its most important comparison in words."""
    return [(scenario, next(iter(verdict(scenario)), "")) for scenario in run.others]


def sentences(run: Analysis) -> list[str]:
    """Return a sentence for each waterfall, and the first conclusion of each scenario without one."""
    found = [sentence(run, fall) for fall in run.waterfalls]
    return found + [f"{scenario.name}: {answer}" for scenario, answer in glance(run) if answer]
