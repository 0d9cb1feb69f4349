"""Cycles of turns in which the machine was not the benchmark's own,
and what is left of a trial without them.

A cycle is one turn of each trial of a group. Only the kernel's counters decide
(ftbench.machine.disturbance), never how long a turn took: a candidate's own slow turns are what a
training job gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from statistics import fmean

from ftbench.document.convert import from_json
from ftbench.document.model import Trial
from ftbench.machine.disturbance import Disturbance, taken, together
from ftbench.plan.metrics import METRICS

MOST = 0.5
"""The largest part of a round's cycles that may leave. Above it, the load is no exception: it
belongs to the run.
"""


def disturbed(trials: Sequence[Trial], usable: float) -> list[int]:
    """Return the positions of the cycles in which others took CPUs; [] if these are more than MOST
    of all cycles.
    """
    positions = []
    turns = 0
    for loads in zip(*map(attrgetter("turn_loads"), trials), strict=False):
        if any(taken(load, usable) for load in loads):
            positions.append(turns)
        turns += 1
    if len(positions) > MOST * turns:
        return []
    return positions


def without(trial: Trial, positions: Sequence[int]) -> Trial:
    """Return the trial with its metrics and its disturbance over all turns
    but those at *positions*.
    """

    left = replace(trial, turns_left_out=list(positions))

    def kept_over_all(seconds: Sequence[float]) -> float:
        return fmean(left.counted(seconds)) / fmean(seconds)

    metrics = dict(trial.metrics)
    for name in metrics:
        if name in trial.condition_seconds:
            first, second = map(kept_over_all, trial.condition_seconds[name])
            metrics[name] *= first / second
        elif METRICS[name].of_turns and trial.turn_seconds:
            change = kept_over_all(trial.turn_seconds)
            if METRICS[name].best == "higher":
                change = 1 / change
            metrics[name] *= change
    disturbance = together(list(map(vars, left.counted(trial.turn_loads))))
    return replace(left, metrics=metrics, disturbance=from_json(Disturbance, disturbance))
