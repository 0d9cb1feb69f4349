"""Measurement of several conditions in neighbouring turns of one process, so that other load
affects all alike.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from statistics import fmean

from ftbench.plan.scenario import Turns

TURN_SECONDS = 0.3


def alternate(
    conditions: Mapping[str, Callable[[], float]], turns: int
) -> Generator[None, None, dict[str, list[float]]]:
    """Call every condition's function once in each turn;
    yield before each turn (plan.scenario.Turns).

    Return {condition: [value in each turn]}. Every other turn has the reverse order, so that a
    drift of the machine's speed cancels.
    """
    seconds_of_conditions: dict[str, list[float]] = {name: [] for name in conditions}
    for turn in range(turns):
        yield
        order = list(conditions)
        if turn % 2:
            order.reverse()
        for name in order:
            seconds_of_conditions[name].append(conditions[name]())
    return seconds_of_conditions


def side_by_side(cases: Sequence[Turns]) -> Turns:
    """Run the measurements of several cases side by side: in each turn, a turn of every case.

    All cases must have the same number of turns. Every other turn runs the cases in reverse order.
    Return the first case's result, with the other cases' results in "others". If a case is
    unavailable, return that case's result.
    """
    results: dict[int, dict] = {}
    order = list(range(len(cases)))
    while True:
        for number in order:
            try:
                next(cases[number])
            except StopIteration as end:
                results[number] = end.value
        unavailable = next((result for result in results.values() if "unavailable" in result), None)
        if unavailable or len(results) == len(cases):
            return unavailable or {
                **results[0],
                "others": [results[number] for number in range(1, len(cases))],
            }
        order.reverse()
        yield


def condition_ratios(conditions: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> dict:
    """Return the items "metrics" and "condition_seconds" of a trial's result.

    *conditions* is {metric: (turns of the first condition, turns of the second)}, in seconds. A
    metric's value is the mean turn of the first condition, divided by the mean turn of the second.
    """
    metrics, seconds = {}, {}
    for name, (first, second) in conditions.items():
        metrics[name] = fmean(first) / fmean(second)
        seconds[name] = [first, second]
    return {"metrics": metrics, "condition_seconds": seconds}
