"""One trial: a fresh process that measures one candidate.

``python -m ftbench.trial.child`` reads a request from stdin and writes the result to stdout, each
as a line of JSON. The trial first imports the libraries that all trials need, at the same time as
other trials. Then, and before each turn, it writes {"waiting": true, "own_seconds": CPU time so
far, children's included} and waits for a line on stdin.

The request is Task.request of ftbench.plan.scenario, with the id of the process that started the
trial as "parent". The result is what `measure` returns, or, if the trial measures several cases,
what `side_by_side` returns.

``python -m ftbench.trial.child NAME`` is one rank of a trial of several ranks (--ranks). It has the
same dialogue with the process ftbench.trial.job, over the socket NAME.
"""

import json
import math
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping

from ftbench.machine.usage import cpu_seconds
from ftbench.measure import ranks
from ftbench.measure.neighbours import side_by_side
from ftbench.plan.scenario import Task, TrialError, Turns
from ftbench.plan.waterfall import PROCESSES, TODAY
from ftbench.trial.reasons import MARK, with_reason
from ftrun.configurations import CONFIGURATIONS, gil_enabled, this_twin
from ftrun.parent_death import die_with_parent

BUILDS = {"ft": "free-threaded", "gil": "built with the GIL"}
SWITCH = {True: "on", False: "off"}
GONE = "the parent no longer wants this trial"


class ControllerPipe:
    """Connection to the process that started this one:
    lines of JSON on stdin and stdout. Used by one thread.
    """

    def __init__(self) -> None:
        # Libraries may print, and read: stdin and stdout keep their places for the dialogue alone.
        self._answer = os.fdopen(os.dup(1), "w")
        self._lines = os.fdopen(os.dup(0))
        os.dup2(2, 1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)

    def tell(self, message: Mapping) -> None:
        self._answer.write(json.dumps(message) + "\n")
        self._answer.flush()

    def hear(self) -> str:
        """Wait for the next line; return "" if the process that started this one has ended."""
        return self._lines.readline()

    def fileno(self) -> int:
        """Return the descriptor that lines are read from."""
        return self._lines.fileno()

    def fail(self, why: str) -> None:
        """Write *why* this process fails to stderr: a traceback, or MARK and the reason."""
        print(with_reason(why), file=sys.stderr, flush=True)


def check_configuration(config: str) -> dict:
    """Return this interpreter's build and the state of its GIL;
    raises TrialError if they do not match `config`.
    """
    twin = this_twin()
    enabled = gil_enabled()
    configuration = CONFIGURATIONS[config]
    if (twin, enabled) != (configuration.twin, configuration.python_gil != "0"):
        raise TrialError(
            f"this is not the configuration {config!r}: {sys.executable} is {BUILDS[twin]}, and "
            f"its GIL is {SWITCH[enabled]} at the end of the trial"
        )
    return {"free_threaded": twin == "ft", "gil_enabled": enabled}


def measure(task: Task) -> Turns:
    """Measure the task. This generator yields whenever other trials may have a turn.

    It returns a dict with the fields of ftbench.document.model.Trial and "note";
    or {"unavailable": reason}.
    """
    import torch

    # torch gives each worker process one thread; thread workers would share the process's pool of
    # as many as there are CPUs. One thread for all: candidates differ in their workers alone.
    torch.set_num_threads(1)
    scenario = task.scenario
    if why := scenario.unavailable():
        return {"unavailable": why}
    assert scenario.measure, "None for a command alone"
    result = scenario.measure(task)
    if not isinstance(result, dict):
        result = yield from result
    if "unavailable" in result:
        return result
    last = result.pop("last_batch", None)
    batches = result.pop("asked", task.batches * task.turns)
    if last is not None and (result["batches"] != batches or last != task.batch_size):
        raise TrialError(
            f"the loader gave {result['batches']} batches, the last of {last} samples; "
            f"{batches} of {task.batch_size} were asked for"
        )
    note = scenario.note
    if callable(note):
        note = note() or ""
    metrics = {name: _positive(name, result["metrics"][name]) for name in scenario.metrics}
    distributions = {}
    for name, distribution in result.get("distributions", {}).items():
        distributions[name] = _checked(name, distribution)
    return {
        "batches": 0,
        "first_batch": None,
        "rows": [],
        "turn_seconds": [],
        "turn_began": [],
        "note": note,
        **result,
        "metrics": metrics,
        "distributions": distributions,
        "torch": torch.__version__,
        "start_method": _start_method(task.variant),
    }


def _start_method(variant: str) -> str | None:
    """Return the start method of a variant's processes; None for other variants.

    The scenario's first process has chosen it. It differs by Python version.
    """
    if variant not in (TODAY, PROCESSES):
        return None
    return multiprocessing.get_start_method(allow_none=True)


def _positive(name: str, value: float) -> float:
    """Return a metric's value; raises TrialError unless it is finite and positive, so that ratios
    can be computed.
    """
    if not (math.isfinite(value) and value > 0):
        raise TrialError(f"{name} was measured as {value}, which no ratio can be taken of")
    return value


def _checked(name: str, distribution: dict) -> dict:
    """Return a distribution, rounded for results.json; raises TrialError if a curve's x and y
    differ in number.
    """
    values = [float(f"{value:.6g}") for value in distribution["values"]]
    if len(values) != (places := len(distribution["over"]["values"])):
        raise TrialError(f"the curve {name!r} has {len(values)} values over {places}")
    return {**distribution, "values": values}


def main() -> int:
    """Run the trial that stdin requests; return the exit status:
    1, with the reason on stderr, if it fails.
    """
    # The controller handles Ctrl-C at a terminal, and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(os.getppid())
    controller = ranks.join(sys.argv[1]) if sys.argv[1:] else ControllerPipe()
    # Import torch before anything is timed: as many trials as there are CPUs do so at once.
    import torch  # noqa: F401

    line = controller.hear()
    if not line:
        return 1  # the parent has ended
    request = json.loads(line)
    die_with_parent(request["parent"])

    def measurements() -> list[Turns]:
        from ftbench.scenarios import find

        scenario = find(request["scenario"])
        cases = (request, *request["others"])
        return [measure(Task.of(scenario, case)) for case in cases]

    return take_part(controller, request["config"], measurements)


def take_part(
    controller: ControllerPipe | ranks.Rank, config: str, measurements: Callable[[], list[Turns]]
) -> int:
    """Let the *measurements* of a trial's cases take their turns when the controller says so, and
    tell the result; return the exit status: 1, with the reason on stderr, if they fail.
    """
    result: dict = {}

    def all_turns() -> Iterator[None]:
        nonlocal result
        yield  # all imports are done at this point
        result = yield from side_by_side(measurements())

    try:
        for _ in all_turns():
            controller.tell({"waiting": True, "own_seconds": cpu_seconds()})
            if not controller.hear():
                raise TrialError(GONE)
        # At the end: any import or first use on the way could have turned the GIL on.
        if "unavailable" not in result:
            result.update(check_configuration(config))
    except TrialError as error:
        controller.fail(f"{MARK}{error}")
        return 1
    except (Exception, SystemExit):
        # If the dataset or a library called sys.exit, its status would say nothing.
        controller.fail(traceback.format_exc())
        return 1
    controller.tell(result)
    return 0


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    # The loader is closed and the answer written. Some peers leave daemon threads, which CPython
    # 3.13 unwinds at its end wherever they wait; in C++ code that aborts the process, after its
    # measurement.
    os._exit(status)
