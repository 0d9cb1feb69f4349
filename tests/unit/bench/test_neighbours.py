"""Conditions in neighbouring turns: each in every turn, and what disturbs both alike cancels."""

import pytest

from ftbench.measure.neighbours import alternate, condition_ratios, side_by_side
from tests.unit.bench.turns import without_pause


def test_every_condition_has_every_turn_and_the_order_is_reversed_in_between():
    order: list[str] = []

    def taking(name: str, seconds: float):
        def condition() -> float:
            order.append(name)
            return seconds * len(order)

        return condition

    found = without_pause(
        alternate({"alone": taking("alone", 1), "both": taking("both", 2)}, turns=3)
    )
    assert order == ["alone", "both", "both", "alone", "alone", "both"]
    assert found == {"alone": [1, 4, 5], "both": [4, 6, 12]}


def test_other_trials_may_measure_before_each_turn():
    turns = alternate({"only": lambda: 1.0}, turns=2)
    assert [next(turns), next(turns)] == [None, None]
    with pytest.raises(StopIteration):
        next(turns)


def test_a_drift_cancels_and_every_turn_counts():
    alone = [1.0, 1.1, 1.3, 1.8, 2.5, 3.0, 3.1, 3.2]
    both = [1.5 * seconds for seconds in alone]
    result = condition_ratios({"slower": (both, alone), "faster": (alone, both)})
    assert result["metrics"] == {"slower": pytest.approx(1.5), "faster": pytest.approx(1 / 1.5)}
    assert result["condition_seconds"]["slower"] == [both, alone]
    # One slow turn of four counts as a training job would feel it.
    assert condition_ratios({"slower": ([1.0, 1.0, 1.0, 5.0], [1.0] * 4)})["metrics"] == {
        "slower": pytest.approx(2)
    }
    assert condition_ratios({"slower": ([3.0], [1.5])})["metrics"] == {"slower": pytest.approx(2)}


def test_cases_of_a_process_take_their_turns_next_to_each_other():
    order: list[str] = []

    def case(name: str):
        order.append(f"{name} warms up")
        for turn in (1, 2, 3):
            yield
            order.append(f"{name}{turn}")
        return {"of": name}

    whole = side_by_side([case("a"), case("b")])
    # before each turn, others may have theirs
    assert [next(whole), next(whole), next(whole)] == [None] * 3
    with pytest.raises(StopIteration) as end:
        next(whole)
    assert end.value.value == {"of": "a", "others": [{"of": "b"}]}
    assert order == ["a warms up", "b warms up", "b1", "a1", "a2", "b2", "b3", "a3"]


def test_a_case_that_is_unavailable_ends_the_measurement():
    def case(result: dict):
        if "unavailable" not in result:
            yield
        return result

    assert without_pause(side_by_side([case({"a": 1}), case({"unavailable": "no disk"})])) == {
        "unavailable": "no disk"
    }
