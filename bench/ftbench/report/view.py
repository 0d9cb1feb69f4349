"""The view of a run: all that its outputs show, in words,
tables and charts. Outputs read nothing else.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from ftbench.document.convert import as_json
from ftbench.document.environment import TwinRecord
from ftbench.document.model import Results, Round, Waterfall
from ftbench.report import (
    advice,
    charts,
    commands,
    run_words,
    safety,
    tables,
    verdict_words,
    waterfalls,
)
from ftbench.report.advice import Opening
from ftbench.report.draw import Chart
from ftbench.report.tables import Table
from ftbench.stats.analysis import AnalysedScenario, Analysis

PLAIN_BUILD = "no PGO"


@dataclass(frozen=True)
class WaterfallView:
    """A waterfall: its chart, and the notes below the chart."""

    chart: Chart
    notes: list[str]


@dataclass(frozen=True)
class ScenarioView:
    """A scenario: its question, answers, charts and tables."""

    name: str
    title: str
    """The name as the start of a sentence."""
    slug: str
    """The name in ids and file names."""
    question: str
    """As the scenario has it; it may be empty."""
    subject: str
    """The question, or the description if there is none, as a sentence."""
    note: str
    work: str
    has_waterfall: bool
    answer: list[str]
    """Sentences on the main metric, and on other metrics that answer the question."""
    levels: list[str]
    """Sentences on the means of further metrics."""
    limits: list[str]
    charts: list[Chart]
    outcomes: Table | None
    """The main comparisons; None if there are none, or the waterfall has them."""
    details_title: str
    details: list[tuple[str, Table]]
    """Pairs (title, table) of all candidates and comparisons; empty if the waterfall has all."""
    rounds: Table
    """The rounds, with the load on the machine."""
    heading: list[str]
    """Lines above the charts in a picture file."""
    synthetic_images: bool


@dataclass(frozen=True)
class SafetyView:
    """The outcome of the thread-safety suite."""

    failed: bool
    """True if the suite began and did not pass."""
    sentences: list[str]
    table: Table | None = None
    """The suite's scenarios; None without results."""
    known: list[str] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    """Pairs (line, tracebacks) of what did not pass."""


@dataclass(frozen=True)
class ReportView:
    """All that the outputs of a run show."""

    subject: str
    configurations: dict[str, str]
    """{short name of a configuration: its meaning}"""
    state: str | None
    """Reason that the run is incomplete; None if it is complete."""
    openings: list[Opening]
    waterfalls: list[WaterfallView]
    overview: Chart | None
    scenarios: list[ScenarioView]
    safety: SafetyView
    warnings: list[str]
    left_out: list[str]
    started: str
    seconds: float
    machine: str
    builds: list[str]
    revision: str
    source: str
    usable_cpus: int
    twins: dict[str, TwinRecord]
    is_command: bool
    """True if the user's command was run (--command)."""
    has_peers: bool
    """True if loaders of other projects took part."""
    repeat: list[tuple[str, str]]
    """Pairs (purpose, command line) of commands that repeat the run."""
    further: list[tuple[str, str]]
    """Pairs (purpose, command line) of runs that would tell more."""
    heading: list[str]
    """Lines above the waterfalls in a picture file."""
    document: bytes
    """The content of results.json, without spaces."""
    page: Path | None
    """The page's path, if it was written."""
    detailed: bool
    """True if the terminal shows the tables of all candidates."""

    @property
    def others(self) -> list[ScenarioView]:
        """The scenarios without a waterfall."""
        return [scenario for scenario in self.scenarios if not scenario.has_waterfall]


def view(
    run: Analysis, where: Path = Path(), page: Path | None = None, detailed: bool = False
) -> ReportView:
    """Return the view of a run. *where* is the directory of the run's results.json."""
    results = run.results
    environment = results.environment
    openings = list(advice.openings(run))
    subject = run_words.subject(run)
    document = json.dumps(as_json(results), separators=(",", ":"), allow_nan=False)
    return ReportView(
        subject=subject,
        configurations=run_words.configurations(results.options.configs),
        state=run_words.state(results),
        openings=openings,
        waterfalls=[_waterfall(run, fall) for fall in run.waterfalls],
        overview=charts.overview(run),
        scenarios=[_scenario(run, scenario) for scenario in run.scenarios],
        safety=_safety(results),
        warnings=results.warnings,
        left_out=run_words.left_out(results),
        started=results.started,
        seconds=results.seconds,
        machine=run_words.machine(results),
        builds=run_words.builds(results),
        revision=run_words.revision(results),
        source=environment.source[:12],
        usable_cpus=run_words.usable(results),
        twins=dict(environment.twins.items()),
        is_command=bool(results.options.command),
        has_peers=any(scenario.group == "peers" for scenario in results.scenarios),
        repeat=commands.commands(run, where),
        further=commands.further(run),
        heading=_heading(results, [subject, *(opening.sentence for opening in openings)], []),
        document=document.encode(),
        page=page,
        detailed=detailed,
    )


