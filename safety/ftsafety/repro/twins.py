"""The twins that run the script: interpreters of this machine, or servers in containers. See ftrun.twin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ftrun.environment import source_hash
from ftrun.interruption import Interrupted, Interruption
from ftrun.loop import Stopped
from ftrun.twin import LocalTwin, RemoteTwin, TwinError
from ftsafety.repro import outcome
from ftsafety.repro.outcome import Outcome
from ftsafety.repro.request import Request
from ftsafety.repro.run import run

# Beyond a run's own limit: for the dump of stacks, SIGTERM and the deletion of its files.
MARGIN_SECONDS = 60.0


class LocalScripts(LocalTwin):
    """Twin whose runs are child processes of this process, without a container around them."""

    overlay: str | None = None
    """A folder of packages that come before the interpreter's own on the path."""
    config: str | None = None
    """The only configuration that this interpreter can run; None for a twin, which can run several."""

    def reproduce(self, request: Request, wrapper: Sequence[str] = ()) -> Outcome:
        """Run a script once; raises Interrupted. *wrapper*: a command that runs the interpreter, such as a debugger."""
        try:
            return run(self.python, request, self._watch, overlay=self.overlay, wrapper=wrapper)
        except Stopped:
            raise Interrupted(self._interruption.signum) from None


class RemoteScripts(RemoteTwin):
    """Twin in another container, reached through `ftsafety.repro.script_server`. Each request contains the script."""

    config = None

    def describe(self) -> dict:
        """Return the twin's environment; raises TwinError, also if the server runs another version of this project."""
        found = super().describe()
        if found["source"] != source_hash():
            raise TwinError(
                f"{self.name} has other sources than this program: build both images again (docker compose build)"
            )
        return found

    def reproduce(self, request: Request, wrapper: Sequence[str] = ()) -> Outcome:
        """Run a script once; raises TwinError or Interrupted. A *wrapper* is refused with TwinError."""
        if wrapper:
            raise TwinError(f"{self.name}: behind walls no debugger runs")
        message = {"op": "reproduce", **request.as_json()}
        answer = self.ask(message, request.limits.timeout + MARGIN_SECONDS, outcome.FORM)
        try:
            return outcome.from_json(answer)
        except ValueError as error:
            raise TwinError(f"{self.name}: {error}") from error


Twin = LocalScripts | RemoteScripts
"""A twin that runs scripts."""


def connect(text: str, interruption: Interruption) -> Twin:
    """Return the twin at `text`: a server (unix:PATH) or a Python interpreter (its path); raises TwinError."""
    if text.startswith("unix:"):
        return RemoteScripts(Path(text.removeprefix("unix:")), interruption)
    return LocalScripts(Path(text).absolute(), interruption)
