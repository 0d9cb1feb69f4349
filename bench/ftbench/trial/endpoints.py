"""The places where a twin's trials run: an interpreter of this machine, or a server in another container.

An endpoint is owned by the controller's thread, as are its trials, of which one runs at a time. Both kinds
watch the controller's interruption while they wait, and raise Interrupted with nothing left running.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from ftbench.trial import stress
from ftbench.trial.process import TrialFailed, TrialProcess
from ftbench.trial.request import Request
from ftrun.interruption import Interrupted, Interruption
from ftrun.twin import CONNECT_SECONDS, LocalTwin, RemoteTwin, TwinError


class LocalEndpoint(LocalTwin):
    """Endpoint whose trials are child processes of this process."""

    packages: str | None = None
    """A folder of packages that trials find beside the interpreter's own; None for none."""

    def _interrupted(self) -> bool:
        """Raise Interrupted: a callback for ftrun.supervise.Watch. Closing the child then ends it."""
        self._interruption.check()
        return False

    def start(self, request: Request) -> TrialProcess:
        """Start a trial, which imports and waits; raises TwinError."""
        watch = {self._interruption.fileno(): self._interrupted}
        try:
            return TrialProcess(self.name, request, watch, self.packages)
        except OSError as error:
            raise TwinError(f"{self.name} cannot be run: {error}") from error

    def stress(self, config: str, request: dict, tell: Callable[[dict], None]) -> None:
        """Run the stress suite (ftbench.trial.stress); `tell` is called with each line as it comes.

        Raises TrialFailed, TwinError, Interrupted, or what `tell` raises.
        """
        try:
            stress.run(self.name, config, request, tell, {self._interruption.fileno(): self._interrupted})
        except OSError as error:
            raise TwinError(f"{self.name} cannot be run: {error}") from error


class RemoteEndpoint(RemoteTwin):
    """Endpoint whose trials run in a `ftbench.trial.server`, over the server's socket."""

    def start(self, request: Request) -> RemoteTrial:
        """Start a trial there, which imports and waits; raises TwinError or TrialFailed."""
        return RemoteTrial(self, request)

    def stress(self, config: str, request: dict, tell: Callable[[dict], None]) -> None:
        """See LocalEndpoint.stress."""
        message: dict | None = {"op": "stress", "config": config, "request": request}
        while True:
            answer = self.exchange(message, stress.seconds(request) + 30)
            if "line" not in answer:
                break
            tell(answer["line"])
            message = None
        if "error" in answer:
            raise TrialFailed(answer["error"])


class RemoteTrial:
    """A trial of a server."""

    def __init__(self, endpoint: RemoteEndpoint, request: Request):
        self._endpoint = endpoint
        self._patience = request.patience
        self._number: int | None = None
        self._number = self._exchange({"op": "trial", "request": asdict(request)}).get("waiting")

    def _exchange(self, request: dict) -> dict:
        # The server has the same limit; the margin lets it say so itself.
        answer = self._endpoint.exchange(request, self._patience + 30)
        if "error" in answer:
            self._number = None
            raise TrialFailed(answer["error"], answer.get("hung", False))
        return answer

    def go_on(self) -> dict | None:
        """See TrialProcess.go_on; raises TrialFailed, TwinError or Interrupted."""
        answer = self._exchange({"op": "turn", "trial": self._number})
        self._number = answer.get("waiting")
        return answer.get("result")

    def close(self) -> None:
        """End the trial, if it has not ended."""
        # If the server has gone, or has lost its client, so has the trial.
        if self._number is not None and not self._endpoint.closed:
            with contextlib.suppress(TwinError, Interrupted):
                self._endpoint.exchange({"op": "end", "trial": self._number}, CONNECT_SECONDS)


Endpoint = LocalEndpoint | RemoteEndpoint
Trial = TrialProcess | RemoteTrial


def connect(text: str, interruption: Interruption) -> Endpoint:
    """Return the endpoint that `text` names: unix:PATH or an interpreter; raises TwinError."""
    if text.startswith("unix:"):
        return RemoteEndpoint(Path(text.removeprefix("unix:")), interruption)
    # Not resolved: a virtual environment's python is a link, and what it links to has no packages.
    return LocalEndpoint(Path(text).absolute(), interruption)
