"""Runs whose true speeds are known: records as a run makes them, with simulated figures."""

import copy
import functools
import math
import random
from collections.abc import Mapping
from dataclasses import replace

from ftbench.document import model
from ftbench.document.convert import from_json
from ftbench.document.environment import Environment
from ftbench.machine import disturbance
from ftbench.measure import epochs
from ftbench.plan.candidates import Candidate, Pair
from ftbench.plan.waterfall import WaterfallPlan
from ftbench.stats.analysis import analyse
from ftrun import environment

# A round has a mood that all of its trials share, and every trial one of its own: log-normal both,
# with the spread that a quiet virtual machine has.
ROUND_NOISE = 0.10
TRIAL_NOISE = 0.02


def values(
    rng: random.Random,
    candidates: list[Candidate],
    rounds: int,
    speed: Mapping[str, float],
    noise: float = TRIAL_NOISE,
) -> dict[str, list[float]]:
    """One value a round for each candidate; `speed` is its true value, 100 for those not named."""
    moods = [rng.gauss(0, ROUND_NOISE) for _ in range(rounds)]
    return {
        c.key: [speed.get(c.key, 100.0) * math.exp(mood + rng.gauss(0, noise)) for mood in moods]
        for c in candidates
    }


described = functools.cache(environment.describe)
revision = functools.cache(environment.revision)


def blank(twin: str = "ft") -> model.Results:
    """Return the record of a run of this interpreter without rounds:
    a twin's chain with one worker.
    """
    candidates = [c for _, c in WaterfallPlan().ranked((twin,), [1], quick=True)]
    found = {"endpoint": "python", **described()}
    options = model.Options(
        scenarios=["pillow"],
        quick=True,
        out="results",
        budget=60.0,
        workers=[1],
        configs=[twin],
        twins={twin: "python"},
    )
    scenario = model.MeasuredScenario(
        name="pillow",
        group="",
        question="",
        description="JPEG decoding",
        note="",
        load=model.Load(
            sample_bytes=783360,
            batch_size=8,
            batches_per_worker=4,
            turns=1,
            dataset=model.Dataset("generated", "images", "/images", 256, 0, 70000, 1),
        ),
        prefetch_factor=2,
        seed=1,
        metrics=list(epochs.METRICS),
        case_axis="",
        case_unit="",
        cases=[],
        candidates=candidates,
        pairs=WaterfallPlan().pairs(candidates),
        failures=[],
        rounds=[],
    )
    about = {"revision": revision(), "source": found["source"], "twins": {twin: found}}
    return model.Results(
        options,
        from_json(Environment, about),
        started="2026-11-21T12:00:00+00:00",
        status="complete",
        reason=None,
        seconds=60.0,
        scenarios=[scenario],
    )


def trial(candidate: Candidate, metrics: dict[str, float], **more: object) -> model.Trial:
    # A throughput has to be that of the turns.
    turns = (
        {"turn_seconds": [TRIAL["samples"] / metrics["throughput"]]}
        if "throughput" in metrics
        else {}
    )
    return from_json(
        model.Trial, {"candidate": candidate.key, "metrics": metrics, **TRIAL, **turns, **more}
    )


QUIET = {
    "seconds": 1.0,
    "own_cpus": 1.0,
    "other_cpus": 0.0,
    "stolen_cpus": None,
    "throttled_seconds": 0.0,
}
TRIAL = {
    "samples": 32,
    "batches": 4,
    "first_batch": 1,
    "rows": [1, 2, 3, 4],
    "turn_seconds": [0.1],
    "turn_began": [1e9],
    "distributions": {},
    "disturbance": QUIET,
    "torch": "2",
    "free_threaded": True,
    "gil_enabled": False,
}


def quiet() -> model.RoundDisturbance:
    return model.RoundDisturbance(**QUIET, before=disturbance.state())


def document(
    real: model.Results, seed: int, rounds: int = 5, speed: Mapping[str, float] | None = None
) -> model.Results:
    """Return `real` with N simulated rounds; `speed` as above, for every metric."""
    rng = random.Random(seed)
    result = copy.deepcopy(real)
    for scenario in result.scenarios:
        measured = {
            metric: values(rng, scenario.candidates, rounds, speed or {})
            for metric in scenario.metrics
        }
        scenario.rounds = [
            model.Round(
                number + 1,
                4.0,
                [
                    trial(c, {metric: measured[metric][c.key][number] for metric in measured})
                    for c in scenario.candidates
                ],
                quiet(),
            )
            for number in range(rounds)
        ]
    result.waterfalls = analyse(result).waterfalls
    return result


def measured(
    values: dict[str, dict[str, list[float]]], pairs: list[Pair]
) -> model.MeasuredScenario:
    """A scenario's record: by metric and candidate's key, a value for each round."""
    (like,) = blank().scenarios
    first = next(iter(values.values()))
    candidates = [Candidate(*key.split("/")[:2], int(key.split("/")[2])) for key in first]
    rounds = []
    for number in range(len(next(iter(first.values())))):
        of = {
            c: {metric: by_key[c.key][number] for metric, by_key in values.items()}
            for c in candidates
        }
        rounds.append(model.Round(number + 1, 1.0, [trial(c, of[c]) for c in candidates], quiet()))
    return replace(like, metrics=[*values], candidates=candidates, pairs=pairs, rounds=rounds)
