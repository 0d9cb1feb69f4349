"""The process of a trial, seen from the process that starts it: it runs one turn at a time, and waits in between."""

import json
import os
from dataclasses import asdict

from ftbench.machine.disturbance import between, counters, together
from ftbench.trial.request import Request
from ftrun.configurations import child_environment, command, last_lines
from ftrun.supervise import Child, Completed, TimedOut, Watch


class TrialFailed(Exception):
    """Raised if a trial fails. The first line of the message is the reason, further lines quote the trial's output."""

    def __init__(self, message: str, hung: bool = False):
        super().__init__(message)
        self.hung = hung
        """True if the trial took longer than its patience."""

    @property
    def why(self) -> str:
        """The first line of the error message."""
        return str(self).partition("\n")[0]


def how_it_ended(outcome: Completed) -> str:
    """Word how a process ended: "exit status 1", "killed by signal 9 (out of memory?)"."""
    if outcome.returncode >= 0:
        return f"exit status {outcome.returncode}"
    likely = {
        -7: " (bus error: /dev/shm is full; enlarge it with --shm-size, SHM_SIZE in compose)",
        -9: " (out of memory?)",
    }
    return f"killed by signal {-outcome.returncode}{likely.get(outcome.returncode, '')}"


def last_words(outcome: Completed) -> str:
    """Return the reason of a process's failure in a line, and below it the process's last lines of output."""
    quoted = last_lines(outcome.stderr)
    lines = outcome.stderr.decode(errors="replace").rstrip().splitlines()
    if outcome.returncode != 1 or not lines:
        return how_it_ended(outcome) + quoted
    # An exception stands in the line below the frames of its traceback, which are indented; notes follow it.
    raised = [line for above, line in zip(lines, lines[1:]) if above.startswith(" ") and not line.startswith(" ")]
    why = lines[-1] if lines[-1].startswith("trial: ") or not raised else raised[-1]
    return why.removeprefix("trial: ") + (quoted if len(lines) > 1 else "")


def encode(request: Request) -> bytes:
    """Return a trial's first line of stdin: the request, and the parent's id, whose end also ends the trial."""
    return json.dumps({**asdict(request), "parent": os.getpid()}).encode() + b"\n"


def _decode(line: bytes) -> dict:
    try:
        return json.loads(line)
    except ValueError as error:
        raise TrialFailed(f"its stdout has a line that is none of its own: {line[:80]!r}") from error


class TrialProcess:
    """One trial. Owned by one thread, which has to close it. Raises OSError if the process cannot be started.

    The process imports at once, and waits for its first turn. Other load is recorded only while it measures, not while
    it waits.
    """

    def __init__(self, python: str, request: Request, watch: Watch, packages: str | None = None):
        self._watch = watch
        self._next = encode(request)
        self._patience = request.patience
        self._own_seconds = 0.0
        self._disturbed: list[dict] = []
        self._measures = False
        more = [packages] if packages else []
        self._child = Child(command(python, "ftbench.trial.child"), child_environment(request.config, paths=more))

    def go_on(self) -> dict | None:
        """Let the trial run; return its result with other load (disturbance.together), or None once it waits again.

        The first call ends after the imports. Raises TrialFailed, or what Child.ask does if a watched file
        descriptor's callback wants its end.
        """
        before = counters()
        try:
            line = self._child.ask(self._next, self._watch, self._patience)
            answer = _decode(line) if line is not None else None
            if answer is not None and "waiting" in answer:
                self._next = b"\n"
                used = answer["own_seconds"]
                if self._measures:
                    self._disturbed.append(between(before, counters(), used - self._own_seconds))
                self._measures, self._own_seconds = True, used
                return None
            outcome = self._child.finish(b"", self._watch, self._patience)
        except TimedOut as error:
            raise TrialFailed(f"it hangs, or {error}{last_lines(error.stderr)}", hung=True) from error
        if outcome.returncode != 0 or answer is None:
            no_result = f"no result on its stdout{last_lines(outcome.stderr)}"
            raise TrialFailed(last_words(outcome) if outcome.returncode else no_result)
        # It has been waited for: counted among the children of this process with all that it has ever used.
        disturbed = [*self._disturbed, between(before, counters(), -self._own_seconds)]
        return {**answer, "disturbance": together(disturbed)}

    def close(self) -> None:
        """Kill the process and those that it started."""
        self._child.close()
