"""Sentences and labels that terminal, picture and page have in common."""

import base64
import math
import re
from dataclasses import replace

from ftbench.document.model import Change, Failure, Results, Round, Scenario, Verdict
from ftbench.machine.disturbance import marks
from ftbench.plan.candidates import Candidate, plural
from ftbench.plan.metrics import METRICS, Metric
from ftbench.stats.analysis import AnalysedScenario
from ftbench.stats.comparisons import Comparison
from ftbench.stats.statistics import NEGLIGIBLE
from ftrun.configurations import CONFIGURATIONS

# The number of disturbed rounds that are listed one by one.
MOST_ROUNDS = 5
# A run of more than this many times the rounds is no useful advice.
MOST_MORE = 10
# Neither is a run of more than a day.
MOST_MINUTES = 24 * 60
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


def capital(sentence: str) -> str:
    """Return a sentence with its first letter in upper case."""
    return sentence[:1].upper() + sentence[1:]


def count(number: int, noun: str) -> str:
    """Return a number with its noun: "1 round", "5 rounds"."""
    return f"{number} {noun}{'s' if number != 1 else ''}"


def slug(name: str) -> str:
    """Return a name as part of an id or a file name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def times(value: float) -> str:
    """Return a ratio: "1.43x"."""
    return f"{figure(value)}x"


def figure(value: float) -> str:
    """Return a ratio in figures."""
    # Two rounds can give intervals over many powers of ten, whose digits say nothing.
    if value < 0.1:
        return f"{value:.3f}" if value >= 0.001 else "<0.001"
    return ">100" if value > 100 else f"{value:.2f}"


def probability(value: float) -> str:
    """Return a p-value in figures."""
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


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
    if low <= 1 <= high and not _negligible(low, high):
        return f"between {change(low)} {below} and {change(high)} {above}"
    if _negligible(c.ratio):
        return f"the same within {change(max(high, 1 / low))}"
    return f"{directed(metric, c.ratio)} ({span(low, high)}), {UNCERTAIN}"


def _negligible(*ratios: float) -> bool:
    return all(max(ratio, 1 / ratio) <= NEGLIGIBLE for ratio in ratios)


def shown(comparison: Comparison) -> bool:
    """Return True if a difference is shown."""
    return comparison.verdict in (Verdict.ABOVE, Verdict.BELOW)


def short(comparison: Comparison) -> str:
    """Return a comparison's outcome: "57% faster (48% to 66%)"; see `outcome`."""
    return outcome(METRICS[comparison.metric], comparison)


def more_minutes(scenario: Scenario, c: Change) -> int | None:
    """Return the minutes of further rounds that would settle an undecided ratio.

    None if the ratio is settled, 0 if too many minutes would be needed. After these minutes, eight of ten such runs
    would show a difference of this size (`Change.resolution`).
    """
    if c.verdict != Verdict.NO_DIFFERENCE or c.low is None or c.high is None or c.resolution is None:
        return None
    if not c.low <= 1 <= c.high or _negligible(c.low, c.high):
        return None
    seen, far = math.log(c.resolution), abs(math.log(c.ratio))
    if far * math.sqrt(MOST_MORE) < seen:
        return 0
    more = ((seen / far) ** 2 - 1) * sum(one.seconds for one in scenario.rounds) / 60
    return max(1, math.ceil(more)) if more <= MOST_MINUTES else 0


def settles(scenario: Scenario, c: Change, metric: str = "throughput") -> str | None:
    """Return what would settle an undecided ratio: "5 more minutes would settle it"; None if the ratio is settled."""
    minutes = more_minutes(scenario, c)
    if minutes == 0:
        about, seen = METRICS[metric], min(c.resolution or 1.0, 100.0)
        return f"less than {directed(about, seen)} or {directed(about, 1 / seen)} cannot be seen in {rounds(scenario)}"
    return f"{count(minutes, 'more minute')} would settle it" if minutes else None


def comparisons(scenario: AnalysedScenario, metric: str) -> list[Comparison]:
    """Return the scenario's comparisons of one metric, of candidates that loaded the same samples."""
    return [c for c in scenario.comparisons if c.metric == metric and c.verdict != Verdict.OTHER_SAMPLES]


def metric(scenario: Scenario) -> Metric:
    """Return the metric that the scenario is about."""
    return METRICS[scenario.metrics[0]]


