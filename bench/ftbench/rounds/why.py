"""The run of ``--why``: one process without the GIL that loads the user's dataset in all ways."""

import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path

from ftbench.document import model
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


def measure(
    results: model.Results,
    scenario: Scenario,
    twins: Twins,
    display: Display,
    interruption: Interruption,
) -> Why:
    """Connect to the free-threaded twin, and measure what its threads fight over in the dataset of
    *scenario*. Raises TrialFailed, TwinError or Interrupted.
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
        rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
        return _measured(scenario, twins, display, threads, rounds)


def _measured(scenario: Scenario, twins: Twins, display: Display, threads: int, rounds: int) -> Why:
    parameters = scenario.case("").parameters
    task = Task(
        own.WHY, [], "loader-thread", threads, rounds, 2, 1, PREFETCH_FACTOR, "", parameters
    )
    request = replace(task, config=CONFIG).request()
    update = display.step(f"what {threads} threads fight over")
    finished = -2  # the imports and the copies are turns, too
    with contextlib.closing(twins.endpoints[CONFIG].start(request)) as trial:
        while (result := trial.go_on()) is None:
            finished += 1
            update(max(0, finished), rounds)
    sharing = result["sharing"]
    return why(threads, sharing["rates"], sharing["busy"], sharing["lacking"])
