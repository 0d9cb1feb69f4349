"""What reports say of a document: sentences, verdicts, charts with their tables, and what they let through."""

from __future__ import annotations

import base64
import copy
import fnmatch
import io
import itertools
import json
import math
import re
import shlex
import statistics
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from html.parser import HTMLParser
from statistics import geometric_mean
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from PIL import Image

from ftbench import arguments
from ftbench.document.convert import as_json
from ftbench.document.model import (
    Change,
    Distribution,
    Failure,
    FailureKind,
    Over,
    Results,
    Round,
    RoundDisturbance,
    Scenario,
    Trial,
    Verdict,
)
from ftbench.document.store import load
from ftbench.machine.disturbance import State
from ftbench.plan.metrics import METRICS
from ftbench.plan.waterfall import WaterfallPlan
from ftbench.report import (
    advice,
    charts,
    commands,
    markdown,
    run_words,
    style,
    tables,
    terminal,
    verdict_words,
    waterfalls,
)
from ftbench.report import page as pages
from ftbench.scenarios import training
from ftbench.stats.analysis import AnalysedScenario, Analysis, analyse
from ftbench.stats.comparisons import more_minutes
from ftbench.stats.statistics import percentiles
from ftrun import escape
from tests.unit.bench import documents
from tests.unit.bench.simulated import blank

pytestmark = pytest.mark.thread_unsafe(reason="matplotlib's settings are the process's")


@pytest.fixture(scope="module")
def many(finished_run) -> Analysis:
    """A run with a scenario of each kind."""
    return analyse(documents.many(load(finished_run[1] / "results.json")))


@pytest.fixture(scope="module")
def page(many) -> Page:
    return Page(pages.page(many).decode())


def changed(run: Analysis, change: Callable[[Results], object]) -> Analysis:
    """The analysis of a run whose record was changed."""
    results = copy.deepcopy(run.results)
    change(results)
    return analyse(results)


def trials(results: Results, name: str) -> Iterator[Trial]:
    """All trials of a scenario."""
    (scenario,) = [s for s in results.scenarios if s.name == name]
    return (trial for one in scenario.rounds for trial in one.trials)


def alone(run: Analysis, *scenarios: Scenario) -> Analysis:
    """The analysis of a run of these scenarios alone."""
    kept = [Scenario(**{each.name: getattr(s, each.name) for each in fields(Scenario)}) for s in scenarios]
    return analyse(replace(run.results, scenarios=kept))


class Page(HTMLParser):
    """A page's elements as a browser finds them: (tag, attributes), and its text."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.shown: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.shown.append(data)

    def having(self, name: str, value: str) -> list[dict]:
        """The attributes of the elements with this attribute."""
        return [attributes for _, attributes in self.elements if attributes.get(name) == value]

    def results(self) -> dict:
        """The document that it hands out."""
        (link,) = self.having("id", "save-results")
        return json.loads(held(link["href"]))


def held(link: str) -> bytes:
    """What a data: link holds."""
    return base64.b64decode(link.partition(";base64,")[2], validate=True)


def test_a_scenario_without_a_waterfall_tells_its_first_conclusion(many):
    (sentence,) = verdict_words.sentences(alone(many, many.scenario("workers")))
    assert re.match(
        r"workers: With 8 workers, loader threads in the free-threaded build against loader processes in the GIL "
        r"build: (9\d|10\d)% faster \(\d+% to \d+%\)\.$",
        sentence,
    )
    (sentence,) = verdict_words.sentences(alone(many, many.scenario("sizes")))
    assert re.match(
        r"sizes: With 2 workers, of 3 comparisons with .* did better in all \(typically \d+% faster, most", sentence
    )


def test_the_waterfalls_sentence_comes_first(many):
    first, second, *_ = verdict_words.sentences(many)
    assert first.startswith("pillow: threads") and "too few rounds" in first
    assert re.match(
        r"chain: threads without the GIL against torch's DataLoader with processes: (9\d|10\d)% faster "
        r"\(\d+% to \d+%\), \d+ against \d+ samples/s; removing the GIL by itself: ",
        second,
    )
    # Each step with its factor and in words, then the whole, in every output.
    fall = many.waterfalls[1]
    steps = waterfalls.steps(many, fall)
    assert [row.name for row in steps][-2:] == ["the GIL removed", "in all"] and len(steps) == 6
    assert all(row.before == before.value for before, row in zip(steps[:4], steps[1:5], strict=True))
    assert (steps[-1].before, steps[-1].value) == (0, steps[-2].value)
    values = tuple(many.scenario("chain").in_each_process("ft/loader-thread/2", "throughput"))
    assert steps[-2].dots == values and steps[-2].value == pytest.approx(geometric_mean(values))


def test_a_missing_step_is_named_with_its_reason(many):
    """It is part of the last step, which is then not the GIL's by itself; the audit looks at failing threads."""
    missing = "ft-gil/loader-thread/2"

    def fail(results: Results) -> None:
        scenario = results.scenarios[-1]
        for one in scenario.rounds:
            one.trials = [trial for trial in one.trials if trial.candidate != missing]
        left = [c for c in scenario.candidates if c.key != missing]
        scenario.pairs = WaterfallPlan().pairs(left)
        scenario.failures = [Failure(FailureKind.FAILED, missing, "RuntimeError: not thread-safe")]
        results.options.dataset = "my.py:x"

    failed = changed(many, fail)
    fall = failed.waterfalls[1]
    assert "by itself" not in verdict_words.sentence(failed, fall)
    said = " ".join(waterfalls.notes(failed, fall))
    assert "Missing here: free-threaded build with GIL on" in said or "Missing here: loader threads" in said
    assert "The trial of ft-gil loader threads x2 failed: RuntimeError: not thread-safe." in said
    assert "./twins audit my.py:x " in said


