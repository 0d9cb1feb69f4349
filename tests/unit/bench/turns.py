"""All turns of a measurement or a trial, one after the other, and the line that a trial begins with."""

import json
import os

from ftbench.plan.scenario import Task, Turns


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
