"""The charts of scenarios, with the figures in their tables."""

import copy
import io
import itertools
import re
from dataclasses import replace

import pytest
from matplotlib.figure import Figure
from PIL import Image

from ftbench.document.model import Verdict
from ftbench.report import charts, files, run_words, style, tables, verdict_words
from ftbench.report.view import view
from ftbench.scenarios import training
from tests.unit.bench import documents
from tests.unit.bench.reports import alone, analysed, named


def test_every_chart_has_its_figures_in_its_table(many):
    """Of each scenario's own metric: a row for each candidate, and the chart's values among those
    of the document.
    """
    for scenario in many.scenarios:
        first = scenario.metric
        found = charts.charts(scenario)
        assert found[0].name == run_words.slug(f"{scenario.record.name}-{first.name}")
        place = found[0].table.head.index(f"mean, {first.unit}")
        assert sorted(row[place] for row in found[0].table.rows) == sorted(
            first.write(m.typical) for m in tables.candidates(scenario.record, first.name)
        )
        assert all(chart.caption and chart.table.rows for chart in found)
        ratios = next(c for c in found if c.name.endswith("-ratios"))
        factors = tables.in_factors(scenario.compared())
        outcomes = [verdict_words.short(c, factors) for c in scenario.compared()]
        assert [row[ratios.table.head.index("verdict")] for row in ratios.table.rows] == outcomes


def test_cases_on_an_axis_become_curves(many):
    scenario = named(many, "sizes")
    measured = charts.charts(scenario)[0].picture
    assert measured.logarithmic_x and [*measured.marks.values()] == [
        "64 KiB",
        "512 KiB",
        "4096 KiB",
    ]
    means = {m.candidate.key: m.typical for m in tables.candidates(scenario.record, "throughput")}
    (line,) = [line for line in measured.lines if line.label == "free-threaded: loader threads"]
    assert list(line.x) == [64 * 1024, 512 * 1024, 4096 * 1024]
    assert list(line.y) == [means[f"ft/loader-thread/2@{case.name}"] for case in documents.SIZES]
    # Those of one worker have their own chart, on request.
    others = [c for c in charts.charts(scenario) if c.folded == "with 1 worker"]
    assert len(measured.lines) == 6 and others and "1 worker" in others[0].title


def test_cases_by_name_become_groups_of_bars(many):
    picture = charts.charts(named(many, "kinds"))[0].picture
    assert [title for title, _ in picture.groups] == [case.title for case in documents.WORK]
    assert all(len(group) == 12 and all(row.label for row in group) for _, group in picture.groups)


def test_many_numbers_of_workers_become_curves_with_ranges(many):
    scenario = many.scenario("workers")
    (line,) = [
        line
        for line in charts.charts(named(many, "workers"))[0].picture.lines
        if line.label == "free-threaded: loader threads"
    ]
    own = [
        m
        for m in tables.candidates(scenario, "throughput")
        if (m.candidate.config, m.candidate.variant) == ("ft", "loader-thread")
    ]
    assert list(line.x) == [1, 2, 4, 8]
    assert list(line.y) == [scenario.typical(m.candidate.key, "throughput") for m in own]
    for low, high, m in zip(line.low, line.high, own, strict=True):
        assert (low, high) == (min(m.values), max(m.values))


def test_many_numbers_of_workers_under_cases_become_a_chart_for_each(many):
    like = many.results.scenarios[0]
    scenario = analysed(
        many, documents.scenario(like, "scaling", documents.WORK, "work", workers=(1, 2, 4))
    )
    found = [
        c for c in charts.charts(scenario) if re.fullmatch(r"scaling-throughput(-\d)?", c.name)
    ]
    assert [c.title for c in found] == [
        f"Throughput, {case.title}: higher is better" for case in documents.WORK
    ]
    for chart, case in zip(found, documents.WORK, strict=True):
        measured = [
            m
            for m in tables.candidates(scenario.record, "throughput")
            if m.candidate.case == case.name
        ]
        assert sorted(y for line in chart.picture.lines for y in line.y) == sorted(
            m.typical for m in measured
        )
        # Nobody can do more than as many times the best of one worker.
        one = max(m.typical for m in measured if m.candidate.workers == 1)
        assert chart.picture.ideal == [(1, one), (2, 2 * one), (4, 4 * one)]