def decided(run: Analysis, **undecided: float) -> Analysis:
    """The run with the chain's waterfall alone, whose last step is undecided as given."""
    run = copy.deepcopy(alone(run, run.scenario("chain")))
    (fall,) = run.waterfalls
    for one in (*fall.steps, fall.total):
        one.verdict = Verdict.ABOVE
    if undecided:
        fall.steps[-1] = replace(fall.steps[-1], **undecided, verdict=Verdict.NO_DIFFERENCE)
    return run


def test_every_output_says_what_would_settle_a_step(many, tmp_path, capsys):
    run = decided(many)
    assert len(waterfalls.notes(run, run.waterfalls[0])) == 1
    run = decided(many, ratio=1.1, low=1.0, high=1.21, resolution=1.21)
    said = "Undecided: the GIL removed: 3 more minutes would settle it."
    assert "settle" not in verdict_words.sentence(run, run.waterfalls[0])  # which stands beside it
    terminal.show(run, tmp_path / "report.html")
    for output in (capsys.readouterr().out, markdown.summary(run), "".join(Page(pages.page(run).decode()).shown)):
        assert said in " ".join(output.split())


@pytest.mark.parametrize(
    "fastest, text, code",
    [
        ("ft/loader-thread/2", "loader threads in free-threaded Python", 'num_workers=2, worker_method="thread")'),
        ("gil/loader-process/2", "loader processes in ordinary Python", 'num_workers=2, worker_method="process")'),
        ("gil/torch-process/2", "torch DataLoader processes in ordinary Python", "num_workers=2)"),
        # It is there to be compared, not to be used.
        ("ft-gil/loader-thread/2", "loader threads in free-threaded Python (ft)", 'worker_method="thread")'),
    ],
)
def test_what_is_advised_is_the_fastest_that_was_measured(many, fastest, text, code):
    run = with_throughput(many, fastest, [1e6] * 5)
    advised, line = advice.advice(run, run.waterfalls[1])
    assert text in advised and line.endswith(code)
    assert f"from {'torch.utils.data' if 'torch' in fastest else 'ftloader'} import DataLoader; " in line
    assert "batch_size" not in line  # which is the bench's own


def with_throughput(run: Analysis, key: str, values: list[float]) -> Analysis:
    def change(results: Results) -> None:
        own = [trial for trial in trials(results, "chain") if trial.candidate == key]
        for trial, value in zip(own, values, strict=True):
            trial.metrics["throughput"] = value

    return changed(run, change)


def test_what_is_not_told_apart_is_no_reason_to_change(many):
    noisy = [9000.0, 100.0, 9000.0, 100.0, 90000.0]
    run = with_throughput(many, "gil/loader-thread/2", noisy)
    advised, line = advice.advice(run, run.waterfalls[1])
    # It hides nobody who is surely faster.
    assert advised.startswith("Best measured here for chain: loader threads in free-threaded Python")
    for workers in (1, 2):
        run = with_throughput(run, f"ft/loader-thread/{workers}", [each / 2 for each in noisy])
    advised, line = advice.advice(run, run.waterfalls[1])
    assert advised.startswith("Keep torch DataLoader processes in ordinary Python") and "from torch." in line
    assert "loader threads in ordinary Python (gil)" in advised and "is not told apart from it (between" in advised


def with_other_samples(run: Analysis, key: str) -> Analysis:
    def change(results: Results) -> None:
        for trial in trials(results, "chain"):
            if trial.candidate == key:
                trial.rows = [*trial.rows[:-1], trial.rows[-1] ^ 1]

    return changed(run, change)


@pytest.mark.parametrize("wrong", ["ft/loader-thread/2", "gil/loader-thread/2"])
def test_who_gave_other_samples_is_not_advised(many, wrong):
    run, last = with_throughput(many, wrong, [1e6] * 5), wrong == "ft/loader-thread/2"
    assert run.waterfalls[1].others == []
    told = with_other_samples(run, wrong)
    fall = told.waterfalls[1]
    advised, _ = advice.advice(told, fall)
    title = told.scenario("chain").candidate(wrong).title
    assert "1000000" not in advised and f"Left out, for they gave other samples: {title}." in advised
    said = verdict_words.sentence(told, fall)
    assert ("gave other samples than torch's DataLoader" in said) is last and ("%" in said) is not last

    def draw(results: Results) -> None:
        own = (trial for trial in trials(results, "chain") if trial.candidate == fall.start.candidate)
        for number, trial in enumerate(own):
            trial.rows = [number] * len(trial.rows)

    # Where the reference draws again each time, no candidate can be checked.
    assert changed(told, draw).waterfalls[1].others == []


