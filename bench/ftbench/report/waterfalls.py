"""A waterfall as a chart, and the notes below the chart.

The chain of a waterfall is its candidates in order: each differs from the one before it in one thing.
"""

from dataclasses import dataclass

from ftbench.document.model import Change, Verdict, Waterfall
from ftbench.plan.candidates import Candidate
from ftbench.plan.metrics import METRICS
from ftbench.plan.waterfall import THREADS
from ftbench.report import run_words, verdict_words
from ftbench.report.draw import Bars, Chart, Row
from ftbench.report.tables import Table
from ftbench.stats.analysis import Analysis
from ftbench.stats.comparisons import CPU
from ftrun.configurations import CONFIGURATIONS


@dataclass(frozen=True)
class Place:
    """A place of the chain: what changed, and its effect."""

    name: str
    candidate: Candidate
    value: float
    """Samples a second there, by the ratios of the steps so far."""
    before: float
    """Where its bar starts: the end of the step before; 0 at the start and for the whole."""
    ratio: float | None
    """None at the start, and for a step that is not compared."""
    throughput: str
    """In words, "" at the start."""
    cpu: str
    dots: tuple[float, ...]
    """Samples a second in each process."""


def steps(run: Analysis, fall: Waterfall) -> list[Place]:
    """Return the places of the chain from its start to its end, then one for the total."""
    scenario = run.scenario(fall.scenario)
    about, cpu_about = METRICS["throughput"], METRICS[CPU]
    value = fall.start.value

    def place(key: str, name: str, before: float, change: Change | None = None, cpu: Change | None = None) -> Place:
        said = verdict_words.outcome(about, change) if change else ""
        ratio = change.ratio if change and change.verdict != Verdict.OTHER_SAMPLES else None
        # The column says that it is of CPU time.
        cpu_said = verdict_words.outcome(cpu_about, cpu).replace(" CPU time", "") if cpu and ratio else ""
        dots = tuple(scenario.in_each_process(key, "throughput"))
        return Place(name, scenario.candidate(key), value, before, ratio, said, cpu_said, dots)

    found = [place(fall.start.candidate, fall.start.name, 0.0)]
    for change, cpu in zip(fall.steps, fall.cpu_per_1000.steps, strict=True):
        before, value = value, value * change.ratio
        found.append(place(change.candidate, change.name, before, change, cpu))
    return [*found, place(fall.steps[-1].candidate, "in all", 0.0, fall.total, fall.cpu_per_1000.total)]


def chart(run: Analysis, fall: Waterfall) -> Chart:
    """Return the chart of a chain: bars from each step's start to its end, a dot for each process; and its table.

    The title says what was loaded and by how many workers.
    """
    scenario, chain = run.scenario(fall.scenario), steps(run, fall)
    what = ", ".join(filter(None, (scenario.description, run_words.case_title(scenario, fall.case))))
    rows, cells = [], []
    for step in chain:
        hover = "one process each: " + ", ".join(f"{dot:.0f}" for dot in step.dots) + " samples/s"
        factor, value = f"x {step.ratio:.2f}" if step.ratio else "", f"{step.value:.0f}"
        text = " · ".join(filter(None, (factor, f"{value}/s")))
        who = step.candidate.config, step.candidate.variant
        rows.append(
            Row(step.name, step.value, None, None, hover, *who, step.throughput, text, step.before, dots=step.dots)
        )
        cells.append((step.name, factor, value, step.throughput, step.cpu))
    return Chart(
        f"waterfall-{run_words.slug(fall.workload)}",
        run_words.capital(f"{what}: {run_words.workers(fall.workers)}"),
        "Each bar is one change, from what was before it to what came after; in brackets its 95% confidence interval. "
        "Dots: one process each.",
        f"Waterfall of {fall.workload}: "
        + "; ".join(f"{step.name} {step.throughput or f'{step.value:.0f}/s'}" for step in chain),
        Bars([("", rows)], "samples/s"),
        Table(("what changes", "factor", "samples/s", "throughput", "CPU time"), tuple(cells), frozenset({1, 2})),
    )


def notes(run: Analysis, fall: Waterfall) -> list[str]:
    """Return the sentences below the chart: both ends, what would settle an undecided step, what is missing."""
    scenario, cpu, about = run.scenario(fall.scenario), fall.cpu_per_1000, METRICS[CPU]
    said = f", {verdict_words.outcome(about, cpu.total)}" if cpu.total.verdict != Verdict.OTHER_SAMPLES else ""
    parts = [f"CPU time for 1,000 samples {about.write(cpu.start.value)} s to {about.write(cpu.end)} s{said}"]
    for name, (start, end) in fall.ends.items():
        metric = METRICS[name]
        parts.append(f"{metric.noun} {metric.write(start)} {metric.unit} to {metric.write(end)} {metric.unit}")
    found = [f"From first to last: {'; '.join(parts)}."]
    changes = [*((step.name, step) for step in fall.steps), ("in all", fall.total)]
    undecided = [f"{name}: {more}" for name, c in changes if (more := verdict_words.settles(scenario, c))]
    if undecided:
        found.append(f"Undecided: {'; '.join(undecided)}.")
    if fall.missing:
        titles = {**{name: each.title for name, each in CONFIGURATIONS.items()}, "ft": "threads without the GIL"}
        missing = ", ".join(titles.get(each, each) for each in fall.missing)
        found.append(f"Missing here: {missing}. The steps that need them are not in this chain.")
        found += _failures(run, fall)
    return found


def _failures(run: Analysis, fall: Waterfall) -> list[str]:
    """Return the reasons why candidates of the chain could not be measured."""
    scenario = run.scenario(fall.scenario)
    failed = {each.candidate: each for each in scenario.failures}
    here = [c for c in scenario.candidates if (c.workers, c.case) == (fall.workers, fall.case) and c.key in failed]
    found = [run_words.capital(run_words.failed(scenario, failed[c.key]).rstrip(".")) + "." for c in here]
    target = run.results.options.dataset
    if target and any(c.variant == THREADS for c in here):
        found.append(f"./twins audit {target} looks for what is not safe under threads.")
    return found
