"""Runs whose true speeds are known: documents as a run writes them, with simulated figures."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Mapping
from dataclasses import asdict

from ftbench.document.check import seal
from ftbench.document.store import SCHEMA_VERSION
from ftbench.machine import disturbance
from ftbench.measure import epochs
from ftbench.plan.candidates import Candidate
from ftbench.plan.waterfall import WaterfallPlan
from ftbench.stats import statistics
from ftbench.stats.waterfall import waterfalls
from ftrun import environment

# A round has a mood that all of its trials share, and every trial one of its own: log-normal both, with
# the spread that a quiet virtual machine has.
ROUND_NOISE = 0.10
TRIAL_NOISE = 0.02


def values(
    rng: random.Random, candidates: list[Candidate], rounds: int, speed: Mapping[str, float], noise: float = TRIAL_NOISE
) -> dict[str, list[float]]:
    """One value a round for each candidate; `speed` is its true value, 100 for those not named."""
    moods = [rng.gauss(0, ROUND_NOISE) for _ in range(rounds)]
    return {
        c.key: [speed.get(c.key, 100.0) * math.exp(mood + rng.gauss(0, noise)) for mood in moods] for c in candidates
    }


def blank(twin: str = "ft") -> dict:
    """A results.json of this interpreter without rounds: a twin's chain with one worker."""
    candidates = [c for _, c in WaterfallPlan().ranked((twin,), [1], quick=True)]
    environment_ = {"endpoint": "python", **environment.describe()}
    return {
        "schema_version": SCHEMA_VERSION,
        "status": "complete",
        "reason": None,
        "started": "2026-11-21T12:00:00+00:00",
        "seconds": 60.0,
        "options": {
            "scenarios": ["pillow"],
            "quick": True,
            "out": "results",
            "data": None,
            "rounds": None,
            "budget": 60.0,
            "workers": [1],
            "batch_size": None,
            "configs": [twin],
            "twins": {twin: "python"},
            "precision": 0.05,
            "dataset": None,
            "collate_fn": None,
            "requirements": [],
            "cache": None,
        },
        "environment": {
            "revision": environment.revision(),
            "source": environment_["source"],
            "twins": {twin: environment_},
        },
        "warnings": [],
        "skipped": [],
        "scenarios": [
            {
                "name": "pillow",
                "group": "",
                "question": "",
                "description": "JPEG decoding",
                "note": "",
                "sample": "one JPEG",
                "sample_bytes": 783360,
                "batch_size": 8,
                "requested_batch_size": 8,
                "batches_per_worker": 4,
                "turns": 1,
                "prefetch_factor": 2,
                "seed": 1,
                "metrics": list(epochs.METRICS),
                "case_axis": "",
                "case_unit": "",
                "cases": [],
                "dataset": {
                    "source": "generated",
                    "kind": "images",
                    "directory": "/images",
                    "files": 256,
                    "resized": 0,
                    "mean_bytes": 70000,
                    "version": 1,
                },
                "candidates": [{"key": c.key, "title": c.title, **asdict(c)} for c in candidates],
                "rounds": [],
                "analysis": None,
            }
        ],
        "waterfalls": [],
    }


def document(real: dict, seed: int, rounds: int = 5, speed: Mapping[str, float] | None = None) -> dict:
    """`real`, a results.json, with so many simulated rounds; `speed` as above, for every metric."""
    rng = random.Random(seed)
    result = copy.deepcopy(real)
    quiet = {"seconds": 1.0, "own_cpus": 1.0, "other_cpus": 0.0, "stolen_cpus": None, "throttled_seconds": 0.0}
    for scenario in result["scenarios"]:
        candidates = [
            Candidate(*(c[n] for n in ("config", "variant", "workers", "case"))) for c in scenario["candidates"]
        ]
        measured = {metric: values(rng, candidates, rounds, speed or {}) for metric in scenario["metrics"]}
        state = disturbance.state()
        scenario["rounds"] = [
            {
                "number": number + 1,
                "seconds": 4.0,
                "disturbance": disturbance.of_round(state, state, {c.key: quiet for c in candidates}),
                "trials": [
                    {
                        "candidate": c.key,
                        "metrics": {metric: measured[metric][c.key][number] for metric in measured},
                        "samples": 32,
                        "batches": 4,
                        "first_batch": 1,
                        "rows": [1, 2, 3, 4],
                        "turn_seconds": [0.1],
                        "turn_began": [1e9],
                        "distributions": {},
                        "disturbance": quiet,
                        "torch": "2",
                        "free_threaded": True,
                        "gil_enabled": False,
                    }
                    for c in candidates
                ],
            }
            for number in range(rounds)
        ]
        scenario["analysis"] = statistics.analyse(measured, WaterfallPlan().pairs(candidates))
    result["waterfalls"] = waterfalls(result["scenarios"])
    result["seal"] = seal(result)
    return result