@pytest.mark.parametrize("wrong", ["ft/loader-thread/2", "gil/loader-process/2"])
def test_no_output_has_a_ratio_of_different_samples(many, capsys, wrong):
    told = with_other_samples(many, wrong)
    # Neither the step that leads to them nor the one that leads on, in throughput as in CPU time.
    apart = {"ft/loader-thread/2": {4, 5}, "gil/loader-process/2": {1, 2}}[wrong]
    fall = told.waterfalls[1]
    chart = waterfalls.chart(told, fall)
    for place, (row, cells) in enumerate(zip(chart.picture.rows, chart.table.rows, strict=True)):
        factor, _, throughput, cpu = cells[1:]
        assert row.detail == throughput and bool(factor) == ("x " in row.text)
        if place in apart:
            assert (factor, throughput, cpu) == ("", verdict_words.NOT_COMPARED, "")
        else:
            assert bool(factor) == bool(place) and "other samples" not in throughput
    # More time would not settle it; and it is in no picture of ratios.
    changes = [*fall.steps, fall.total]
    assert {n for n, c in enumerate(changes, 1) if c.verdict == Verdict.OTHER_SAMPLES} == apart
    assert all(more_minutes(told.scenario("chain"), changes[n - 1]) is None for n in apart)
    titles = {
        run_words.title_with_why(told.scenario("chain"), c)
        for c in told.scenario("chain").comparisons
        if c.verdict == Verdict.OTHER_SAMPLES
    }
    before, after = (
        {row.hover for found in charts.charts(run.scenario("chain")) for row in getattr(found.picture, "rows", ())}
        for run in (many, told)
    )
    assert any(hover.split("\n")[0] in titles for hover in before)
    assert not any(hover.split("\n")[0] in titles for hover in after)
    terminal.show(told, None)
    page = Page(pages.page(told).decode())
    for said in (capsys.readouterr().out, markdown.summary(told), " ".join(page.shown)):
        assert said.count(verdict_words.NOT_COMPARED) >= 2
    # The document that the page hands out is as it was written.
    assert page.results() == as_json(told.results)


THROUGHPUT, MEMORY = METRICS["throughput"], METRICS["pss_mib"]


@pytest.mark.parametrize(
    "metric, ratio, wanted",
    [
        (THROUGHPUT, 1.57, "57% faster"),
        (THROUGHPUT, 0.86, "14% slower"),
        (MEMORY, 0.86, "14% less memory"),
        (THROUGHPUT, 1.004, "0.4% faster"),
        (THROUGHPUT, 0.996, "0.4% slower"),
        (THROUGHPUT, 1.997, "100% faster"),
        (THROUGHPUT, 2.49, "149% faster"),
        (THROUGHPUT, 3.4, "240% faster"),
        (THROUGHPUT, 0.25, "75% slower"),
        (MEMORY, 0.002, "more than 99% less memory"),
        (MEMORY, 250.0, "more than 9,900% more memory"),
        (METRICS["step_over_sum"], 0.5, "50% smaller"),
    ],
)
def test_a_ratio_in_words(metric, ratio, wanted):
    assert verdict_words.directed(metric, ratio) == wanted


@pytest.mark.parametrize(
    "change, wanted",
    [
        ({"ratio": 1.57, "low": 1.48, "high": 1.66, "verdict": Verdict.ABOVE}, "57% faster (48% to 66%)"),
        ({"ratio": 0.86, "low": 0.80, "high": 0.92, "verdict": Verdict.BELOW}, "14% slower (8% to 20%)"),
        (
            {"ratio": 1.21, "low": 0.77, "high": 1.92, "verdict": Verdict.NO_DIFFERENCE},
            "between 23% slower and 92% faster",
        ),
        # The smaller first, whichever way.
        ({"ratio": 0.41, "low": 0.30, "high": 0.56, "verdict": Verdict.BELOW}, "59% slower (44% to 70%)"),
        ({"ratio": 3.1, "low": 2.0, "high": 4.0, "verdict": Verdict.ABOVE}, "210% faster (100% to 300%)"),
        (
            {"ratio": 1.1, "low": 0.3, "high": 4.0, "verdict": Verdict.NO_DIFFERENCE},
            "between 70% slower and 300% faster",
        ),
        (
            {"ratio": 0.5, "low": 0.004, "high": 60, "verdict": Verdict.NO_DIFFERENCE},
            "between more than 99% slower and 5,900% faster",
        ),
        (
            {"ratio": 1.2, "low": 1.01, "high": 1.4, "verdict": Verdict.NO_DIFFERENCE},
            "20% faster (1% to 40%), not certain among all these comparisons",
        ),
        ({"ratio": 1.002, "low": 1.001, "high": 1.003, "verdict": Verdict.NO_DIFFERENCE}, "the same within 0.3%"),
        ({"ratio": 1.002, "low": 0.998, "high": 1.006, "verdict": Verdict.NO_DIFFERENCE}, "the same within 0.6%"),
        (
            {"ratio": 1.2, "low": None, "high": None, "n": 1, "verdict": Verdict.TOO_FEW},
            "20% faster (too few rounds to be sure)",
        ),
        (
            {"ratio": 1.2, "low": 1.1, "high": 1.3, "n": 2, "verdict": Verdict.TOO_FEW},
            "20% faster (too few rounds to be sure)",
        ),
    ],
)
def test_outcomes_in_words(change, wanted):
    assert verdict_words.outcome(THROUGHPUT, Change(**{"n": 5, "resolution": None, **change})) == wanted


