"""The thread-safety suite (tests/stress) as part of a run: in every configuration, after everything was measured.

Each configuration's is one process, `python -m tests.stress`, which tells in lines of JSON what every scenario did
as soon as that has ended. So what ended before an interruption or a crash is known. The suite itself sees to it
that a scenario's crash or hang is that scenario's alone.
"""

import json
from collections.abc import Callable
from dataclasses import fields

from ftbench.document.model import Stress, StressResult
from ftbench.trial.process import TrialFailed, how_it_ended
from ftrun.configurations import child_environment, command, last_lines
from ftrun.project import ROOT
from ftrun.supervise import TimedOut, Watch, supervise

PROGRAM = "tests.stress"
# Beyond what it is given: importing, and scenarios that hang, which it ends after two minutes each.
PATIENCE = 1800.0
# pytest's, if some scenario failed; which one, its line has said.
SOME_FAILED = 1
# Of a failure's text; the stacks of many threads can be long.
MOST_CHARACTERS = 20_000

KILLED = "the run has not ended, or was killed"


def seconds(request: dict) -> float:
    """Return the longest time of the suite in one configuration."""
    return 60 * (request["minutes"] or 0) + PATIENCE


def run(python: str, config: str, request: dict, tell: Callable[[dict], None], watch: Watch) -> None:
    """Run the suite with `python` in a configuration; `tell` is given each of its lines.

    `request` has "minutes" (or None) and "seed". Raises TrialFailed if it did not run to its end,
    supervise.Stopped, OSError, or what `tell` raises; nothing is left running then.
    """
    if not (ROOT / "tests" / "stress").is_dir():
        raise TrialFailed("tests/stress is not here: run bench from a clone of the repository, or in its images")
    minutes = [] if request["minutes"] is None else ["--minutes", f"{request['minutes']:g}"]
    rest = bytearray()

    def take(data: bytes) -> None:
        rest.extend(data)
        *lines, rest[:] = bytes(rest).split(b"\n")
        for line in map(json.loads, lines):
            if not isinstance(line, dict):
                raise ValueError(repr(line)[:80])
            tell(line)

    try:
        outcome = supervise(
            [*command(python, PROGRAM), "--seed", str(request["seed"]), *minutes],
            b"",
            child_environment(config, paths=[str(ROOT)]),
            watch,
            seconds(request),
            take,
        )
    except TimedOut as error:
        raise TrialFailed(f"{error}{last_lines(error.stderr)}") from error
    except ValueError as error:
        raise TrialFailed(f"its stdout has a line that is none of its own: {error}") from error
    if outcome.returncode not in (0, SOME_FAILED):
        raise TrialFailed(how_it_ended(outcome) + last_lines(outcome.stderr))


def begin(minutes: float | None, seed: int = 0) -> Stress:
    """Return the record of the suite before anything has run."""
    return Stress("incomplete", KILLED, minutes, seed, None, [], [])


class Collector:
    """Collector of one configuration's results in the suite's record; owned by the controller's thread."""

    def __init__(self, part: Stress, config: str, progress: Callable[[int, int], None], note: Callable[[str], None]):
        self._part = part
        self._config = config
        self._progress = progress
        self._note = note
        self._done = 0

    def take(self, line: dict) -> None:
        """Add a line of the suite to the record; raises TrialFailed for a line of another form."""
        part = self._part
        try:
            if "source" in line:
                if part.source not in (None, line["source"]):
                    raise TrialFailed(
                        "tests/stress is another version there than in the configurations before: "
                        "rebuild the images, or use the same checkout for both twins"
                    )
                part.source, part.scenarios = line["source"], line["scenarios"]
                return
            result = StressResult(**{each.name: line[each.name] for each in fields(StressResult)})
        except KeyError as error:
            raise TrialFailed(f"a result of tests/stress lacks {error}") from error
        if result.configuration != self._config:
            raise TrialFailed(f"it ran as {result.configuration}, not as {self._config}")
        result.failures = [text[:MOST_CHARACTERS] for text in result.failures]
        part.results.append(result)
        if result.outcome != "passed":
            self._note(f"thread-safety suite, {self._config}: {result.scenario} {result.outcome}")
        self._done += 1
        self._progress(self._done, len(part.scenarios))

    def missing(self) -> int:
        """Return the number of scenarios without a result."""
        return len(self._part.scenarios) - self._done


def problem(part: Stress | None) -> str | None:
    """Return the suite's failures in a sentence; None without failures."""
    if part is None:
        return None
    found = [f"{each.scenario} {each.outcome} in {each.configuration}" for each in part.failed]
    if part.status != "complete":
        found.append(f"incomplete: {part.reason}")
    return "thread-safety suite: " + "; ".join(found) if found else None