def test_curves_over_workers_begin_without_workers(many):
    like = many.results.scenarios[0]
    record = documents.scenario(like, "from-zero", documents.WORK, "work", workers=(0, 1, 2))
    for chart, case in zip(charts.charts(analysed(many, record)), documents.WORK, strict=False):
        assert chart.picture.marks == {0: "0", 1: "1", 2: "2"}
        means = {m.candidate.key: m.typical for m in tables.candidates(record, "throughput")}
        lines = chart.picture.lines
        assert len(lines) == 6 and all(list(line.x) == [0, 1, 2] for line in lines)
        for line in lines:
            keys = [
                f"{line.config}/serial/0",
                *(f"{line.config}/{line.variant}/{n}" for n in (1, 2)),
            ]
            assert list(line.y) == [means[f"{key}@{case.name}"] for key in keys]


def test_a_configuration_measured_only_without_workers_keeps_its_point(many):
    like = many.results.scenarios[0]
    record = documents.scenario(like, "point", workers=(0, 1, 2))
    record.candidates = [c for c in record.candidates if c.config == "ft" or not c.workers]
    record.pairs = []
    first = charts.charts(analysed(many, record))[0]
    assert {(line.config, line.variant) for line in first.picture.lines} == {
        ("gil", "serial"),
        ("ft-gil", "serial"),
        ("ft", "loader-thread"),
        ("ft", "loader-process"),
    }


@pytest.mark.parametrize(
    "value, unit, wanted",
    [
        (0.005, "s", "5 ms"),
        (0, "s", "0 s"),
        (2048, "MiB", "2 GiB"),
        (1000, "samples/s", "1,000"),
        (0.5, "", "0.5"),
    ],
)
def test_marks_of_an_axis(value, unit, wanted):
    assert style.amount(value, unit) == wanted


def test_overview_turns_what_should_be_small(many):
    chart = charts.overview(many)
    # One for each size, kind of work and so on: 3 + 2 + 1 + 2. The waterfalls speak for themselves.
    assert len(chart.table.rows) == 8
    flipped = copy.deepcopy(many)
    less = {"ratio": 0.5, "low": 0.4, "high": 0.6, "verdict": Verdict.BELOW}
    for scenario in flipped.scenarios:
        for c in scenario.comparisons:
            if c.metric == "memory_mib":
                c.estimate = replace(c.estimate, **less)
        scenario.record.metrics.sort(key=lambda name: name != "memory_mib")
    assert charts.overview(flipped).table.rows[0][2:] == ("2.00x", "50% less memory (40% to 60%)")
    first = charts.overview(flipped).picture.rows[0]
    assert (first.value, first.low, first.high) == pytest.approx((2.0, 1 / 0.6, 2.5))


@pytest.mark.slow
def test_pictures(many):
    """A waterfall's picture, and of each scenario without one all charts that its page shows
    without being asked.
    """
    run = alone(many, many.scenario("pillow"), many.scenario("chain"), many.scenario("steps"))
    pictures = dict(
        itertools.takewhile(lambda file: file[0].endswith(".png"), files.write(view(run)))
    )
    assert list(pictures) == ["waterfall.png", "steps.png"]
    for content in pictures.values():
        with Image.open(io.BytesIO(content)) as picture:
            assert picture.format == "PNG" and picture.width == 2 * (2 * style.WIDTH + style.GAP)
            assert len(picture.convert("RGB").getcolors(1 << 24)) > 50


@pytest.mark.parametrize("count", [1, 2, 40])
def test_curves_are_told_apart(many, count):
    """Those of one configuration, too, and those of a single value; none is cut off."""
    values = tuple(10.0 + n for n in range(count))

    def kept(candidate, draw):
        off = draw.random()
        return {
            "loss": {
                "unit": "nats",
                "values": [v + off for v in values],
                "over": {"title": "step", "values": values},
            }
        }

    scenario = documents.scenario(
        many.results.scenarios[0],
        "own",
        workers=(2,),
        metrics=("epoch_seconds",),
        plan=training.SCENARIO.plan,
        kept=kept,
    )
    (chart,) = [
        chart for chart in charts.charts(analysed(many, scenario)) if chart.name == "own-loss-curve"
    ]
    figure = Figure(figsize=(4, 6), dpi=72)
    chart.picture.draw(figure, 0, 0)
    (axes,) = figure.axes
    looks = [
        (line.get_color(), line.get_linestyle(), line.get_marker())
        for line in axes.get_legend().get_lines()
    ]
    assert len(set(looks)) == len(looks) == len(chart.picture.lines) > 5
    assert axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > 10.5 + count
    assert axes.get_xlabel() == "step"