@pytest.mark.parametrize(
    "change, wanted",
    [
        # What is seen half as well takes four times as long: three times 200 s more.
        ({"ratio": 1.1, "low": 1.0, "high": 1.21, "resolution": 1.21}, "10 more minutes would settle it"),
        ({"ratio": 1.1, "low": 0.9999, "high": 1.1 * 1.1001, "resolution": 1.11}, "1 more minute would settle it"),
        # What would take ten times as long is no advice.
        ({"ratio": 1.01, "low": 0.8, "high": 1.28}, "less than 40% faster or 29% slower cannot be seen in 4 rounds"),
        (
            {"ratio": 1.1, "low": 0.01, "high": 100.0, "resolution": math.exp(math.log(100))},
            "less than 9,900% faster or 99% slower cannot be seen in 4 rounds",
        ),
        (
            {"metric": "pss_mib", "ratio": 1.01, "low": 0.8, "high": 1.28},
            "less than 40% more memory or 29% less memory cannot be seen in 4 rounds",
        ),
        ({"ratio": 1.3, "low": 1.2, "high": 1.4}, None),
        # A difference below 1% is none.
        ({"ratio": 1.002, "low": 0.998, "high": 1.006}, None),
        ({"ratio": 1.0, "low": 1.0, "high": 1.0}, None),
        ({"ratio": 1.3, "low": 1.2, "high": 1.4, "verdict": Verdict.ABOVE}, None),
        ({"ratio": 1.3, "low": None, "high": None, "verdict": Verdict.TOO_FEW}, None),
    ],
)
def test_what_would_settle_it(change, wanted):
    figures = {"n": 4, "verdict": Verdict.NO_DIFFERENCE, "resolution": 1.4, **change}
    metric = figures.pop("metric", "throughput")
    assert verdict_words.settles(rounds_of(50.0), Change(**figures), metric) == wanted


def rounds_of(seconds: float) -> SimpleNamespace:
    """A scenario of four rounds that took as long."""
    return SimpleNamespace(rounds=[SimpleNamespace(seconds=seconds)] * 4)


@pytest.mark.parametrize("seconds", [1e6, 1e308])
def test_what_would_take_days_settles_nothing(seconds):
    change = Change(ratio=1.1, low=1.0, high=1.21, n=4, resolution=1.21, verdict=Verdict.NO_DIFFERENCE)
    said = "less than 21% faster or 17% slower cannot be seen in 4 rounds"
    assert verdict_words.settles(rounds_of(seconds), change) == said


def test_the_resolution_in_words():
    def scenario(*found: float | None) -> SimpleNamespace:
        comparisons = [SimpleNamespace(metric="pss_mib", resolution=each) for each in found]
        comparisons.append(SimpleNamespace(metric="throughput", resolution=9.0))
        return SimpleNamespace(metrics=["pss_mib"], rounds=[None] * 7, comparisons=comparisons)

    assert verdict_words.resolution(scenario(1.04, 1.21, None)) == (
        "The smallest difference that these 7 rounds could have shown is 4% to 21%, depending on the comparison."
    )
    assert verdict_words.resolution(scenario(1.04)).endswith("could have shown is 4%.")
    assert verdict_words.resolution(scenario(None)) == "One round cannot tell a difference from noise."


def test_disturbed_rounds_are_told():
    state = State([1.5, 1.0, 0.5], 2, None, None, None, None)

    def one(number: int, others: float | None, before: State = state) -> Round:
        return Round(number, 3.0, [], RoundDisturbance(3.0, 1.9, others, None, None, before, before))

    # The last one's system tells nothing of others.
    rounds = [one(1, 0.0), one(2, 0.25), one(3, None, replace(state, load=None))]
    scenario = SimpleNamespace(name="pillow", rounds=rounds)
    assert run_words.disturbed(scenario) == [
        "1 of 3 rounds was disturbed (round 2: other processes used 0.25 of 2 CPUs)."
    ]
    assert "in 1 of 3 rounds" in run_words.disturbance_warning(scenario)
    table = tables.rounds(scenario)
    assert table.head == ("round", "seconds", "load before", "CPUs used", "by others", "disturbed by")
    assert table.rows[1] == ("2", "3", "1.50", "1.90", "0.25", "other processes used 0.25 of 2 CPUs")
    assert table.rows[2] == ("3", "3", "", "1.90", "", "")


def test_every_chart_has_its_figures_in_its_table(many):
    """Of each scenario's own metric: a row for each candidate, and the chart's values among those of the document."""
    for scenario in many.scenarios:
        first = scenario.metric
        found = charts.charts(scenario)
        assert found[0].name == run_words.slug(f"{scenario.name}-{first.name}")
        place = found[0].table.head.index(f"median, {first.unit}")
        assert sorted(row[place] for row in found[0].table.rows) == sorted(
            first.write(m.median) for m in tables.candidates(scenario, first.name)
        )
        assert all(chart.alt and chart.caption and chart.table.rows for chart in found)
        ratios = next(c for c in found if c.name.endswith("-ratios"))
        outcomes = [verdict_words.short(c) for c in scenario.compared()]
        assert [row[ratios.table.head.index("verdict")] for row in ratios.table.rows] == outcomes


def test_cases_on_an_axis_become_curves(many):
    scenario = many.scenario("sizes")
    measured = charts.charts(scenario)[0].picture
    assert measured.axis.logarithmic and measured.axis.texts == ["64 KiB", "512 KiB", "4 MiB"]
    medians = {m.candidate.key: m.median for m in tables.candidates(scenario, "throughput")}
    (line,) = [line for line in measured.lines if line.label == "free-threaded: loader threads, x2"]
    assert list(line.x) == [64 * 1024, 512 * 1024, 4096 * 1024]
    assert list(line.y) == [medians[f"ft/loader-thread/2@{case.name}"] for case in documents.SIZES]
    # Twelve curves are too many for one chart: those of one worker have their own, on request.
    others = [c for c in charts.charts(scenario) if c.folded == "1 worker"]
    assert len(measured.lines) == 6 and others and "1 worker" in others[0].title


