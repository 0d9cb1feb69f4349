"""Cycles of turns in which the machine was not the benchmark's own,
and what is left of a trial without them.

A cycle is one turn of each trial of a group. Only the kernel's counters decide
(ftbench.machine.disturbance), never how long a turn took: a candidate's own slow turns are what a
training job gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
    for loads in zip(*(trial.turn_loads for trial in trials), strict=False):
        if any(taken(load, usable) for load in loads):
            positions.append(turns)
        turns += 1
    return positions if len(positions) <= MOST * turns else []


def without(trial: Trial, positions: Sequence[int]) -> Trial:
    """Return the trial with its metrics and its disturbance over all turns
    but those at *positions*.
    """

    def kept_over_all(seconds: Sequence[float]) -> float:
        return fmean(s for n, s in enumerate(seconds) if n not in positions) / fmean(seconds)

    metrics = dict(trial.metrics)
    for name in metrics:
        if name in trial.condition_seconds:
            first, second = map(kept_over_all, trial.condition_seconds[name])
            metrics[name] *= first / second
        elif METRICS[name].of_turns and trial.turn_seconds:
            change = kept_over_all(trial.turn_seconds)
            metrics[name] *= 1 / change if METRICS[name].best == "higher" else change
    disturbance = together(
        [vars(load) for n, load in enumerate(trial.turn_loads) if n not in positions]
    )
    return replace(
        trial,
        metrics=metrics,
        disturbance=from_json(Disturbance, disturbance),
        turns_left_out=list(positions),
    )
