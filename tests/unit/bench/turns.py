"""All turns of a measurement or a trial, one after the other, tasks,
and the line that a trial begins with.
"""

import json
import os

from ftbench.plan.scenario import Task, Turns
from ftbench.scenarios import SCENARIOS


def task_of(
    name: str, paths: list[str], variant: str = "loader-thread", case: str = "", **more: object
) -> Task:
    """A task of four batches of three samples, unless `more` says otherwise."""
    scenario = SCENARIOS[name]
    usual = {"workers": 2, "batch_size": 3, "warmup_batches": 2, "batches": 4, "prefetch_factor": 2}
    usual["parameters"] = scenario.case(case).parameters
    return Task(scenario, paths, variant, case=case, **{**usual, **more})


def without_pause(measured: dict | Turns) -> dict:
    if isinstance(measured, dict):
        return measured
    while True:
        try:
            next(measured)
        except StopIteration as end:
            return end.value


def to_its_end(trial) -> dict:
    """The result of a trial, anything with `go_on` and `close`."""
    try:
        while (result := trial.go_on()) is None:
            pass
        return result
    finally:
        trial.close()


def first_line(task: Task) -> bytes:
    """What a trial's process reads from its stdin, ended with this process."""
    return json.dumps({**task.request(), "parent": os.getpid()}).encode() + b"\n"
