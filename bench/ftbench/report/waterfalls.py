"""A waterfall as a chart, and the notes below the chart."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ftbench.document.model import Change, MeasuredScenario, Verdict, Waterfall, WaterfallStep
from ftbench.plan.metrics import METRICS, Metric
from ftbench.plan.unit import SAMPLE, Unit
from ftbench.plan.waterfall import IN_ALL, SCALING, THREADS
from ftbench.report import commands, run_words, verdict_words
from ftbench.report.draw import MOST, Chart, Row, Rows
from ftbench.report.tables import Table
from ftbench.stats.analysis import Analysis
from ftbench.stats.comparisons import CPU
from ftrun.configurations import CONFIGURATIONS

ARROWS = (
    "Arrows: one change each, from the throughput before it to that after it. To the left, in red: "
    "slower. Hollow: no difference is shown."
)


def chart(run: Analysis, fall: Waterfall) -> Chart:
    """Return the chart of a run's waterfall, with dots for each process."""
    scenario = run.scenario(fall.scenario)
    title = run_words.join(scenario.description, run_words.case_title(scenario, fall.case))
    if fall.unit is SAMPLE:
        title += f": {run_words.each_with(scenario, fall.workers)}"
    dot = "job of all ranks" if scenario.ranks else "process"
    keys = fall.throughput.candidates + [step.candidate for step in fall.throughput.further]
    dots = [scenario.in_each_process(key, "throughput") for key in keys]
    return drawn(run_words.slug(fall.workload), title, fall, dot, dots)


Ends = tuple[float, float]
"""Throughputs (samples/s) at which a bar begins and ends."""


def drawn(
    name: str, title: str, fall: Waterfall, dot: str, dots: Sequence[Sequence[float]]
) -> Chart:
    """Return a waterfall's chart: bars for the start,
    each step (from old to new value), the total, and each further step.

    *dot* says what each dot on a bar stands for, such as "process" or "machine".
    *dots*: the throughputs of each candidate of the chain, then of the further steps.
    """
    start, last, cpu = fall.throughput.start, fall.throughput.steps[-1], fall.cpu_per_1000
    values = speeds(fall)
    changes = [*fall.throughput.all_changes.values(), *cpu.all_changes.values()]
    factors = verdict_words.in_factors(changes, verdict_words.NEXT_TO_FACTORS)
    unit = fall.unit
    rows = [_row(start.name, start.candidate, (0.0, values[0]), dot, dots[0], unit)]
    cells = [(start.name, "", unit.figure(values[0]), "", "")]

    def add(row: Row, change: Change, cpu_change: Change) -> None:
        texts = _cells(row, change, cpu_change, factors, unit)
        cells.append(texts)
        rows.append(_with_change(row, texts))

    def add_step(
        step: WaterfallStep, cpu_step: WaterfallStep, ends: Ends, of_step: Sequence[float]
    ) -> None:
        row = _row(step.name, step.candidate, ends, dot, of_step, unit)
        row = replace(row, is_step=True, shown=step.change.shown)
        add(row, step.change, cpu_step.change)

    for pair in zip(
        fall.throughput.steps,
        cpu.steps,
        itertools.pairwise(values),
        dots[1 : len(values)],
        strict=True,
    ):
        add_step(*pair)
    add(
        _row(IN_ALL, last.candidate, (0.0, values[-1]), dot, dots[len(values) - 1], unit),
        fall.throughput.total,
        cpu.total,
    )
    further = zip(fall.throughput.further, cpu.further, dots[len(values) :], strict=True)
    for step, cpu_step, of_step in further:
        ends = values[-1], _after(values[-1], step.change)
        add_step(step, cpu_step, ends, of_step)
    head = ("what changes", "factor", unit.column, unit.changed, "CPU time")
    return Chart(
        name=f"waterfall-{name}",
        title=run_words.opening(unit, title),
        caption=f"{ARROWS} In brackets: 95% confidence intervals. Dots: one {dot} each.",
        picture=Rows([("", rows)], f"{unit.plural}/s"),
        table=Table(head, tuple(cells), frozenset({1, 2})),
    )


def speeds(fall: Waterfall) -> list[float]:
    """Return the throughput (samples/s) of the start, and after each step."""
    values = [fall.throughput.start.value]
    for step in fall.throughput.steps:
        values.append(_after(values[-1], step.change))
    return values


def _after(value: float, change: Change) -> float:
    """Return the throughput (samples/s) after a change."""
    return min(MOST, value * change.ratio)


def _row(name: str, key: str, ends: Ends, dot: str, dots: Sequence[float], unit: Unit) -> Row:
    """Return the bar of the candidate *key* between two *ends*, before its change is known."""
    config, variant, _ = key.split("/", 2)
    begin, value = ends
    values = ", ".join(map(unit.figure, dots))
    return Row(
        label=name,
        value=value,
        low=None,
        high=None,
        hover=f"one {dot} each: {values}{unit.in_full}",
        config=config,
        variant=variant,
        text=f"{unit.figure(value)}{unit.in_short}",
        begin=begin,
        dots=tuple(dots),
    )


