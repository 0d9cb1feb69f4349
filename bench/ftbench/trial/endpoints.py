"""The endpoints that run a twin's trials: an interpreter of this machine,
or a server in another container.

Endpoints and their trials are used by the controller's thread only. One trial runs at a time. If
the run is interrupted while an endpoint waits, the endpoint raises Interrupted, and leaves no
process running.
"""

import contextlib
from pathlib import Path
from typing import Any

from ftbench.trial.process import Process, TrialFailed, TrialProcess
from ftbench.trial.stress import StressProcess
from ftrun.errors import Interrupted, TwinError
from ftrun.interruption import Interruption
from ftrun.supervise import Watch
from ftrun.twin import CONNECT_SECONDS, LocalTwin, RemoteTwin


def start(python: str, request: dict, watch: Watch, packages: str | None = None) -> Process:
    """Start the trial or the thread-safety suite that `request` asks
    for (Task.request, stress.request).

    `packages`: a folder of further packages for the trial. Raises TrialFailed or OSError.
    """
    if "minutes" in request:
        return StressProcess(python, request, watch)
    return TrialProcess(python, request, watch, packages)


class LocalEndpoint(LocalTwin):
    """Endpoint whose trials are child processes of this process."""

    packages: str | None = None
    """Folder of packages that trials have in addition to the interpreter's; None for none."""

    def _interrupted(self) -> bool:
        """Raise Interrupted if the run was interrupted: a callback for ftrun.supervise.Watch."""
        self._interruption.check()
        return False

    def start(self, request: dict) -> Process:
        """Start a trial or the thread-safety suite (see the function `start`);
        raises TwinError or TrialFailed.
        """
        try:
            return start(
                self.name, request, {self._interruption.fileno(): self._interrupted}, self.packages
            )
        except OSError as error:
            raise TwinError(f"{self.name} cannot be run: {error}") from error


class RemoteEndpoint(RemoteTwin):
    """Endpoint whose trials run in a `ftbench.trial.server`, over the server's socket."""

    def start(self, request: dict) -> "RemoteProcess":
        """Start a trial or the thread-safety suite on the server;
        raises TwinError or TrialFailed.
        """
        return RemoteProcess(self, request)


class RemoteProcess:
    """Handle of a process that a server (ftbench.trial.server) runs for us:
    a trial, or the thread-safety suite.
    """

    def __init__(self, endpoint: RemoteEndpoint, request: dict):
        self._endpoint = endpoint
        # The server has the same limit; the margin lets the server report the timeout first.
        self._patience = request["patience"] + 30
        self._number = self._exchange({"op": "start", "request": request})

    def _exchange(self, request: dict) -> Any:
        answer = self._endpoint.exchange(request, self._patience)
        if "error" in answer:
            raise TrialFailed(answer["error"], answer.get("hung", False))
        return answer.get("result")

    def go_on(self) -> dict | None:
        """Let the process continue; return its answer (see Process.go_on).
        Also raises TwinError or Interrupted.
        """
        return self._exchange({"op": "go on", "process": self._number})

    def close(self) -> None:
        """Kill the process and its descendants."""
        # If the server has gone, or has lost this client, the process has ended.
        if not self._endpoint.closed:
            with contextlib.suppress(TwinError, Interrupted):
                self._endpoint.exchange({"op": "end", "process": self._number}, CONNECT_SECONDS)


Endpoint = LocalEndpoint | RemoteEndpoint
RunningTrial = Process | RemoteProcess


def connect(text: str, interruption: Interruption) -> Endpoint:
    """Return the endpoint for `text`: unix:PATH for a server's socket,
    or an interpreter's path; raises TwinError.
    """
    if text.startswith("unix:"):
        return RemoteEndpoint(Path(text.removeprefix("unix:")), interruption)
    # Do not resolve links: the python of a virtual environment links
    # to an interpreter without its packages.
    return LocalEndpoint(Path(text).absolute(), interruption)