def test_cases_by_name_become_groups_of_bars(many):
    picture = charts.charts(many.scenario("kinds"))[0].picture
    assert [title for title, _ in picture.groups] == [
        f"{case.title}, {n} worker{'s' * (n > 1)}" for case in documents.WORK for n in (1, 2)
    ]
    assert all(len(group) == 6 for _, group in picture.groups)


def test_many_numbers_of_workers_become_curves_with_deviations(many):
    scenario = many.scenario("workers")
    (line,) = [
        line for line in charts.charts(scenario)[0].picture.lines if line.label == "free-threaded: loader threads"
    ]
    own = [m for m in tables.candidates(scenario, "throughput") if m.series == ("ft", "loader-thread")]
    assert list(line.x) == [1, 2, 4, 8]
    assert list(line.y) == pytest.approx([statistics.fmean(m.values) for m in own])
    for y, low, high, m in zip(line.y, line.low, line.high, own, strict=True):
        assert high - y == pytest.approx(statistics.stdev(m.values)) == pytest.approx(y - low)


def analysed(run: Analysis, scenario: Scenario) -> AnalysedScenario:
    """A scenario of another run like this one."""
    return analyse(replace(run.results, scenarios=[scenario])).scenarios[0]


def test_many_numbers_of_workers_under_cases_become_a_chart_for_each(many):
    like = many.results.scenarios[0]
    scenario = analysed(many, documents.scenario(like, "scaling", documents.WORK, "work", workers=(1, 2, 4)))
    first, *found = [c for c in charts.charts(scenario) if re.fullmatch(r"scaling-throughput(-\d)?", c.name)]
    assert first.title == "Throughput with 4 workers: higher is better"  # all cases in one chart
    assert len(first.picture.rows) == len(documents.WORK) * 6
    assert [c.title for c in found] == [f"Throughput, {case.title}: higher is better" for case in documents.WORK]
    for chart, case in zip(found, documents.WORK, strict=True):
        measured = [m for m in tables.candidates(scenario, "throughput") if m.case == case.name]
        assert sorted(y for line in chart.picture.lines for y in line.y) == sorted(m.mean for m in measured)
        # Nobody can do more than as many times the best of one worker.
        one = max(m.mean for m in measured if m.workers == 1)
        assert chart.picture.ideal == [(1, one), (2, 2 * one), (4, 4 * one)]


def test_distributions_are_kept_with_their_tails(many):
    scenario = many.scenario("steps")
    (values,) = [
        kept.pooled
        for kept in charts.kept(scenario)["step-times", False]
        if kept.candidate.key == "ft/loader-thread/2@decode"
    ]
    assert len(values) == 50 * documents.ROUNDS and values == sorted(values)
    (box,) = [c for c in charts.charts(scenario) if c.name == "steps-step-times"]
    row = next(r for r in box.table.rows if r[0] == "ft loader threads x2, decode only")
    rounds = [t.distributions["step-times"].values for t in scenario.trials_of("ft/loader-thread/2@decode")]
    middle, low, high = percentiles(rounds)[99]
    assert box.table.head == ("candidate", "values", "median, ms", "90%", "99%", "smallest", "largest")
    assert row[1] == "250" and row[5:] == (f"{values[0]:.4g}", f"{values[-1]:.4g}")
    assert row[4] == f"{middle:.4g} ({low:.4g} to {high:.4g})"


@pytest.mark.parametrize("values", [[float(n) for n in range(1, 101)], [3.0]])
def test_quantiles_are_values_that_were_measured(many, values):
    def change(results: Results) -> None:
        for trial in trials(results, "steps"):
            trial.distributions["step-times"].values = values

    run = changed(many, change)
    (box,) = [c for c in charts.charts(run.scenario("steps")) if c.name == "steps-step-times"]
    wanted = (1, 25, 50, 75, 99) if len(values) > 1 else (3, 0, 3, 0, 3)
    for row in box.picture.rows:
        low, high = row.quartiles if len(values) > 1 else (0, 0)
        assert (row.low, low, row.value, high, row.high) == wanted


@pytest.mark.parametrize(
    "value, unit, wanted",
    [
        (64 * 1024, "bytes", "64 KiB"),
        (4 << 20, "bytes", "4 MiB"),
        (1000, "bytes", "1 kB"),
        (10**9, "bytes", "1 GB"),
        (1, "bytes", "1 B"),
        (0, "bytes", "0 B"),
        (0.005, "seconds", "5 ms"),
        (0, "seconds", "0 s"),
        (2, "seconds", "2 s"),
        (1000, "names", "1,000 names"),
        (3, "", "3"),
    ],
)
def test_values_of_an_axis(value, unit, wanted):
    assert style.quantity(value, unit) == wanted


def test_overview_turns_what_should_be_small(many):
    chart = charts.overview(many)
    # One for each size, kind of work and so on: 3 + 2 + 1 + 2. The waterfalls speak for themselves.
    assert len(chart.table.rows) == 8
    flipped = copy.deepcopy(many)
    less = {"ratio": 0.5, "low": 0.4, "high": 0.6, "verdict": Verdict.BELOW}
    for scenario in flipped.scenarios:
        scenario.comparisons = [replace(c, **less) if c.metric == "pss_mib" else c for c in scenario.comparisons]
        scenario.metrics.sort(key=lambda name: name != "pss_mib")
    assert charts.overview(flipped).table.rows[0][2:] == ("2.00x", "50% less memory (40% to 60%)")
    first = charts.overview(flipped).picture.rows[0]
    assert (first.value, first.low, first.high) == pytest.approx((2.0, 1 / 0.6, 2.5))


