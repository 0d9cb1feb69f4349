"""How many turns a process has: what is best of all, by trying all, and what it depends on."""

import math

import pytest
from scipy import stats

from ftbench.stats.allocation import MOST_TURNS, PROCESSES_VARY, TURNS_VARY, Costs, turns
from ftbench.stats.turns import FEWEST_TURNS


def half_width(number: int, seconds: float, candidates: int, costs: Costs, at_once: int) -> float:
    """Of the interval that this number of turns a process gives in the time,
    from the two levels' variances.
    """
    trial = costs.imports / at_once + costs.warm_up + number * costs.turn
    rounds = math.floor(seconds / (candidates * trial))
    if rounds < 3:
        return math.inf
    spread = math.sqrt(PROCESSES_VARY**2 / rounds + TURNS_VARY**2 / (number * rounds))
    return stats.t.ppf(0.975, rounds - 1) * spread + (math.log(1.1) if rounds * number < 35 else 0)


@pytest.mark.parametrize("seconds", [60, 150, 600, 3600])
@pytest.mark.parametrize(
    "imports, warm_up, turn", [(3.0, 1.0, 0.35), (0.5, 0.2, 0.35), (20.0, 5.0, 0.1), (3, 1, 5)]
)
def test_no_other_number_of_turns_gives_a_narrower_interval(seconds, imports, warm_up, turn):
    costs = Costs(imports, warm_up, turn)
    widths = {n: half_width(n, seconds, 5, costs, 2) for n in range(FEWEST_TURNS, MOST_TURNS + 1)}
    best = min(widths.values())
    chosen = turns(seconds, 5, costs, 2)
    assert widths[chosen] == pytest.approx(best) if math.isfinite(best) else chosen == FEWEST_TURNS


def test_where_starting_is_dear_processes_have_more_turns():
    # So much time that whole rounds do not matter.
    found = [turns(1e6, 5, Costs(imports, 0.0, 0.35), 1) for imports in (0.5, 4.0, 30.0)]
    assert found == sorted(set(found))
    # The textbook's optimum for two levels, without Student's t.
    optimum = math.sqrt(4.0 / 0.35) * TURNS_VARY / PROCESSES_VARY
    assert found[1] == pytest.approx(optimum, abs=1)
    # Trials that import at the same time wait less.
    assert turns(1e6, 5, Costs(8.0, 0.0, 0.35), 2) == found[1]


def test_without_time_for_any_there_are_the_fewest():
    assert (
        turns(0.0, 5, Costs(3.0, 1.0, 0.35), 2)
        == turns(-9.0, 5, Costs(3.0, 1.0, 0.35), 2)
        == FEWEST_TURNS
    )
