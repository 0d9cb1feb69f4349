"""A waterfall as a chart, and the notes below the chart."""

from collections.abc import Sequence
from dataclasses import replace

from ftbench.document.model import Change, Verdict, Waterfall
from ftbench.plan.metrics import METRICS
from ftbench.plan.waterfall import THREADS
from ftbench.report import commands, run_words, verdict_words
from ftbench.report.draw import MOST, Chart, Row, Rows
from ftbench.report.tables import Table
from ftbench.stats.analysis import Analysis
from ftbench.stats.comparisons import CPU
from ftrun.configurations import CONFIGURATIONS


def chart(run: Analysis, fall: Waterfall) -> Chart:
    """Return the chart of a run's waterfall, with dots for each process."""
    scenario = run.scenario(fall.scenario)
    subject = (scenario.description, run_words.case_title(scenario, fall.case))
    title = f"{', '.join(filter(None, subject))}: {run_words.each_with(scenario, fall.workers)}"
    dot = "job of all ranks" if scenario.ranks else "process"
    dots = [scenario.in_each_process(key, "throughput") for key in fall.throughput.candidates]
    return drawn(run_words.slug(fall.workload), title, fall, dot, dots)


def drawn(
    name: str, title: str, fall: Waterfall, dot: str, dots: Sequence[Sequence[float]]
) -> Chart:
    """Return a waterfall's chart: bars for the start,
    each step (from old to new value) and the total.

    *dot* says what each dot on a bar stands for, such as "process" or "machine".
    *dots*: the throughputs of each candidate of the chain.
    """
    values = speeds(fall)
    throughput, cpu = fall.throughput, fall.cpu_per_1000
    start, last = throughput.start, throughput.steps[-1].candidate
    rows = [_row(start.name, start.candidate, values[0], 0.0, dot, dots[0])]
    cells = [(start.name, "", f"{values[0]:.0f}", "", "")]
    for number, (step, cpu_step) in enumerate(zip(throughput.steps, cpu.steps, strict=True), 1):
        cells.append(_cells(step.name, values[number], step.change, cpu_step.change))
        row = _row(step.name, step.candidate, values[number], values[number - 1], dot, dots[number])
        rows.append(_with_change(row, cells[-1]))
    cells.append(_cells("in all", values[-1], throughput.total, cpu.total))
    rows.append(_with_change(_row("in all", last, values[-1], 0.0, dot, dots[-1]), cells[-1]))
    head = ("what changes", "factor", "samples/s", "throughput", "CPU time")
    return Chart(
        f"waterfall-{name}",
        run_words.capital(title),
        "Each bar is one change, from what was before it to what came after; in brackets its 95% "
        f"confidence interval. Dots: one {dot} each.",
        Rows([("", rows)], "samples/s"),
        Table(head, tuple(cells), frozenset({1, 2})),
    )


def speeds(fall: Waterfall) -> list[float]:
    """Return the throughput (samples/s) of the start, and after each step."""
    values = [fall.throughput.start.value]
    for step in fall.throughput.steps:
        values.append(min(MOST, values[-1] * step.change.ratio))
    return values


def _row(name: str, key: str, value: float, begin: float, unit: str, dots: Sequence[float]) -> Row:
    """Return the bar of the candidate *key* from *begin* to *value*, before its change is known."""
    config, variant, _ = key.split("/", 2)
    hover = f"one {unit} each: " + ", ".join(f"{dot:.0f}" for dot in dots) + " samples/s"
    text = f"{value:.0f}/s"
    return Row(name, value, None, None, hover, config, variant, "", text, begin, tuple(dots))


def _cells(name: str, value: float, change: Change, cpu: Change) -> tuple[str, str, str, str, str]:
    """Return the cells of a change: name, factor, throughput, and what changed in words."""
    words, factor, cpu_words = verdict_words.outcome(METRICS["throughput"], change), "", ""
    if change.verdict != Verdict.OTHER_SAMPLES:
        factor = f"x {change.ratio:.2f}"
        # The column's heading says CPU time.
        cpu_words = verdict_words.outcome(METRICS[CPU], cpu).replace(" CPU time", "")
    return name, factor, f"{value:.0f}", words, cpu_words


def _with_change(row: Row, cells: tuple[str, ...]) -> Row:
    _, factor, _, words, _ = cells
    return replace(row, detail=words, text=" · ".join(filter(None, (factor, row.text))))


def notes(run: Analysis, fall: Waterfall) -> list[str]:
    """Return the sentences below a waterfall's chart, on first and last candidate,
    undecided steps, missing parts.
    """
    scenario = run.scenario(fall.scenario)
    sentences = [_from_first_to_last(fall)]
    changes = fall.throughput.changes.items()
    words = [(name, verdict_words.settles(scenario, change)) for name, change in changes]
    undecided = [f"{name}: {more}" for name, more in words if more]
    if undecided:
        sentences.append(f"Undecided: {'; '.join(undecided)}.")
    return sentences + (_missing(run, fall) if fall.missing else [])


def _from_first_to_last(fall: Waterfall) -> str:
    cpu, metric = fall.cpu_per_1000, METRICS[CPU]
    text = (
        f"CPU time for 1,000 samples {metric.write(cpu.start.value)} s to {metric.write(cpu.end)} s"
    )
    if cpu.total.verdict != Verdict.OTHER_SAMPLES:
        text += f", {verdict_words.outcome(metric, cpu.total)}"
    parts = [text]
    for name, (start, end) in fall.ends.items():
        metric = METRICS[name]
        parts.append(
            f"{metric.noun} {metric.write(start)} {metric.unit} to {metric.write(end)} "
            f"{metric.unit}"
        )
    return f"From first to last: {'; '.join(parts)}."


def _missing(run: Analysis, fall: Waterfall) -> list[str]:
    """Return sentences on what a waterfall lacks, and why."""
    scenario = run.scenario(fall.scenario)
    titles = {name: configuration.title for name, configuration in CONFIGURATIONS.items()}
    titles["ft"] = "threads without the GIL"
    missing = ", ".join(titles.get(name, name) for name in fall.missing)
    sentences = [f"Missing here: {missing}. The steps that need them are not in this chain."]
    threads = False
    for failure in scenario.failures:
        candidate = scenario.candidate(failure.candidate)
        if (candidate.workers, candidate.case) == (fall.workers, fall.case):
            sentence = run_words.failed(scenario, failure).rstrip(".")
            sentences.append(f"{run_words.capital(sentence)}.")
            threads = threads or candidate.variant == THREADS
    if run.results.options.dataset and threads:
        sentences.append(f"{commands.audit(run.results)} looks for what is not safe under threads.")
    return sentences
