"""A waterfall as a chart, and the notes below the chart."""

from collections.abc import Sequence

from ftbench.document.model import Change, Verdict, Waterfall
from ftbench.plan.metrics import METRICS
from ftbench.plan.waterfall import THREADS
from ftbench.report import commands, run_words, verdict_words
from ftbench.report.draw import Chart, Row, Rows
from ftbench.report.tables import Table
from ftbench.stats.analysis import Analysis
from ftbench.stats.comparisons import CPU
from ftrun.configurations import CONFIGURATIONS


def chart(run: Analysis, fall: Waterfall) -> Chart:
    """Return a waterfall's chart: bars for the start, each step (from its old to its new value) and the total."""
    scenario = run.scenario(fall.scenario)
    what = ", ".join(filter(None, (scenario.description, run_words.case_title(scenario, fall.case))))
    value, one = fall.start.value, "job of all ranks" if scenario.ranks else "process"
    # (name, candidate, value, start of its bar, step in throughput, step in CPU time)
    chain: list[tuple[str, str, float, float, Change | None, Change | None]] = [
        (fall.start.name, fall.start.candidate, value, 0.0, None, None)
    ]
    for step, cpu in zip(fall.steps, fall.cpu_per_1000.steps, strict=True):
        chain.append((step.name, step.candidate, value * step.ratio, value, step, cpu))
        value *= step.ratio
    chain.append(("in all", fall.steps[-1].candidate, value, 0.0, fall.total, fall.cpu_per_1000.total))
    rows, cells = [], []
    for name, key, value, begin, change, cpu_change in chain:
        c, dots = scenario.candidate(key), tuple(scenario.in_each_process(key, "throughput"))
        factor = said = cpu_said = ""
        if change and cpu_change:
            said = verdict_words.outcome(METRICS["throughput"], change)
            if change.verdict != Verdict.OTHER_SAMPLES:
                factor = f"x {change.ratio:.2f}"
                # The column's heading says CPU time.
                cpu_said = verdict_words.outcome(METRICS[CPU], cpu_change).replace(" CPU time", "")
        cells.append((name, factor, f"{value:.0f}", said, cpu_said))
        hover = f"one {one} each: " + ", ".join(f"{dot:.0f}" for dot in dots) + " samples/s"
        text = " · ".join(filter(None, (factor, f"{value:.0f}/s")))
        rows.append(Row(name, value, None, None, hover, c.config, c.variant, said, text, begin, dots))
    title = f"{what}: {run_words.each_with(scenario, fall.workers)}"
    return drawn(run_words.slug(fall.workload), title, one, rows, cells)


def drawn(name: str, title: str, one: str, rows: Sequence[Row], cells: Sequence[tuple[str, ...]]) -> Chart:
    """Return a waterfall's chart with the bars *rows* and the table *cells*.

    *one* says what each dot on a bar stands for, such as "process" or "machine".
    """
    head = ("what changes", "factor", "samples/s", "throughput", "CPU time")
    return Chart(
        f"waterfall-{name}",
        run_words.capital(title),
        "Each bar is one change, from what was before it to what came after; in brackets its 95% confidence interval. "
        f"Dots: one {one} each.",
        Rows([("", rows)], "samples/s"),
        Table(head[: len(cells[0])], tuple(cells), frozenset({1, 2})),
    )


def notes(run: Analysis, fall: Waterfall) -> list[str]:
    """Return the sentences below a waterfall's chart, on first and last candidate, undecided steps, missing parts."""
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
        failed = [(scenario.candidate(each.candidate), each) for each in scenario.failures]
        failed = [(c, each) for c, each in failed if (c.workers, c.case) == (fall.workers, fall.case)]
        found += [run_words.capital(run_words.failed(scenario, each).rstrip(".")) + "." for _, each in failed]
        if run.results.options.dataset and any(c.variant == THREADS for c, _ in failed):
            found.append(f"{commands.audit(run.results)} looks for what is not safe under threads.")
    return found
