"""The run of ``--why``: one process without the GIL, whose threads load the user's dataset."""

import contextlib
import tempfile
from pathlib import Path

from ftbench.document import model
from ftbench.machine.disturbance import Disturbance, marks
from ftbench.plan.scenario import Scenario, Task
from ftbench.rounds.progress import Display
from ftbench.rounds.twins import Twins
from ftbench.rounds.work import PREFETCH_FACTOR
from ftbench.scenarios import own
from ftbench.stats.sharing import Why, why
from ftbench.trial.process import TrialFailed
from ftrun.interruption import Interruption

CONFIG = "ft"
ROUNDS, QUICK_ROUNDS = 30, 12
SECONDS, QUICK_SECONDS = 120.0, 40.0
"""Time after which there are fewer rounds, with slow datasets and on busy machines."""


def measure(
    results: model.Results,
    scenario: Scenario,
    twins: Twins,
    display: Display,
    interruption: Interruption,
) -> Why:
    """Measure what threads fight over in the dataset of *scenario*, in the free-threaded twin.
    Raises TrialFailed, TwinError or Interrupted.
    """
    options = results.options
    with tempfile.TemporaryDirectory(prefix="ft-bench-") as work:
        twins.add(CONFIG, options.twins[CONFIG], interruption)
        if options.requirements:
            cache = Path(options.cache or work)
            twins.add_packages(options.requirements, cache, Path(work), interruption)
        if reason := twins.lacking.get(CONFIG):
            raise TrialFailed(reason)
        threads = max(options.workers or [min(8, max(2, twins.usable_cpus()))])
        task = _task(scenario, threads, options)
        display.note(f"measuring {threads} threads that share parts of the dataset, or nothing")
        display.step("measuring")
        result = _result(task, twins)
    load = Disturbance(**result["disturbance"])
    return why(threads, result["sharing"], marks(load, twins.usable_cpus()))


def _task(scenario: Scenario, threads: int, options: model.Options) -> Task:
    limits = {"rounds": options.rounds or ROUNDS, "seconds": SECONDS}
    if options.quick:
        limits = {"rounds": options.rounds or QUICK_ROUNDS, "seconds": QUICK_SECONDS}
    parameters = {**scenario.case("").parameters, **limits}
    batch_size, batches = own.BATCH_SIZE, 1
    return Task(
        own.WHY,
        [],
        "loader-thread",
        threads,
        batch_size,
        0,
        batches,
        PREFETCH_FACTOR,
        parameters=parameters,
        config=CONFIG,
    )


def _result(task: Task, twins: Twins) -> dict:
    with contextlib.closing(twins.endpoints[CONFIG].start(task.request())) as trial:
        while (result := trial.go_on()) is None:
            pass
    return result
