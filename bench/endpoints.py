"""Where a twin's trials run: an interpreter of this machine, or a peer in another container.

An endpoint is owned by the controller's thread, as are its trials, of which one runs at a time. Both kinds
watch the controller's interruption while they wait, and raise Interrupted with nothing left running.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from bench import stress, trials
from bench.interruption import Interrupted, Interruption
from bench.supervise import Stopped, TimedOut, supervise
from bench.trial_process import TrialProcess
from bench.wire import PROTOCOL, Channel, Disconnected

CONNECT_SECONDS = 30.0
RETRY_SECONDS = 0.2
DESCRIBE_SECONDS = 60.0
STOPPED_TOGETHER_SECONDS = 0.5


class EndpointError(Exception):
    """The twin cannot be used; the message says what to do."""


class EndpointLost(EndpointError):
    """The twin could be used, and has gone."""


class Trial(Protocol):
    """A trial that has been started, here or elsewhere. Whoever started it has to close it."""

    def go_on(self) -> dict | None:
        """Let it run: its result, with what disturbed it (bench.disturbance), or None once it waits for another turn.

        Raises trials.TrialFailed, EndpointError or Interrupted.
        """

    def close(self) -> None:
        """End it, if it has not ended."""


class Endpoint(Protocol):
    """Runs trials of one interpreter."""

    name: str

    def describe(self) -> dict:
        """The twin's environment (bench.environment.describe); raises EndpointError."""

    def start(self, config: str, request: dict) -> Trial:
        """A trial that has not begun yet; raises EndpointError."""

    def stress(self, config: str, request: dict, tell: Callable[[dict], None]) -> None:
        """Run the stress suite (bench.stress); `tell` is called with each line as it comes.

        Raises trials.TrialFailed, EndpointError, Interrupted, or what `tell` raises.
        """

    def close(self) -> None:
        """Let the twin go."""


class LocalEndpoint:
    """Trials as child processes of this one."""

    def __init__(self, python: Path, interruption: Interruption):
        self.name = str(python)
        self._interruption = interruption
        if not (python.is_file() and os.access(python, os.X_OK)):
            raise EndpointError(f"{python} is no executable file: name a Python interpreter "
                                "or unix:/path of a peer's socket")

    def _supervise(self, module: str, config: str | None, stdin: bytes, timeout: float):
        watch = {self._interruption.fileno(): self._interruption.wanted}
        try:
            return supervise(trials.command(self.name, module), stdin,
                             trials.child_environment(config), watch, timeout)
        except Stopped:
            raise Interrupted(self._interruption.signum) from None

    def describe(self) -> dict:
        try:
            outcome = self._supervise("bench.environment", None, b"", DESCRIBE_SECONDS)
        except (OSError, TimedOut) as error:
            raise EndpointError(f"{self.name} cannot be run: {error}") from error
        try:
            if outcome.returncode == 0:
                return json.loads(outcome.stdout)
        except ValueError:
            pass
        raise EndpointError(f"{self.name} is not a Python that can run this benchmark (3.13 or newer "
                            "with the packages of the lock):" + trials.last_lines(outcome.stderr, 4))

    def start(self, config: str, request: dict) -> LocalTrial:
        try:
            return LocalTrial(self.name, config, request, self._interruption)
        except OSError as error:
            raise EndpointError(f"{self.name} cannot be run: {error}") from error

    def stress(self, config: str, request: dict, tell: Callable[[dict], None]) -> None:
        try:
            stress.run(self.name, config, request, tell, {self._interruption.fileno(): self._interruption.wanted})
        except Stopped:
            raise Interrupted(self._interruption.signum) from None
        except OSError as error:
            raise EndpointError(f"{self.name} cannot be run: {error}") from error

    def close(self) -> None:
        pass


class LocalTrial:
    """A trial that is a child of this process. Raises OSError if it cannot be started."""

    def __init__(self, python: str, config: str, request: dict, interruption: Interruption):
        self._interruption = interruption
        self._process = TrialProcess(python, config, request, {interruption.fileno(): interruption.wanted})

    def go_on(self) -> dict | None:
        try:
            return self._process.go_on()
        except Stopped:
            raise Interrupted(self._interruption.signum) from None

    def close(self) -> None:
        self._process.close()


