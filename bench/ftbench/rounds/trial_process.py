"""A trial's process as those see it that started it: it goes on when it is told to, and stands still in between."""

from __future__ import annotations

from ftbench.machine.disturbance import between, counters, together
from ftbench.rounds import trials
from ftrun.child_process import Child, TimedOut, Watch
from ftrun.configurations import child_environment, command, last_lines


class TrialProcess:
    """One trial. Owned by one thread; whoever made it has to close it. Raises OSError if it cannot be started.

    It begins at once to import what it needs, and waits for its first turn. What disturbs it is taken while it
    measures. How others run while it stands still is nothing to it.
    """

    def __init__(self, python: str, config: str, request: dict, watch: Watch, packages: str | None = None):
        self._watch = watch
        self._next = trials.encode(request)
        self._patience = request.get("patience", trials.TIMEOUT_SECONDS)
        self._own_seconds = 0.0
        self._disturbed: list[dict] = []
        self._measures = False
        more = [packages] if packages else []
        self._child = Child(command(python, "ftbench.trial"), child_environment(config, paths=more))

    def go_on(self) -> dict | None:
        """Let it run; its result with what disturbed it (disturbance.together), None once it waits again.

        The first time it comes as far as its imports.

        Raises trials.TrialFailed, or supervise.Stopped if a watched file descriptor's callback asked for the end.
        """
        before = counters()
        try:
            line = self._child.ask(self._next, self._watch, self._patience)
            answer = trials.decode(line) if line is not None else None
            if answer is not None and "waiting" in answer:
                self._next = b"\n"
                used = answer["own_seconds"]
                if self._measures:
                    self._disturbed.append(between(before, counters(), used - self._own_seconds))
                self._measures, self._own_seconds = True, used
                return None
            outcome = self._child.finish(b"", self._watch, self._patience)
        except TimedOut as error:
            raise trials.TrialFailed(f"it hangs, or {error}{last_lines(error.stderr)}") from error
        if outcome.returncode != 0 or answer is None:
            raise trials.TrialFailed(
                (trials.how_it_ended(outcome) if outcome.returncode else "no result on its stdout")
                + last_lines(outcome.stderr)
            )
        # It has been waited for: counted among the children of this process with all that it has ever used.
        disturbed = [*self._disturbed, between(before, counters(), -self._own_seconds)]
        return {**answer, "disturbance": together(disturbed)}

    def close(self) -> None:
        """Kill it, if it still runs, and what it started."""
        self._child.close()
