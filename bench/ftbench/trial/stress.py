"""The thread-safety suite (tests/stress) as part of a run: in every configuration, after all
scenarios of the run.

The suite has scenarios of its own. It runs as one process in each configuration, `python -m
tests.stress`. The result of a scenario is written as a line of JSON as soon as the scenario has
ended, so an interruption or a crash loses no finished result. The crash or hang of one scenario
does not affect the others.
"""

import subprocess
import time
from collections.abc import Iterator
from dataclasses import fields

from ftbench.document.model import Stress, StressResult
from ftbench.trial.process import Process, TrialFailed, how_it_ended
from ftrun.configurations import child_environment, command, last_lines
from ftrun.project import ROOT
from ftrun.supervise import Watch

PROGRAM = "tests.stress"
# Seconds in addition to its minutes. It takes about a minute, and ends scenarios that hang after
# two minutes each.
PATIENCE = 1200.0
# pytest's exit status if a scenario failed. The scenario's line has the failure.
SOME_FAILED = 1
# The most characters of a failure's text: the stacks of many threads can be long.
MOST_CHARACTERS = 20_000

KILLED = "the run has not ended, or was killed"


class StressProcess(Process):
    """A child process that runs the thread-safety suite in one configuration.

    The constructor raises TrialFailed if tests/stress is missing.
    """

    def __init__(self, python: str, request: dict, watch: Watch):
        if not (ROOT / "tests" / "stress").is_dir():
            raise TrialFailed(
                "tests/stress is not here: run bench from a clone of the repository, or in its "
                "images"
            )
        line = [*command(python, PROGRAM), "--seed", str(request["seed"])]
        if request["minutes"] is not None:
            line += ["--minutes", f"{request['minutes']:g}"]
        environment = child_environment(request["config"], paths=[str(ROOT)])
        super().__init__(request, watch, line, environment, stdin=subprocess.DEVNULL)
        self._until = time.monotonic() + self._patience

    def _go_on(self) -> dict | None:
        """Return the suite's next line, or None once the suite has ended."""
        line = self._ask(b"", self._until - time.monotonic())
        if line is None:
            outcome = self._child.finish(b"", self._watch, self._patience)
            if outcome.returncode not in (0, SOME_FAILED):
                raise TrialFailed(how_it_ended(outcome) + last_lines(outcome.stderr))
        return line


def request(part: Stress, config: str) -> dict:
    """Return the request to run the suite in a configuration; its "patience" limits the time of the
    whole suite (s).
    """
    patience = 60 * (part.minutes or 0) + PATIENCE
    return {"config": config, "minutes": part.minutes, "seed": part.seed, "patience": patience}


def take(part: Stress, config: str, lines: Iterator[dict]) -> Iterator[StressResult]:
    """Add each result in the suite's lines to `part`, and yield it. Raises TrialFailed if one is
    invalid or missing.
    """
    done = 0
    while (line := _next(lines, part.scenarios[done:])) is not None:
        try:
            if "source" in line:
                if part.source not in (None, line["source"]):
                    raise TrialFailed(
                        "tests/stress is another version there than in the configurations before: "
                        "rebuild the images, or use the same checkout for both twins"
                    )
                part.source = line["source"]
                part.scenarios = line["scenarios"]
                continue
            result = StressResult(
                **{field.name: line[field.name] for field in fields(StressResult)}
            )
        except KeyError as error:
            raise TrialFailed(f"a result of tests/stress lacks {error}") from error
        if result.configuration != config:
            raise TrialFailed(f"it ran as {result.configuration}, not as {config}")
        result.failures = [text[:MOST_CHARACTERS] for text in result.failures]
        part.results.append(result)
        done += 1
        yield result
    if done < len(part.scenarios):
        raise TrialFailed(f"{len(part.scenarios) - done} scenarios did not run")


def _next(lines: Iterator[dict], left: list[str]) -> dict | None:
    """Return the next line, None at the end. If the suite hangs, raise TrialFailed for the first
    scenario of *left*.
    """
    try:
        return next(lines, None)
    except TrialFailed as error:
        if error.hung and left:
            raise TrialFailed(f"{left[0]}: {error}", hung=True) from error
        raise


def problem(part: Stress | None) -> str | None:
    """Return the suite's failures in one sentence; None if there are none."""
    if part is None:
        return None
    failures = [
        f"{failure.scenario} {failure.outcome} in {failure.configuration}"
        for failure in part.failed
    ]
    if part.status != "complete":
        failures.append(f"incomplete: {part.reason}")
    if not failures:
        return None
    return f"thread-safety suite: {'; '.join(failures)}"