class PeerEndpoint:
    """Trials of a `bench.peer`, asked for over its socket."""

    def __init__(self, path: Path, interruption: Interruption):
        self.name = f"unix:{path}"
        self.closed = False
        """Whether the connection has ended, and with it all that ran in the peer."""
        self._interruption = interruption
        self._watch = {interruption.fileno(): interruption.wanted}
        self._channel = Channel(self._connect(path))
        try:
            hello = self.exchange(None, CONNECT_SECONDS)
            if "busy" in hello:
                raise EndpointError(f"{self.name}: {hello['busy']}; wait until it has ended")
            if hello.get("hello") != PROTOCOL:
                raise EndpointError(f"{self.name} speaks another protocol: {hello}; "
                                    "use the same version of bench in both containers")
        except BaseException:
            self.close()
            raise

    def _connect(self, path: Path) -> socket.socket:
        # The socket's appearance could be had from inotify, but not across every kind of shared
        # volume (a network or virtual machine's file system reports only its own side's changes),
        # and a refusing socket of a peer that starts again not at all. So: try again now and then,
        # waiting on the interruption meanwhile.
        give_up = time.monotonic() + CONNECT_SECONDS
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(str(path))
                return connection
            except OSError as error:
                connection.close()
                if time.monotonic() >= give_up or not isinstance(
                        error, (FileNotFoundError, ConnectionRefusedError)):
                    raise EndpointError(
                        f"no peer answers on {path} ({error.strerror or error}): start it with "
                        f"`python -m bench.peer --socket {path}` in the twin's container") from error
            self._interruption.wait(RETRY_SECONDS)

    def exchange(self, message: dict | None, timeout: float) -> dict:
        """Send a request and return its answer; None only receives. Raises EndpointLost or Interrupted."""
        try:
            if message is not None:
                self._channel.send(message)
            answer = self._channel.receive(self._watch, timeout)
        except Disconnected as error:
            # Where both containers are stopped together, the peer may have gone before our own
            # signal arrives; then that is the reason.
            self.close()
            self._interruption.wait(STOPPED_TOGETHER_SECONDS)
            raise EndpointLost(f"{self.name}: the peer has gone ({error}); see its output") from error
        # Closing the connection is what makes the peer kill the trial.
        if answer is None:
            self.close()
            self._interruption.check()
            raise EndpointLost(f"{self.name} did not answer within {timeout:.0f} s")
        return answer

    def describe(self) -> dict:
        return self.exchange({"op": "describe"}, DESCRIBE_SECONDS)["result"]

    def start(self, config: str, request: dict) -> PeerTrial:
        return PeerTrial(self, {"op": "trial", "config": config, "request": request})

    def stress(self, config: str, request: dict, tell: Callable[[dict], None]) -> None:
        message: dict | None = {"op": "stress", "config": config, "request": request}
        while True:
            answer = self.exchange(message, stress.seconds(request) + 30)
            if "line" not in answer:
                break
            tell(answer["line"])
            message = None
        if "error" in answer:
            raise trials.TrialFailed(answer["error"])

    def close(self) -> None:
        self.closed = True
        self._channel.close()


class PeerTrial:
    """A trial of a peer, which is started when it goes on for the first time."""

    def __init__(self, endpoint: PeerEndpoint, request: dict):
        self._endpoint = endpoint
        self._next = request
        self._number: int | None = None

    def go_on(self) -> dict | None:
        # The peer has the same limit; the margin lets it say so itself.
        answer = self._endpoint.exchange(self._next, trials.TIMEOUT_SECONDS + 30)
        self._number = answer.get("waiting")
        if "error" in answer:
            raise trials.TrialFailed(answer["error"])
        self._next = {"op": "turn", "trial": self._number}
        return answer.get("result")

    def close(self) -> None:
        # If the peer has gone, or has lost its client, so has the trial.
        if self._number is not None and not self._endpoint.closed:
            with contextlib.suppress(EndpointError, Interrupted):
                self._endpoint.exchange({"op": "end", "trial": self._number}, CONNECT_SECONDS)


def connect(text: str, interruption: Interruption) -> Endpoint:
    """The endpoint that `text` names: unix:PATH or an interpreter; raises EndpointError."""
    if text.startswith("unix:"):
        return PeerEndpoint(Path(text.removeprefix("unix:")), interruption)
    # Not resolved: a virtual environment's python is a link, and what it links to has no packages.
    return LocalEndpoint(Path(text).absolute(), interruption)
