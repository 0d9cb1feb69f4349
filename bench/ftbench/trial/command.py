"""One trial of a command (--command): a small process that runs it once in each turn.

``python -m ftbench.trial.command`` has the dialogue of ftbench.trial.child with the controller.
Other trials are killed with the controller. This one reads the end of its stdin, and ends the
command with all processes that the command started.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from statistics import fmean

from ftbench.plan.scenario import TrialError, Turns
from ftbench.trial.child import GONE, ControllerPipe, take_part
from ftbench.trial.program import Program, ProgramRun, with_python_first
from ftrun.errors import Stopped
from ftrun.supervise import Watch

LEAST_CPU = 1e-6
"""Seconds of CPU time that the kernel can tell from none."""


def measure(case: Mapping, cases: Sequence[Mapping], watch: Watch) -> Turns:
    """Run the command of a *case*, one of the *cases* (Task.request), once in each turn; return the
    case's result.

    Callbacks of *watch* end a run. Raises TrialError if a run fails, or if two runs print different
    output that is to be compared.
    """
    parameters = case["parameters"]
    command = Program(
        parameters["arguments"],
        parameters["setup"],
        parameters["stdin"],
        environment=with_python_first(),
    )
    runs: list[ProgramRun] = []
    # All runs of a turn together end before the controller's patience does: it would end this
    # process, which alone knows all processes of the command.
    at_once = len(cases) * (2 if command.setup else 1)
    limit = 0.9 * case["patience"] / at_once
    for _ in range(case["turns"]):
        yield
        try:
            runs.append(command.run(watch, limit))
        except Stopped as error:
            raise TrialError(GONE) from error
        if parameters["compares"] and runs[-1].output.checksum != runs[0].output.checksum:
            raise TrialError(
                "two runs printed different output. If that is expected, add --no-compare"
            )
    seconds = [run.seconds for run in runs]
    output = runs[0].output
    return {
        "metrics": {
            "throughput": len(runs) / sum(seconds),
            "cpu_per_1000": 1000 * max(LEAST_CPU, fmean(run.cpu_seconds for run in runs)),
            "peak_mib": max(run.peak_mib for run in runs),
        },
        "samples": len(runs),
        "batches": 0,
        "first_batch": output.checksum if parameters["compares"] else None,
        "rows": [],
        "turn_seconds": seconds,
        "turn_began": [run.began for run in runs],
        "distributions": {},
        "note": "",
        "torch": version("torch"),
        "start_method": None,
        "output": output.head.decode(errors="replace"),
        "left_behind": max(run.left_behind for run in runs),
        "setup_seconds": fmean(run.setup_seconds for run in runs),
    }


def main() -> int:
    """Run the trial that stdin requests; return the exit status:
    1, with the reason on stderr, if it fails.
    """
    controller = ControllerPipe()
    line = controller.hear()
    if not line:
        return 1  # the parent has ended
    request = json.loads(line)
    # The controller says nothing during a turn: if its line can be read then, it has closed it.
    watch = {controller.fileno(): lambda: True}
    cases = (request, *request["others"])

    def measurements() -> list[Turns]:
        return [measure(case, cases, watch) for case in cases]

    return take_part(controller, request["config"], measurements)


if __name__ == "__main__":
    sys.exit(main())
