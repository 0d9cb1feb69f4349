"""The controller's side of trials and of the thread-safety suite:
processes that answer with lines of JSON.
"""

import contextlib
import json
import os
from typing import Any, Literal

from ftbench.machine.disturbance import between, counters, together
from ftbench.plan.waterfall import RUNS
from ftbench.trial.reasons import MARK, exception_in
from ftrun.configurations import child_environment, command, last_lines
from ftrun.errors import TimedOut
from ftrun.supervise import Child, Completed, Watch

END_SECONDS = 2.0
"""Time for the trial of a command to end the command."""
HANGS = "it hangs, or did not end within"


class TrialFailed(Exception):
    """Failure of a trial. The first line of the message is the reason;
    further lines quote the trial's output.
    """

    def __init__(self, message: str, hung: bool = False):
        super().__init__(message)
        self.hung = hung
        """True if the trial took longer than its time limit."""

    @property
    def kind(self) -> Literal["failed", "hung"]:
        """The kind of the failure, as in results.json (ftbench.document.model.Failure)."""
        return "hung" if self.hung else "failed"

    @property
    def why(self) -> str:
        """The reason: the first line of the message."""
        return str(self).partition("\n")[0]


def how_it_ended(outcome: Completed) -> str:
    """Return in words how a process ended: "exit status 1",
    "killed by signal 9 (out of memory?)".
    """
    if outcome.returncode >= 0:
        return f"exit status {outcome.returncode}"
    likely = {
        -7: " (bus error: /dev/shm is full; enlarge it with --shm-size, SHM_SIZE in compose)",
        -9: " (out of memory?)",
    }
    return f"killed by signal {-outcome.returncode}{likely.get(outcome.returncode, '')}"


def last_words(outcome: Completed) -> str:
    """Return one line with the reason why a process failed,
    followed by the last lines of its output.
    """
    lines = outcome.stderr.decode(errors="replace").rstrip().splitlines()
    if outcome.returncode != 1 or not lines:
        return how_it_ended(outcome) + last_lines(outcome.stderr)
    marked = [line for line in lines if line.startswith(MARK)]
    if marked:
        why = marked[-1]
        lines.remove(why)
    else:
        why = exception_in(lines) or lines[-1]
        if len(lines) == 1:
            lines = []
    return why.removeprefix(MARK) + last_lines("\n".join(lines).encode())


class Process:
    """A child process that writes lines of JSON. Used by one thread, which has to close it."""

    def __init__(
        self,
        request: dict,
        watch: Watch,
        arguments: list[str],
        environment: dict[str, str],
        **options: Any,
    ):
        self._watch = watch
        self._patience = request["patience"]
        self._child = Child(arguments, environment, **options)

    def go_on(self) -> dict | None:
        """Let the process continue, and return its next answer; raises TrialFailed and the
        exceptions of Child.ask.
        """
        try:
            return self._go_on()
        except TimedOut as error:
            why = f"{HANGS} {self._patience:.0f} s"
            raise TrialFailed(why + last_lines(error.stderr), hung=True) from error

    def _go_on(self) -> dict | None:
        raise NotImplementedError

    def _ask(self, line: bytes, seconds: float | None = None) -> dict | None:
        """Send a line to the process; return its next line (a dict),
        or None if the process ends without one.
        """
        if seconds is None:
            seconds = self._patience
        answer = self._child.ask(line, self._watch, seconds)
        if answer is None:
            return None
        with contextlib.suppress(ValueError):
            if isinstance(message := json.loads(answer), dict):
                return message
        raise TrialFailed(f"its stdout has a line that is none of its own: {answer[:80]!r}")

    def close(self) -> None:
        """Kill the process and its descendants."""
        self._child.close()


class TrialProcess(Process):
    """The process of a trial: ftbench.trial.child, or ftbench.trial.job for several ranks.

    The constructor raises OSError if the interpreter cannot be run. Load of other programs on the
    CPUs is recorded only while the trial measures, not while the trial waits.
    """

    def __init__(self, python: str, request: dict, watch: Watch, packages: str | None = None):
        paths = list(filter(None, [packages]))
        environment = child_environment(request["config"], paths=paths)
        # Samples that depend on the hashes of strings are then the same in all trials.
        if environment.get("PYTHONHASHSEED") in (None, "", "random"):
            environment["PYTHONHASHSEED"] = str(request.get("hash_seed", 0))
        arguments = command(python, "ftbench.trial.child")
        if request["ranks"] > 1:
            arguments = [*command(python, "ftbench.trial.job"), str(request["ranks"])]
        self._is_command = request["variant"] == RUNS
        if self._is_command:
            arguments = command(python, "ftbench.trial.command")
        super().__init__(request, watch, arguments, environment)
        # The end of this process also ends the trial.
        self._next = json.dumps({**request, "parent": os.getpid()}).encode() + b"\n"
        self._own_seconds = 0.0
        self._disturbed: list[dict] = []
        self._measures = False

    def _go_on(self) -> dict | None:
        """Let the trial run up to its next turn and return None,
        or to its end and return its result.

        The result also has the load on the CPUs while the trial measured ("disturbance").
        """
        before = counters()
        answer = self._ask(self._next)
        if answer is not None and "waiting" in answer:
            self._next = b"\n"
            used = answer["own_seconds"]
            if self._measures:
                self._disturbed.append(between(before, counters(), used - self._own_seconds))
            self._measures, self._own_seconds = True, used
            return None
        outcome = self._child.finish(b"", self._watch, self._patience)
        if outcome.returncode:
            words = last_words(outcome)
            raise TrialFailed(words, hung=HANGS in words.partition("\n")[0])
        if answer is None:
            raise TrialFailed(f"no result on its stdout{last_lines(outcome.stderr)}")
        # The trial has been waited for, so all CPU time
        # that it ever used counts as this process's children's.
        loads = [*self._disturbed, between(before, counters(), -self._own_seconds)]
        # The first load is that of the warm-up. A measurement without turns has no other.
        return {**answer, "disturbance": together(loads[1:] or loads), "turn_loads": loads[1:]}

    def close(self) -> None:
        """Kill the process and its descendants. The trial of a command kills those itself, at the
        end of its input.
        """
        if self._is_command:
            with contextlib.suppress(TimedOut):
                self._child.finish(b"", {}, END_SECONDS)
        super().close()