def label(config: str, variant: str) -> str:
    """Name a series of a chart: "free-threaded, GIL on: loader threads"."""
    return f"{CONFIGURATIONS[config].short}: {plural(variant)}"


def pictured(scenario: AnalysedScenario) -> list[Comparison]:
    """Return the comparisons of the scenario's metric that a picture has room for:

    - all with targets;
    - "headline" and "chosen" ones, for every number of workers;
    - the GIL's effect, the build's cost, threads against processes and interference, at the largest number of workers.

    In a scenario with cases, "headline" and "chosen" ones are shown at the largest number of workers only. A headline
    then replaces threads against processes.
    """
    found = comparisons(scenario, metric(scenario).name)
    most = max((c.numerator.workers for c in found), default=0)
    at_most = {"gil", "build", "method", "interference"}
    left_out = {"scaling"}
    if scenario.cases:
        at_most |= {"headline", "chosen"}
        if any(c.kind == "headline" for c in found):
            left_out.add("method")
    return [
        c
        for c in found
        if c.target or c.kind not in left_out and (c.kind not in at_most or c.numerator.workers == most)
    ]


def title(scenario: Scenario, a: Candidate, b: Candidate, with_case: bool = False) -> str:
    """Name the compared candidates: "ft loader threads / gil loader processes, x2". Common parts are said once."""
    of_a, of_b = (f"{each.config} {plural(each.variant)}" for each in (a, b))
    cases = [case_title(scenario, each.case) for each in (a, b)]
    where = f", {cases[0]}" if a.case and with_case else ""
    if (a.workers, a.case) == (b.workers, b.case):
        return f"{of_a} / {of_b}" + (f", x{a.workers}" if a.workers else "") + where
    if of_a == of_b and a.case == b.case:
        return f"{of_a}: {workers(a.workers)} / {workers(b.workers)}{where}"
    if of_a == of_b and a.workers == b.workers:
        return f"{of_a} x{a.workers}: {cases[0]} / {cases[1]}"
    return f"{full_title(scenario, a)} / {full_title(scenario, b)}"


def title_with_why(scenario: Scenario, c: Comparison) -> str:
    """Name the compared candidates, their case, and the reason for comparing them."""
    return ": ".join(filter(None, (title(scenario, c.numerator, c.denominator, with_case=True), c.why)))


def case_title(scenario: Scenario, name: str) -> str:
    """Return a case in words, "" for no case."""
    return next((case.title for case in scenario.cases if case.name == name), name)


def own_title(c: Candidate) -> str:
    """Name a candidate without its case."""
    return replace(c, case="").title


def full_title(scenario: Scenario, candidate: Candidate) -> str:
    """Return a candidate's title with its case in words."""
    return ", ".join(filter(None, (own_title(candidate), case_title(scenario, candidate.case))))


def workers(number: int) -> str:
    """Return a number of workers: "1 worker", "no workers"."""
    return count(number, "worker") if number else "no workers"


def describe(scenario: Scenario, c: Candidate, with_workers: bool = False, with_case: bool = True) -> str:
    """Return a candidate in words: "loader threads in the free-threaded build"."""
    number = f" x{c.workers}" if with_workers and c.workers else ""
    case = case_title(scenario, c.case) if with_case else ""
    return f"{plural(c.variant)}{number} in the {CONFIGURATIONS[c.config].title}{f' ({case})' if case else ''}"


def target(c: Comparison) -> str:
    """Return a ratio's target, and if it was reached: ">= 1.9x: met"; an empty string without a target."""
    if c.target is None:
        return ""
    return f"{'>=' if c.target.at == 'least' else '<='} {c.target.value:.3g}x: {c.reached}"


def resolution(scenario: AnalysedScenario) -> str:
    """Word the smallest difference that the run could have shown."""
    of = metric(scenario).name
    found = [c.resolution for c in scenario.comparisons if c.metric == of and c.resolution]
    if not found:
        return "One round cannot tell a difference from noise."
    ends = dict.fromkeys((change(min(found)), change(max(found))))
    return (
        f"The smallest difference that these {len(scenario.rounds)} rounds could have shown is "
        f"{' to '.join(ends)}{', depending on the comparison' if len(ends) > 1 else ''}."
    )


def state(results: Results) -> str | None:
    """Return a sentence if the run did not end as planned, else None."""
    if results.status == "complete":
        return None
    rounds = sum(len(s.rounds) for s in results.scenarios)
    return f"INCOMPLETE: {results.reason}; {count(rounds, 'finished round')} reported"