Cells = tuple[str, str, str, str, str]


def _cells(row: Row, change: Change, cpu: Change, factors: bool, unit: Unit) -> Cells:
    """Return the cells of a change: name, factor, throughput, and what changed in words."""
    words = verdict_words.outcome(METRICS["throughput"], change, factors)
    factor = cpu_words = ""
    if change.verdict != Verdict.OTHER_SAMPLES:
        factor = f"x {change.ratio:.2f}"
        # The column's heading says CPU time.
        cpu_words = verdict_words.outcome(METRICS[CPU], cpu, factors).replace(" CPU time", "")
    return row.label, factor, unit.figure(row.value), words, cpu_words


def _with_change(row: Row, cells: Cells) -> Row:
    _, factor, _, words, _ = cells
    return replace(row, detail=words, text=run_words.join(factor, row.text, separator=" · "))


def notes(run: Analysis, fall: Waterfall) -> list[str]:
    """Return the sentences below a waterfall's chart, on first and last candidate,
    undecided steps, missing parts.
    """
    scenario = run.scenario(fall.scenario)
    sentences = [_from_first_to_last(fall)]
    for step, cpu_step in zip(fall.throughput.further, fall.cpu_per_1000.further, strict=True):
        sentences.append(_further(scenario, fall, step, cpu_step.change))
    if scaling := _scaling(run, fall):
        sentences.append(scaling)
    undecided = []
    for name, change in fall.throughput.all_changes.items():
        if more := verdict_words.settles(scenario, change):
            undecided.append(f"{name}: {more}")
    if undecided:
        sentences.append(f"Undecided: {'; '.join(undecided)}.")
    if fall.missing:
        sentences += _missing(run, fall)
    return sentences


def _scaling(run: Analysis, fall: Waterfall) -> str:
    """Return a sentence that compares runs of a command with those of its first case; or ""."""
    analysed = next(s for s in run.scenarios if s.record.name == fall.scenario)
    speeds, first = [], ""
    for c in analysed.compared():
        if c.kind == SCALING and c.numerator.case == fall.case != c.denominator.case:
            first = run_words.case_title(analysed.record, c.denominator.case)
            speeds.append(f"{c.numerator.config} {verdict_words.short(c)}")
    return f"Against {first}: {'; '.join(speeds)}." if speeds else ""


def _from_first_to_last(fall: Waterfall) -> str:
    cpu = fall.cpu_per_1000
    of_cpu = _cpu_time(fall.unit, cpu.start.value, cpu.end, cpu.total)
    return f"From first to last: {'; '.join([of_cpu, *_of_metrics(fall.ends)])}."


def _further(scenario: MeasuredScenario, fall: Waterfall, step: WaterfallStep, cpu: Change) -> str:
    """Return the sentence on a further step: its costs, and that the total leaves it out."""
    ends: dict[str, list[float]] = {}
    for name in (CPU, *fall.ends):
        keys = fall.throughput.candidates[-1], step.candidate
        ends[name] = [scenario.typical(key, name) for key in keys]
    before, after = ends.pop(CPU)
    of_cpu = _cpu_time(fall.unit, before, after, cpu)
    costs = "; ".join([of_cpu, *_of_metrics(ends)])
    return f"{run_words.capital(step.name)}, which the total leaves out: {costs}."


def _cpu_time(unit: Unit, start: float, end: float, change: Change) -> str:
    text = f"CPU time for 1,000 {unit.plural} {_both_ends(METRICS[CPU], start, end)}"
    if change.verdict != Verdict.OTHER_SAMPLES:
        text += f", {verdict_words.outcome(METRICS[CPU], change)}"
    return text


def _of_metrics(ends: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Yield words for each metric's values before and after a change."""
    for name, (start, end) in ends.items():
        metric = METRICS[name]
        yield f"{metric.noun} {_both_ends(metric, start, end)}"


def _both_ends(metric: Metric, start: float, end: float) -> str:
    unit = metric.unit
    return f"{metric.write(start)} {unit} to {metric.write(end)} {unit}"


def _missing_title(name: str, unit: Unit) -> str:
    """Return the title of what a waterfall lacks: a configuration, or a loader."""
    if name == "ft" and unit is SAMPLE:
        return "threads without the GIL"
    return CONFIGURATIONS[name].title if name in CONFIGURATIONS else name


def _missing(run: Analysis, fall: Waterfall) -> list[str]:
    """Return sentences on what a waterfall lacks, and why."""
    scenario = run.scenario(fall.scenario)
    missing = ", ".join(_missing_title(name, fall.unit) for name in fall.missing)
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