def test_page_holds_everything_and_names_no_address(many, page):
    assert page.results() == as_json(many.results)
    ids = [attributes["id"].removeprefix("chart-") for attributes in page.having("class", "chart")]
    # The waterfalls before all others, then the overview.
    assert ids[:3] == ["waterfall-pillow", "waterfall-chain", "overview"]
    assert len(ids) == 3 + sum(len(charts.charts(s)) for s in many.scenarios)
    assert sum(tag == "svg" for tag, _ in page.elements) == len(ids)
    files = [attributes for _, attributes in page.elements if attributes.get("download", "").endswith(".svg")]
    assert [attributes["download"] for attributes in files] == [f"{name}.svg" for name in ids]
    for tag, attributes in page.elements:
        assert not {"src", "action", "onclick", "onload", "onerror"} & set(attributes), (tag, attributes)
        assert attributes.get("href", "#").startswith(("#", "data:")), attributes


def test_nothing_in_the_page_has_the_id_of_another(page):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = {
        name for _, a in page.elements for value in a.values() for name in re.findall(r"url\(#([^)]+)", value or "")
    }
    used |= {a["href"][1:] for tag, a in page.elements if tag == "use"}
    assert used and used <= set(ids)


def test_a_chart_has_the_pages_colours_and_alone_its_own(many):
    chart = charts.charts(many.scenario("kinds"))[0]
    drawn, alone = pages.svg(chart, ["what was measured"])
    assert "var(--text)" in drawn and style.TEXT not in drawn
    assert "var(--" not in alone and style.TEXT in alone
    above = ["what was measured", chart.title, *style.wrapped(chart.caption)]
    for text, wanted in ((drawn, []), (alone, above)):
        root = ElementTree.fromstring(text)
        shown = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        assert [line for line in shown if line in above] == wanted
        hovering = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
        assert hovering == [row.hover for row in chart.picture.rows]


def test_picture_of_samples(many, tmp_path):
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(buffer, "PNG")
    png, entry = buffer.getvalue(), many.scenarios[0]
    other = next(scenario for scenario in many.scenarios if scenario.name == "workers")
    document = alone(many, replace(entry, picture=base64.b64encode(png).decode()), other)
    text = pages.page(document).decode()
    assert "<p>Workers: With 8 workers, " in text  # which is not what the waterfall's sentence above it is about
    (source,) = [a["src"] for tag, a in Page(text).elements if tag == "img"]
    assert base64.b64decode(source.removeprefix("data:image/png;base64,")) == png
    assert dict(pages.files(document))["pillow-samples.png"] == png
    for nonsense in ('"><script>', base64.b64encode(b"<svg/>").decode(), None):
        assert run_words.picture(replace(entry, picture=nonsense)) is None


def test_page_has_no_script_and_allows_none(page):
    (policy,) = [a["content"] for a in page.having("http-equiv", "Content-Security-Policy")]
    assert not [tag for tag, _ in page.elements if tag in ("script", "noscript")]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
    assert "script" not in policy and "http" not in policy


def test_what_a_screen_reader_finds(many, page):
    for tag, attributes in page.elements:
        if attributes.get("class") == "chart":
            assert attributes["role"] == "img" and len(attributes["aria-label"]) > 40
        if tag == "th":
            assert attributes["scope"] == "col"
        if "download" in attributes:
            assert "SVG" in attributes.get("aria-label", "") or attributes["id"] == "save-results"
    assert ("html", {"lang": "en"}) in page.elements
    links = {a["href"] for tag, a in page.elements if tag == "a" and "download" not in a}
    assert links >= {f"#scenario-{run_words.slug(s.name)}" for s in many.scenarios}
    assert links <= {f"#{a['id']}" for _, a in page.elements if "id" in a}


def test_commands_ask_for_the_same(document):
    """What the page says to repeat a run is understood, and means the options that it was run with."""
    found = {what: shlex.split(line) for what, line in commands.commands(analyse(document))}
    line = found["The same measurement"]
    start = line.index("./twins")
    assert line[start : start + 2] == ["./twins", "bench"]
    given, said = arguments.parse(line[start + 2 :]), document.options
    assert [s.name for s in given.scenarios] == said.scenarios
    assert (
        given.quick,
        given.rounds,
        list(given.workers),
        given.batch_size,
        str(given.data),
        list(given.configs),
    ) == tuple(getattr(said, key) for key in ("quick", "rounds", "workers", "batch_size", "data", "configs"))
    docker = found["The same with Docker"]
    assert docker[0] == f"DATA={said.data}" and docker[docker.index("--data") + 1] == "/data"


@pytest.mark.parametrize(
    "where, given, native, docker",
    [
        ("python", {"data": "photos"}, "--data photos", "DATA=./photos * --data /data"),
        ("python", {"dataset": "/me/a.py:x"}, "--dataset /me/a.py:x", "CODE=/me * --dataset a.py:x"),
        (
            "unix:/run/ft",
            {"data": "/data/few", "folders": {"DATA": "/my photos"}},
            "--data '/my photos/few'",
            "DATA='/my photos' * --data /data/few",
        ),
        ("unix:/run/ft", {"data": "/data"}, "--data your/images", "DATA=./your/images * --data /data"),
        (
            "unix:/run/ft",
            {"dataset": "a.py:x", "folders": {"CODE": "/me", "DATA": "/photos"}},
            "--dataset /me/a.py:x",
            "CODE=/me DATA=/photos * --dataset a.py:x",
        ),
        # As a file .env has it.
        (
            "unix:/run/ft",
            {"dataset": "a.py:x", "folders": {"CODE": "~/my code"}},
            "--dataset ~/'my code/a.py:x'",
            "CODE=~/'my code' * --dataset a.py:x",
        ),
    ],
)
def test_commands_name_the_users_own_folders(where, given, native, docker):
    document = blank()
    document.options = replace(document.options, twins={"ft": where}, **given)
    found = dict(commands.commands(Analysis(document, [], [])))
    assert native in found["The same measurement"] and "/data" not in found["The same measurement"]
    assert fnmatch.fnmatchcase(found["The same with Docker"], f"{docker} *")


