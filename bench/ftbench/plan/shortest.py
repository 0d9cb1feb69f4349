"""The shortest time in which a run can reach a verdict.

This module needs only the standard library and Python 3.9: `./twins bench` refuses a --budget that
can never suffice before it builds the twins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from ftbench.plan.scenario import Scenario

FEWEST_ROUNDS = 3
"""Number of rounds below which there is no verdict."""
# Less than any process of a trial takes to start: it imports torch.
START_SECONDS = 1.0
# Seconds reserved, once and for each scenario: for the report, and for a last round that takes
# longer than expected.
REPORT_SECONDS = 4.0, 1.0


def fewest_rounds(scenario: Scenario, quick: bool) -> int:
    """Return the number of rounds that a verdict needs in a full or quick run."""
    # A quick run has three rounds, whatever number a full run has.
    return max(FEWEST_ROUNDS, 0 if quick else scenario.repeats)


def starting_seconds(processes: int, ranks: int, cpus: int) -> float:
    """Return the least time in which *processes* trials of *ranks* ranks each can start."""
    # The ranks start after torchrun has imported torch, and share the CPUs.
    waves = 1 + math.ceil(ranks / cpus) if ranks > 1 else 1
    return processes * waves * START_SECONDS


def report_seconds(scenarios: int) -> float:
    """Return the seconds that a run of this number of scenarios reserves for the report."""
    once, for_each = REPORT_SECONDS
    return once + for_each * scenarios


def refusal(budget: float, processes: int, ranks: int, least: float, usual: float) -> str:
    """Return the message about a *budget* that is shorter than *least*; all times in seconds."""
    with_ranks = f", each with {ranks} ranks" if ranks > 1 else ""
    return (
        f"--budget {budget:g} is too short for the {processes} processes that a verdict "
        f"needs{with_ranks}: they need {math.ceil(least)} s at the very least. Give more "
        f"({usual:.0f} is usual), or a number of --rounds"
    )


def essential_trials(
    scenario: Scenario, configs: Iterable[str], workers: Iterable[int], quick: bool
) -> int:
    """Return the number of trials in a round that are never dropped, for these configurations and
    numbers of workers.
    """
    ranked = scenario.plan.ranked(configs, workers, quick)
    essential = [candidate for rank, candidate in ranked if rank == 0]
    if scenario.inside:  # one trial measures all cases
        essential = [replace(candidate, case="") for candidate in essential]
    return len(set(essential))
