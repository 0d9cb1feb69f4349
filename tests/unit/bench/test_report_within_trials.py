"""What trials kept of their inside is drawn as what it is, with its own figures."""

from statistics import median

import pytest

from ftbench.document.model import Distribution
from ftbench.report import charts, verdict_words
from ftbench.stats.analysis import AnalysedScenario, analyse
from ftbench.trial import child
from tests.unit.bench import documents

KEY = "ft/loader-thread/2@decode"


@pytest.fixture(scope="module")
def scenario(document) -> AnalysedScenario:
    """A scenario whose trials kept curves, a step with its parts, and a single value."""
    return analyse(documents.with_inside(document)).scenarios[-1]


@pytest.fixture(scope="module")
def drawn(scenario) -> dict:
    return {chart.name: chart for chart in charts.charts(scenario)}


def kept(scenario: AnalysedScenario, key: str, name: str) -> list[Distribution]:
    return [
        t.distributions[name]
        for one in scenario.record.rounds
        for t in one.trials
        if t.candidate == key
    ]


def test_a_curve_is_the_median_of_the_rounds_within_their_range(scenario, drawn):
    rounds = [one.values for one in kept(scenario, KEY, "memory_mib")]
    picture = drawn["inside-memory-mib-curve"].picture
    (line,) = [line for line in picture.lines if line.label == "free-threaded: loader threads"]
    assert list(line.x) == kept(scenario, KEY, "memory_mib")[0].over.values
    assert list(line.y) == [median(at) for at in zip(*rounds, strict=True)]
    assert list(line.high) == [*map(max, zip(*rounds, strict=True))]
    assert list(line.low) == [*map(min, zip(*rounds, strict=True))]
    assert len(picture.lines) == 6  # of two numbers of workers, the most
    assert "decode only, 2 workers" in drawn["inside-memory-mib-curve"].title
    # the table has all, of both cases
    assert len(drawn["inside-memory-mib-curve"].table.rows) == 2 * 12


def test_curves_that_are_all_the_same_are_one(scenario, drawn):
    chart = drawn["inside-loss-curve"]
    (line,) = chart.picture.lines
    assert "all 24 candidates" in chart.caption and chart.title == "Loss: the same for all"
    assert list(line.y) == kept(scenario, KEY, "loss")[0].values


def test_verdict_tells_cases_in_one_sentence(scenario):
    (first,) = verdict_words.answer(scenario)
    assert first.startswith(
        "With 2 workers, loader threads in the free-threaded build against loader processes in "
        "the GIL build, "
    )
    unit = " times as fast (" if " times as fast (" in first else "% faster ("
    told = {verdict_words.short(c, unit.startswith(" times")) for c in scenario.comparisons}
    assert sum(outcome in first and unit in outcome for outcome in told) == 2


def test_a_curve_with_gaps_is_refused():
    over = {"title": "step", "values": [1, 2]}
    assert child._checked("loss", {"unit": "nats", "values": [2, 1], "over": over})["over"][
        "values"
    ] == [1.0, 2.0]
    with pytest.raises(child.TrialError, match="'loss' has 3 values over 2"):
        child._checked("loss", {"unit": "nats", "values": [3, 2, 1], "over": over})