@pytest.mark.parametrize(
    "place, ratio, half, precision",
    [
        ("step", 1.04, 0.06, 0.028),
        ("total", 1.04, 0.06, 0.028),
        ("step", 1.004, 0.008, 0.002),
        ("step", 4.0, 2.0, 0.05),  # no less precise than the run itself
    ],
)
@pytest.mark.parametrize("where", ["/usr/bin/python3", "unix:/run/ft"], ids=["native", "docker"])
def test_a_run_that_would_settle_it_is_a_longer_one(many, place, ratio, half, precision, where):
    run = renamed(decided(many), "text")
    options = run.results.options = replace(
        run.results.options, twins={"ft": where}, data=None, scenarios=["text", "pillow"]
    )
    assert commands.longer(run) == []
    (fall,) = run.waterfalls
    one = fall.total if place == "total" else fall.steps[1]
    one.ratio, one.low, one.high = ratio, ratio / math.exp(half), ratio * math.exp(half)
    one.verdict, one.resolution = Verdict.NO_DIFFERENCE, math.exp(1.4 * half)
    ((what, line),) = commands.longer(run)
    assert what == "A run that would settle what is open"
    line = shlex.split(line)
    given = arguments.parse(line[line.index("ft-bench" if where.startswith("unix:") else "bench") + 1 :])
    assert given.rounds is None and given.budget > options.budget and given.precision == pytest.approx(precision)
    assert [scenario.name for scenario in given.scenarios] == ["text"]


def renamed(run: Analysis, name: str) -> Analysis:
    """A run of one scenario, under another name."""
    run.scenarios[0].name = run.waterfalls[0].scenario = name
    return run


def test_a_run_that_would_settle_it_has_enough_for_the_slowest_scenario(many):
    narrow = {"ratio": 1.04, "low": 1.04 / math.exp(0.06), "high": 1.04 * math.exp(0.06)}
    both = [
        renamed(decided(many, **narrow, resolution=seen), name) for name, seen in (("pillow", 1.08), ("text", 1.11))
    ]
    run = Analysis(both[0].results, [each.scenarios[0] for each in both], [each.waterfalls[0] for each in both])
    run.results.options = replace(run.results.options, data=None, scenarios=["pillow", "text"], budget=300.0)
    minutes = [more_minutes(each.scenarios[0], each.waterfalls[0].steps[-1]) for each in both]
    assert minutes[0] < minutes[1]
    ((_, line),) = commands.longer(run)
    given = arguments.parse(shlex.split(line)[2:])
    # As rounds.run shares a budget out.
    first, second = (s.share(given.quick) for s in given.scenarios)
    for part in (first, second):
        assert given.budget * part / (first + second) >= 300 / 2 + 60 * max(minutes)
    # What cannot be settled is not promised.
    steps = run.waterfalls[1].steps
    steps[1] = replace(steps[1], ratio=1.001, low=0.5, high=2.0, resolution=3.0, verdict=Verdict.NO_DIFFERENCE)
    assert [what for what, _ in commands.longer(run)] == ["A run that would settle some of what is open"]


@pytest.mark.parametrize("rounds, status", [(1, "complete"), (2, "incomplete")])
def test_too_little_is_no_advice(many, rounds, status, capsys):
    def cut(results: Results) -> None:
        results.scenarios = results.scenarios[-1:]
        results.status, results.reason = status, "ended"
        results.options = replace(results.options, data=None, rounds=rounds, scenarios=["text"])
        results.scenarios[0].name = "text"
        del results.scenarios[0].rounds[rounds:]

    run = changed(many, cut)
    assert advice.advice(run, run.waterfalls[0])[1] == ""
    terminal.show(run, None)
    said = capsys.readouterr().out
    assert "report:" not in said
    for text in (said, markdown.summary(run), "".join(Page(pages.page(run).decode()).shown)):
        assert "Too little was measured to advise" in text and "import DataLoader" not in text
    line = dict(commands.commands(run))["A run of enough rounds"]
    assert line in said and "--rounds" not in line and "text" in line


def test_a_run_without_the_suite_is_repeated_without_it():
    options = blank().options
    for quick, stress, expected in ((False, False, True), (False, True, False), (True, False, False)):
        given = replace(options, dataset="fine:x", quick=quick, stress=stress)
        assert ("--no-stress" in commands.options(given)) is expected


def test_summary_in_markdown(many):
    text = markdown.summary(many)
    for sentence in verdict_words.sentences(many):
        assert escape.markdown(run_words.capital(sentence)) in text
    assert "| ft loader threads / gil loader processes, x2, 64 KiB samples |" in text
    assert "\\`" not in text  # commands are no markup
    assert "\n# The same with Docker\nDATA=" in text  # a block says of each of its commands what it does
    # What to use comes last.
    assert text.rstrip().splitlines()[-2] == advice.advice(many, many.waterfalls[1])[1]
    assert "./twins bench" in text and "The smallest difference that these" in text
    # Every row has as many cells as its head: five of a waterfall, two of comparisons.
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert {line.count(" | ") for line in table.splitlines()} in ({4}, {1}), table
    assert all(row.name in text and row.throughput in text for row in waterfalls.steps(many, many.waterfalls[1]))


