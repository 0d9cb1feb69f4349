"""Runs to report, changed in one thing, and what a browser finds in their page."""

import base64
import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser

from ftbench.compare import text
from ftbench.compare import view as comparison_view
from ftbench.compare.comparing import RunComparison
from ftbench.document.model import MeasuredScenario, Results, Round, Trial, Verdict
from ftbench.report import markdown, page, verdict_words
from ftbench.report.view import view
from ftbench.stats.analysis import AnalysedScenario, Analysis, analyse
from tests.unit.bench import simulated


def glance(run: Analysis) -> list[tuple[AnalysedScenario, str]]:
    """The scenarios without a waterfall, each with the answer to its question."""
    return [(scenario, " ".join(verdict_words.answer(scenario))) for scenario in run.others]


def summary_of(run: Analysis) -> str:
    return markdown.write(view(run)).decode()


def page_of(run: Analysis) -> "Page":
    return Page(page.write(view(run)).decode())


def compared(comparison: RunComparison, a: tuple[str, Results], b: tuple[str, Results]) -> str:
    return text.write(comparison_view.view(comparison, a, b))


def changed(run: Analysis, change: Callable[[Results], object]) -> Analysis:
    results = copy.deepcopy(run.results)
    change(results)
    return analyse(results)


def trials(results: Results, name: str) -> Iterator[Trial]:
    (scenario,) = [s for s in results.scenarios if s.name == name]
    return (trial for one in scenario.rounds for trial in one.trials)


def alone(run: Analysis, *scenarios: MeasuredScenario) -> Analysis:
    return analyse(replace(run.results, scenarios=list(scenarios)))


def analysed(run: Analysis, scenario: MeasuredScenario) -> AnalysedScenario:
    return analyse(replace(run.results, scenarios=[scenario])).scenarios[0]


def named(run: Analysis, name: str) -> AnalysedScenario:
    return next(scenario for scenario in run.scenarios if scenario.record.name == name)


def decided(run: Analysis, **undecided: float) -> Analysis:
    """The run with the chain's waterfall alone, whose last step is undecided as given."""
    run = copy.deepcopy(alone(run, run.scenario("chain")))
    (fall,) = run.waterfalls
    for change in fall.throughput.changes.values():
        change.verdict = Verdict.ABOVE
    if undecided:
        last = fall.throughput.steps[-1]
        last.change = replace(last.change, **undecided, verdict=Verdict.NO_DIFFERENCE)
    return run


def with_throughput(run: Analysis, key: str, values: list[float]) -> Analysis:
    def change(results: Results) -> None:
        own = [trial for trial in trials(results, "chain") if trial.candidate == key]
        for trial, value in zip(own, values, strict=True):
            trial.metrics["throughput"] = value

    return changed(run, change)


def with_other_samples(run: Analysis, key: str) -> Analysis:
    def change(results: Results) -> None:
        for trial in trials(results, "chain"):
            if trial.candidate == key:
                trial.rows = [*trial.rows[:-1], trial.rows[-1] ^ 1]

    return changed(run, change)


def renamed(run: Analysis, name: str) -> Analysis:
    run.scenarios[0].record.name = run.waterfalls[0].scenario = name
    return run


def rounds_of(seconds: float) -> MeasuredScenario:
    (like,) = simulated.blank().scenarios
    return replace(
        like, rounds=[Round(number + 1, seconds, [], simulated.quiet()) for number in range(4)]
    )


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
        return [attributes for _, attributes in self.elements if attributes.get(name) == value]

    def results(self) -> dict:
        """The document that it hands out."""
        (link,) = self.having("id", "save-results")
        return json.loads(held(link["href"]))


def held(link: str) -> bytes:
    return base64.b64decode(link.partition(";base64,")[2], validate=True)