def _waterfall(run: Analysis, fall: Waterfall) -> WaterfallView:
    return WaterfallView(waterfalls.chart(run, fall), waterfalls.notes(run, fall))


def _scenario(run: Analysis, analysed: AnalysedScenario) -> ScenarioView:
    scenario = analysed.record
    answer, work = verdict_words.answer(analysed), run_words.work(scenario)
    about = [f"{scenario.name}: {scenario.description}", *answer, scenario.note]
    measured = [run_words.rounds(scenario)]
    if scenario.ranks:
        measured.insert(0, f"{scenario.ranks} ranks")
    has_waterfall = any(scenario.name == fall.scenario for fall in run.waterfalls)
    outcomes = None
    if not has_waterfall and (comparisons := analysed.principal()):
        outcomes = tables.outcomes(analysed, comparisons)
    dataset = scenario.load.dataset
    return ScenarioView(
        name=scenario.name,
        title=run_words.capital(scenario.name),
        slug=run_words.slug(scenario.name),
        question=scenario.question,
        subject=run_words.capital(scenario.question or scenario.description),
        note=scenario.note,
        work=run_words.opening(scenario.unit, work),
        has_waterfall=has_waterfall,
        answer=answer,
        levels=verdict_words.levels(scenario)[1:],
        limits=run_words.limits(scenario),
        charts=charts.charts(analysed),
        outcomes=outcomes,
        details_title=f"{scenario.name}: {work}",
        details=_details(run, analysed),
        rounds=_rounds(scenario.rounds),
        heading=_heading(run.results, about, measured),
        synthetic_images=(dataset.source, dataset.kind) == ("generated", "images"),
    )


def _details(run: Analysis, analysed: AnalysedScenario) -> list[tuple[str, Table]]:
    """Return the tables of all candidates, and of comparisons that no waterfall has."""
    scenario = analysed.record
    in_chain = {}
    for fall in run.waterfalls:
        in_chain[fall.scenario] = len(fall.throughput.candidates) + len(fall.throughput.further)
    if len(scenario.candidates) <= in_chain.get(scenario.name, 0):
        return []
    metric = analysed.metric
    title = f"{metric.title}: {metric.best} is better"
    details = [(title, tables.measured(scenario, metric))]
    # If a scenario has cases, the other ratios are only in the page.
    compared = analysed.principal() if scenario.cases else analysed.compared(metric.name)
    if compared and scenario.name not in in_chain:
        title = f"Ratios of {metric.noun} within rounds"
        details.append((title, tables.outcomes(analysed, compared)))
    return details


def _rounds(rounds: list[Round]) -> Table:
    head = "round", "seconds", "load before", "CPUs used", "by others", "stolen", "throttled, s"
    rows = []
    for measured in rounds:
        load = measured.disturbance
        before = load.before.load[0] if load.before.load else None
        cpus = load.own_cpus, load.other_cpus, load.stolen_cpus, load.throttled_seconds
        marks = ", ".join(run_words.marked(measured))
        figures = map(_figure, (before, *cpus))
        rows.append((str(measured.number), f"{measured.seconds:.0f}", *figures, marks))
    return Table((*head, "disturbed by"), tuple(rows), frozenset(range(len(head))))


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def _safety(results: Results) -> SafetyView:
    suite = results.stress
    outcome = SafetyView(
        failed=suite is not None and not safety.passed(results),
        sentences=safety.sentences(results),
    )
    if suite is None or not suite.results:
        return outcome
    return replace(
        outcome,
        table=safety.table(results, suite),
        known=safety.known(suite),
        failures=safety.failures(results, suite),
    )


def _heading(results: Results, about: list[str], measured: list[str]) -> list[str]:
    """Return the lines above the charts of a picture file.

    about: the subject, the answers to its questions, a note. measured: ranks and rounds.
    """
    built = sorted({twin.interpreter.build for twin in results.environment.twins.values()})
    machine = run_words.machine(results).split(", Linux")[0]
    lines = [*about, run_words.state(results), "; ".join([machine, *built, *measured])]
    return [line for line in lines if line]
