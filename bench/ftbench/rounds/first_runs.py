"""The first run of a command (--command) in every configuration: does it work, does it
print the same, and how long does it take?
"""

import contextlib
import itertools
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ftbench.document import model
from ftbench.plan.scenario import Scenario, Task
from ftbench.plan.waterfall import RUNS
from ftbench.rounds.controller import WorkDiffers
from ftbench.rounds.look import FirstFacts
from ftbench.rounds.progress import Display
from ftbench.rounds.twins import Twins
from ftbench.rounds.work import PREFETCH_FACTOR
from ftbench.scenarios.command import FIRST_PATIENCE, sized
from ftbench.trial.process import TrialFailed
from ftrun.configurations import TWIN

LONGEST_LINE = 60
"""Characters of an output's line that a message quotes."""


@dataclass(frozen=True)
class FirstRuns:
    """Maker of the first run in each configuration. Used by the main thread only."""

    scenario: Scenario
    options: model.Options
    twins: Twins
    display: Display

    def look(self) -> FirstFacts:
        """Run each case of the command once in each configuration, leave out the configurations in
        which it fails, and set the amount of work.

        Raises TrialFailed if it fails in all of them, and WorkDiffers if they print different
        output that is to be compared.
        """
        if not self.scenario.plan.cases[0].parameters["stdin"] and has_data(0):
            self.display.warn("what is on stdin is not passed on; --stdin FILE is read by each run")
        self.display.note(f"running {self.scenario.description} once in each configuration")
        results: dict[str, list[dict]] = {}
        failures: dict[str, TrialFailed] = {}
        for config in self.options.configs:
            try:
                results[config] = self._run(config)
            except TrialFailed as error:
                failures[config] = error
        if not results:
            config, failure = next(iter(failures.items()))
            words = f"it fails in {', '.join(failures)}; in {config}: {failure}{_hint(failure)}"
            raise TrialFailed(words)
        for config, failure in failures.items():
            self.display.note(f"it fails in {config}: {failure}{_hint(failure)}")
            self.display.skip(f"{self.scenario.name}: configuration {config}", failure.why)
        if any(result["left_behind"] for of_config in results.values() for result in of_config):
            self.display.warn("processes of the command still run when it ends, and are killed")
        self._check_outputs(results)
        seconds = [
            max(result["turn_seconds"][0] + result["setup_seconds"] for result in of_case)
            for of_case in zip(*results.values(), strict=True)
        ]
        failed = "; ".join(
            f"it fails in {config}: {error.why}" for config, error in failures.items()
        )
        return FirstFacts(sized(self.scenario, seconds), list(results), failed=failed)

    def _run(self, config: str) -> list[dict]:
        """Return the results of all cases in a configuration; raises TrialFailed."""
        if why := self.twins.lacking.get(TWIN[config]):
            raise TrialFailed(why)
        patient = replace(self.scenario, patience=FIRST_PATIENCE)
        first, *others = [
            Task(
                patient,
                paths=[],
                variant=RUNS,
                workers=0,
                batch_size=1,
                warmup_batches=0,
                batches=1,
                prefetch_factor=PREFETCH_FACTOR,
                case=case.name,
                parameters=case.parameters,
                config=config,
            )
            for case in self.scenario.plan.cases
        ]
        request = replace(first, others=[task.request() for task in others]).request()
        self.display.step(f"running it in {config}")
        with contextlib.closing(self.twins.endpoints[TWIN[config]].start(request)) as trial:
            while (result := trial.go_on()) is None:
                pass
        return [result, *result["others"]]

    def _check_outputs(self, results: Mapping[str, Sequence[dict]]) -> None:
        for number, case in enumerate(self.scenario.plan.cases):
            if not case.parameters["compares"]:
                self.display.warn("what the configurations print is not compared (--no-compare)")
                return
            of_case = {config: outputs[number] for config, outputs in results.items()}
            (a, expected), *others = of_case.items()
            for b, result in others:
                if result["first_batch"] != expected["first_batch"]:
                    where = where_different((a, expected["output"]), (b, result["output"]))
                    title = f", {case.title}" if case.title else ""
                    raise WorkDiffers(
                        f"{self.scenario.description}{title} {where}. If that is expected, since "
                        "it prints times, add --no-compare"
                    )


def has_data(descriptor: int) -> bool:
    """Return True if a pipe or a file is open here: somebody may have meant it as input."""
    with contextlib.suppress(OSError):
        mode = os.fstat(descriptor).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)
    return False


def _hint(failure: TrialFailed) -> str:
    """Return the remedy of a failure in words; "" if none is known."""
    if "ModuleNotFoundError" in str(failure):
        return "\n--package NAME installs what the twins lack, for this run alone"
    return ""


def where_different(a: tuple[str, str], b: tuple[str, str]) -> str:
    """Return in words where two outputs differ, each (name of the configuration, its beginning)."""
    lines = itertools.zip_longest(a[1].splitlines(), b[1].splitlines())
    for number, pair in enumerate(lines, 1):
        if pair[0] != pair[1]:
            start = _first_difference(*pair) - LONGEST_LINE // 2
            line_a, line_b = (_quoted(line, start) for line in pair)
            return f"prints line {number} as {line_a} in {a[0]} and {line_b} in {b[0]}"
    places = "in line ends, undecodable bytes, or after the first 64 KiB"
    return f"prints different output in {a[0]} and {b[0]}, {places}"


def _first_difference(a: str | None, b: str | None) -> int:
    """Return the position of the first character in which two lines differ."""
    return len(os.path.commonprefix([a or "", b or ""]))


def _quoted(line: str | None, start: int) -> str:
    """Return the part of a line that begins near *start*, in quotes."""
    if line is None:
        return "nothing"
    before = "..." if start > 0 else ""
    part = line[max(0, start) :]
    after = "..." if len(part) > LONGEST_LINE else ""
    return repr(f"{before}{part[:LONGEST_LINE]}{after}")
