"""A look at the user's own dataset in both twins, before it is measured."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ftbench.plan.scenario import Scenario
from ftbench.rounds.endpoints import Endpoint
from ftbench.rounds.trials import TrialFailed
from ftbench.rounds.work import warmup_batches
from ftbench.scenarios import own


@dataclass(frozen=True)
class Look:
    """What was found."""

    scenario: Scenario
    """With amounts that fit."""
    failed: dict[str, str]
    """Why twins cannot load it, by twin."""
    without_processes: str
    """Why worker processes cannot load it; empty if they can."""
    warnings: list[str]


def look(scenario: Scenario, endpoints: Mapping[str, Endpoint], batch_size: int | None, workers: int) -> Look:
    """Load some samples in every twin; `workers` are the most that there will be. Raises TrialFailed if none can."""
    parameters = scenario.case("").parameters
    found, failed = {}, {}
    for twin, endpoint in endpoints.items():
        request = {
            "scenario": own.LOOK.name,
            "parameters": dict(parameters),
            "paths": [],
            "config": twin,
            "variant": "serial",
            "workers": 0,
            "batch_size": 1,
            "warmup_batches": 0,
            "batches": 1,
            "prefetch_factor": 2,
        }
        try:
            with contextlib.closing(endpoint.start(twin, request)) as trial:
                while (result := trial.go_on()) is None:
                    pass
            found[twin] = result["look"]
        except TrialFailed as error:
            failed[twin] = str(error)
    if not found:
        raise TrialFailed(next(iter(failed.values())))
    warnings = []
    target = parameters["target"]
    if not all(each["repeats"] for each in found.values()):
        warnings.append(
            f"{target} gives another sample for the same index each time (random augmentation?), so it cannot be "
            f"checked that all contestants load the same; ./twins audit {target} looks for races"
        )
    seconds = max(each["seconds"] for each in found.values())
    amount = own.amount(seconds, batch_size)
    size = max(each["sample_bytes"] for each in found.values())
    # What a trial does at most before it waits: it opens the dataset, warms up and has a turn.
    samples = amount.batch_size * (2 * warmup_batches(workers) + (amount.batches_per_worker + 1) * workers)
    opening = max(each["opening"] for each in found.values())
    patience = own.PATIENCE + own.PATIENCE_TIMES * (opening + samples * seconds)
    scenario = replace(scenario, sample_bytes=size, full=amount, quick=amount, patience=patience)
    unsendable = next((each["unsendable"] for each in found.values() if each["unsendable"]), "")
    why = f"a batch of {target} cannot be sent from a worker process: {unsendable}" if unsendable else ""
    return Look(scenario, failed, why, warnings)