def test_report_prints_the_summary_and_writes_nothing(finished_run, run_bench, tmp_path):
    (tmp_path / "results.json").write_bytes((finished_run[1] / "results.json").read_bytes())
    done = run_bench("report", tmp_path, "--markdown")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (finished_run[1] / "summary.md").read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]


def test_pictures_of_every_kind(many):
    """A waterfall's picture, and of each scenario without one all charts that its page shows without being asked."""
    pictures = dict(itertools.takewhile(lambda file: file[0].endswith(".png"), pages.files(many)))
    names = [s.name for s in many.others]
    assert list(pictures) == ["waterfall.png", *(f"{name}.png" for name in names)]
    for content in pictures.values():
        with Image.open(io.BytesIO(content)) as picture:
            assert picture.format == "PNG" and picture.width == 2 * (2 * style.WIDTH + style.GAP)
            assert len(picture.convert("RGB").getcolors(1 << 24)) > 50


def test_a_picture_has_the_course_of_trials(many):
    scenario = copy.deepcopy(many.scenario("workers"))
    before = [chart.name for chart in charts.charts(scenario) if not chart.folded]
    for one in scenario.rounds:
        for trial in one.trials:
            over = Over("seconds", [1.0, 2.0, 4.0])
            trial.distributions["out-of-it"] = Distribution("MB/s", [1.0, 3.0, 2.0], over)
    after = [chart.name for chart in charts.charts(scenario) if not chart.folded]
    assert after == [*before, "workers-out-of-it-curve"]


@pytest.mark.parametrize("count", [1, 2, 40])
def test_curves_are_told_apart(many, count):
    """Those of one configuration, too, and those of a single value; none is cut off."""
    values = tuple(10.0 + n for n in range(count))

    def kept(candidate, draw):
        off = draw.random()
        return {
            "loss": {"unit": "nats", "values": [v + off for v in values], "over": {"title": "step", "values": values}}
        }

    scenario = documents.scenario(
        many.results.scenarios[0],
        "own",
        workers=(2,),
        metrics=("epoch_seconds",),
        plan=training.SCENARIO.plan,
        kept=kept,
    )
    (chart,) = [chart for chart in charts.charts(analysed(many, scenario)) if chart.name == "own-loss-curve"]
    figure = Figure(figsize=(4, 6), dpi=72)
    chart.picture.draw(figure, 0, 0)
    (axes,) = figure.axes
    looks = [(line.get_color(), line.get_linestyle(), line.get_marker()) for line in axes.get_legend().get_lines()]
    assert len(set(looks)) == len(looks) == len(chart.picture.lines) > 5
    assert axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > 10.5 + count
    assert axes.get_xlabel() == "step"


@pytest.mark.filterwarnings("ignore::UserWarning")  # glyphs that a font has not
def test_hostile_text_stays_text_in_the_page(many):
    spoilt = analyse(documents.hostile(many.results))
    page = Page(pages.page(spoilt).decode())
    assert page.results() == as_json(spoilt.results)
    assert not [tag for tag, _ in page.elements if tag in ("img", "script", "iframe", "object", "foreignobject")]
    assert not [a for _, a in page.elements if any(name.startswith("on") for name in a)]
    assert "{{ 7*7 }}" in "".join(page.shown)
    for tag, attributes in page.elements:
        assert attributes.get("href", "#").startswith(
            ("#", "data:image/svg+xml;base64,", "data:application/json;base64,")
        ) or (attributes == {"rel": "icon", "href": "data:,"}), (tag, attributes)
    # A chart by itself is no more than it is in the page.
    for link in [a["href"] for _, a in page.elements if a.get("download", "").endswith(".svg")]:
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(held(link)).iter()}
        assert tags <= {"svg", "defs", "g", "path", "use", "text", "title", "clipPath", "pattern", "rect"}, tags


@pytest.mark.filterwarnings("ignore::UserWarning")  # glyphs that a font has not
def test_hostile_text_does_not_reach_the_terminal_or_leave_the_directory(many, tmp_path, capsys):
    spoilt = analyse(documents.hostile(many.results))
    terminal.show(spoilt, tmp_path / "report.html")
    out = capsys.readouterr().out
    assert "\x1b" not in out and "[bold red]" in out and ":boom:" in out
    # One is enough of the pictures.
    names = [name for name, _ in pages.files(alone(spoilt, *spoilt.scenarios[:2]))]
    assert len(names) == 4 and all(re.fullmatch(r"[a-z0-9.-]+", name) for name in names), names


def test_hostile_text_stays_text_in_markdown(many):
    text = markdown.summary(analyse(documents.hostile(many.results)))
    assert "\x1b" not in text
    # The commands, the advice and two failures of the suite are blocks of code, which nothing in them ends.
    block = re.compile(r"^(`{3,})(?:console|python)\n.*?\n\1$", re.DOTALL | re.MULTILINE)
    assert len(block.findall(text)) == 4
    rest = re.sub(r"^<details><summary>[\w ]+</summary>$|^</details>$", "", block.sub("", text), flags=re.MULTILINE)
    assert "```" not in rest
    for line in rest.splitlines():
        assert not re.search(r"(?<!\\)<(?!!-- -->)", line), line


def test_text_of_a_chart_is_text_on_one_line():
    assert style.cut("$x$ <b>\x1b\n") == "$x$ <b>\\x1b "
    assert style.cut("<" * 9, most=3) == "<<…"