def builds(results: Results) -> list[str]:
    """Return a line for each twin's interpreter."""
    lines = []
    for twin, e in results.environment.twins.items():
        python = e.interpreter
        kind = "free-threaded" if python.free_threaded else "with the GIL"
        lines.append(f"{twin}: Python {python.version} {kind}, {python.build}, {python.compiler}")
    return lines


def picture(scenario: Scenario) -> bytes | None:
    """Return the scenario's picture of some samples as PNG, None if it has none."""
    try:
        content = base64.b64decode(scenario.picture or "", validate=True)
    except ValueError:
        return None
    return content if content.startswith(b"\x89PNG\r\n\x1a\n") else None


def usable(results: Results) -> int:
    """Return the number of CPUs that a run could use."""
    return min(twin.cpu.usable for twin in results.environment.twins.values())


def machine(results: Results) -> str:
    """Return processor, memory and system in a line. Twins share a machine, so the first one's are given."""
    e = next(iter(results.environment.twins.values()))
    where = f"{e.os.container} container" if e.os.container else "no container"
    return (
        f"{e.cpu.model}, {usable(results)} of {e.cpu.count} CPUs usable, "
        f"{e.memory.total / 2**30:.0f} GiB, {e.os.name}, Linux {e.os.kernel}, {where}"
    )


def revision(results: Results) -> str:
    """Return the source's commit."""
    r = results.environment.revision
    return r.commit[:12] + (" with changes" if r.dirty else "")


def work(scenario: Scenario) -> str:
    """Word the work that was measured, in a line."""
    data = scenario.dataset
    parts = [scenario.description]
    if scenario.cases:
        parts.append(f"{scenario.case_axis}: {' · '.join(case.title for case in scenario.cases)}")
    else:
        parts.append(
            f"batches of {scenario.batch_size}, {scenario.batches_per_worker} for each worker in a "
            + (f"turn, {scenario.turns} turns in a trial" if scenario.turns > 1 else "trial")
        )
    if data.source != "none":
        source = f"generated {data.kind}" if data.source == "generated" else f"{data.kind} of {data.directory}"
        parts.append(f"{data.files} {source}, {data.mean_bytes / 1000:.0f} kB on average")
    return "; ".join([*parts, rounds(scenario)])


def rounds(scenario: Scenario) -> str:
    """Return the number of rounds: "5 rounds"."""
    return count(len(scenario.rounds), "round")


def marked(one: Round) -> list[str]:
    """Return the disturbances of a round in words; an empty list if there were none."""
    return marks(one.disturbance, one.disturbance.before.affinity)


def disturbed(scenario: Scenario) -> list[str]:
    """Return one sentence on the rounds that other load disturbed; an empty list if there are none."""
    found = [one for one in scenario.rounds if marked(one)]
    if not found:
        return []
    number = len(scenario.rounds)
    which = "; ".join(f"round {one.number}: {', '.join(marked(one))}" for one in found[:MOST_ROUNDS])
    more = f"; and {len(found) - MOST_ROUNDS} more" if len(found) > MOST_ROUNDS else ""
    return [f"{len(found)} of {number} rounds {'was' if len(found) == 1 else 'were'} disturbed ({which}{more})."]


def failed(scenario: Scenario, failure: Failure) -> str:
    """Return the reason why a candidate could not be measured."""
    return f"the trial of {scenario.candidate(failure.candidate).title} failed: {failure.reason}"


def left_out(results: Results) -> list[str]:
    """Return everything that was not measured, with the reasons."""
    found = [f"{each.what}: {each.why}" for each in results.skipped]
    return found + [f"{s.name}: {failed(s, failure)}" for s in results.scenarios for failure in s.failures]


def warnings(results: Results) -> list[str]:
    """Return the warnings that a reader needs before the figures."""
    found = [warning for scenario in results.scenarios if (warning := disturbance_warning(scenario))]
    return [*results.warnings, *found]


def disturbance_warning(scenario: Scenario) -> str | None:
    """Return a warning that rounds of a scenario were disturbed, with the worst one; None if none was."""
    found = [one for one in scenario.rounds if marked(one)]
    if not found:
        return None
    worst = max(found, key=lambda one: one.disturbance.other_cpus or 0.0)
    return (
        f"{scenario.name}: in {len(found)} of {len(scenario.rounds)} rounds the machine had other work too (round "
        f"{worst.number}: {', '.join(marked(worst))}); the result is that of a machine so loaded"
    )
