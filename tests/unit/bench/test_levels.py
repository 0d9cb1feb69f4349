"""Metrics that are ratios by themselves: the answer has every candidate's value
with its interval.
"""

from dataclasses import replace

from ftbench.report import verdict_words
from ftbench.report.verdict_words import levels
from ftbench.stats.analysis import AnalysedScenario


def test_the_answer_has_each_candidates_slowdown_with_its_interval(many):
    scenario = many.results.scenarios[0]
    keys = [c.key for c in scenario.whole][:2]
    rounds = [
        replace(
            one,
            number=number,
            trials=[
                replace(t, metrics={**t.metrics, "slowdown_python": value}) for t in one.trials
            ],
        )
        for number, (one, value) in enumerate(
            zip([scenario.rounds[0]] * 4, (1.49, 1.5, 1.51, 1.5), strict=True), 1
        )
    ]
    told = replace(
        scenario,
        metrics=["slowdown_python"],
        rounds=rounds,
        pairs=[],
        candidates=scenario.whole,
    )
    first = levels(told)[0]
    assert (
        first.startswith("Step in Python while loading")
        and "1.50 times the step alone (1.49 to 1.51) with" in first
    )
    assert first.count("1.50") >= len(keys) and verdict_words.answer(
        AnalysedScenario(told, [])
    ) == [first]


def test_other_metrics_have_none(many):
    assert levels(many.results.scenarios[0]) == []
