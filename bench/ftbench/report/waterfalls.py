"""A waterfall in sentences and as a chart, and the advice that follows from it.

The chain of a waterfall is its candidates in order: each differs from the one before it in one thing.
"""

from dataclasses import dataclass

from ftbench.document.model import Change, Verdict, Waterfall
from ftbench.plan.candidates import VARIANTS, Candidate, plural
from ftbench.plan.metrics import METRICS
from ftbench.plan.waterfall import REMOVED, THREADS, TODAY
from ftbench.report import phrases
from ftbench.report.draw import Bars, Chart, Row
from ftbench.report.tables import Table
from ftbench.stats import statistics
from ftbench.stats.analysis import Analysis
from ftbench.stats.comparisons import CPU
from ftbench.stats.statistics import FEWEST_ROUNDS, ratio
from ftrun.configurations import CONFIGURATIONS

PYTHONS = {"gil": "ordinary Python (gil)", "ft": "free-threaded Python (ft)", "ft-gil": "free-threaded Python, GIL on"}


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
        said = phrases.outcome(about, change) if change else ""
        ratio = change.ratio if change and change.verdict != Verdict.OTHER_SAMPLES else None
        # The column says that it is of CPU time.
        cpu_said = phrases.outcome(cpu_about, cpu).replace(" CPU time", "") if cpu and ratio else ""
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
    what = ", ".join(filter(None, (scenario.description, phrases.case_title(scenario, fall.case))))
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
        f"waterfall-{phrases.slug(fall.workload)}",
        phrases.capital(f"{what}: {phrases.workers(fall.workers)}"),
        "Each bar is one change, from what was before it to what came after; in brackets its 95% confidence interval. "
        "Dots: one process each.",
        f"Waterfall of {fall.workload}: "
        + "; ".join(f"{step.name} {step.throughput or f'{step.value:.0f}/s'}" for step in chain),
        Bars([("", rows)], "samples/s"),
        Table(("what changes", "factor", "samples/s", "throughput", "CPU time"), tuple(cells), frozenset({1, 2})),
    )


def sentence(run: Analysis, fall: Waterfall) -> str:
    """Return a sentence with the total effect and that of the last step."""
    about, chain = METRICS["throughput"], steps(run, fall)
    start, last, end = chain[0], chain[-2], chain[-1]
    against = "torch's DataLoader with processes"
    if start.candidate.variant != TODAY:
        against = phrases.describe(run.scenario(fall.scenario), start.candidate, with_case=False)
    who = f"threads {CONFIGURATIONS[end.candidate.config].phrase}"
    if end.ratio is None:
        return f"{fall.workload}: {who} gave other samples than {against}, so their speeds are not compared."
    text = (
        f"{fall.workload}: {who} against {against}: {end.throughput}, "
        f"{about.write(end.value)} against {about.write(start.value)} samples/s"
    )
    if last.name == REMOVED and last.ratio:  # unless the step has another change, which was not measured by itself
        text += f"; removing the GIL by itself: {last.throughput}"
    return text + "."


def notes(run: Analysis, fall: Waterfall) -> list[str]:
    """Return the sentences below the chart: both ends, what would settle an undecided step, what is missing."""
    scenario, cpu, about = run.scenario(fall.scenario), fall.cpu_per_1000, METRICS[CPU]
    said = f", {phrases.outcome(about, cpu.total)}" if cpu.total.verdict != Verdict.OTHER_SAMPLES else ""
    parts = [f"CPU time for 1,000 samples {about.write(cpu.start.value)} s to {about.write(cpu.end)} s{said}"]
    for name, (start, end) in fall.ends.items():
        metric = METRICS[name]
        parts.append(f"{metric.noun} {metric.write(start)} {metric.unit} to {metric.write(end)} {metric.unit}")
    found = [f"From first to last: {'; '.join(parts)}."]
    changes = [*((step.name, step) for step in fall.steps), ("in all", fall.total)]
    undecided = [f"{name}: {more}" for name, c in changes if (more := phrases.settles(scenario, c))]
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
    found = [phrases.capital(phrases.failed(scenario, failed[c.key]).rstrip(".")) + "." for c in here]
    target = run.results.options.dataset
    if target and any(c.variant == THREADS for c in here):
        found.append(f"./twins audit {target} looks for what is not safe under threads.")
    return found


def advice(run: Analysis, fall: Waterfall) -> tuple[str, str]:
    """Return the advice for a workload, and its line of code; "" where too little was measured.

    The advice is the fastest candidate that loaded the same samples as the chain's start. The start is kept unless a
    difference from it is shown.
    """
    scenario, workload = run.scenario(fall.scenario), fall.workload
    start = scenario.candidate(fall.start.candidate)
    if len(scenario.rounds) < FEWEST_ROUNDS:
        few = f"{phrases.rounds(scenario)}, and at least {FEWEST_ROUNDS} are needed"
        return f"Too little was measured to advise for {workload}: {few}.", ""
    about = METRICS["throughput"]
    # The free-threaded build with its GIL on is there to be compared, not to be used.
    usable = [c for c in scenario.whole if c.case == fall.case and c.config != "ft-gil" and c.key not in fall.others]

    def against_start(c: Candidate) -> Change:
        r = ratio(*(scenario.in_each_process(each.key, about.name) for each in (c, start)))
        return Change(
            ratio=r.ratio, low=r.low, high=r.high, n=r.n, resolution=r.resolution, verdict=statistics.verdict(r)
        )

    # A noisy candidate must not hide another that is surely faster than the start.
    faster = [c for c in usable if c != start and against_start(c).verdict == Verdict.ABOVE]
    best = max(faster or usable, key=lambda c: scenario.typical(c.key, about.name), default=start)

    def say(c: Candidate) -> str:
        speed = scenario.typical(c.key, about.name)
        return f"{plural(c.variant)} in {PYTHONS[c.config]}, num_workers={c.workers} ({speed:.0f} samples/s)"

    text = f"Best measured here for {workload}: {say(best)}."
    if best != start and (change := against_start(best)).verdict == Verdict.NO_DIFFERENCE:
        text = (
            f"Keep {say(start)} for {workload}: the best measured here, {say(best)}, is not told apart from it "
            f"({phrases.outcome(about, change)})."
        )
        best = start
    if fall.others:
        titles = ", ".join(scenario.candidate(key).title for key in fall.others)
        text += f" Left out, for they gave other samples: {titles}."
    ours = best.variant.startswith("loader")
    method = f', worker_method="{"process" if VARIANTS[best.variant].processes else "thread"}"' if ours else ""
    return text, (
        f"from {'ftloader' if ours else 'torch.utils.data'} import DataLoader; "
        f"DataLoader(dataset, ..., num_workers={best.workers}{method})"
    )
