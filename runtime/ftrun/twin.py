"""Access to a twin: an interpreter on this machine, or a server in another container.

A twin object is owned by one thread. If a signal arrives while a method waits, the method kills the
processes that the twin has started, and raises Interrupted.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path

from ftrun.configurations import child_environment, command, last_lines
from ftrun.errors import Disconnected, Interrupted, Stopped, TimedOut, TwinError, TwinLost
from ftrun.interruption import Interruption
from ftrun.protocol import PROTOCOL, Channel, conforms, decode
from ftrun.supervise import supervise

CONNECT_SECONDS, RETRY_SECONDS, STOPPED_TOGETHER_SECONDS = 30.0, 0.2, 0.5
# A description takes a second on an idle machine, mostly for imports.
DESCRIBE_SECONDS = 240.0

# The part of a twin's description that is shown or used, as a schema for ftrun.protocol.conforms.
DESCRIPTION = {
    "interpreter": {
        **dict.fromkeys(("version", "executable", "twin", "build", "compiler", "config_args"), str),
        "upstream_fixes": int,
    },
    "packages": {str: str},
    "cpu": {"model": str, "usable": int, "count": int},
    "memory": {"total": int},
    "os": {"name": str, "kernel": str, "container": (str, type(None))},
    "source": str,
}


class LocalTwin:
    """A twin on this machine, whose Python runs in child processes of this process."""

    closed = False

    def __init__(self, python: Path, interruption: Interruption):
        self.name = self.python = str(python)
        self._interruption = interruption
        self._watch = {interruption.fileno(): interruption.wanted}
        if not (python.is_file() and os.access(python, os.X_OK)):
            raise TwinError(
                f"{python} is no executable file: name a Python interpreter or unix:/path of a "
                f"server's socket"
            )

    def describe(self) -> dict:
        """Return the result of `ftrun.environment.describe` in this twin; raises TwinError."""
        arguments = command(self.name, "ftrun.environment")
        complaint = (
            "is not a Python that can be a twin (3.13 or newer with the packages of the lock):"
        )
        return self._answer(arguments, DESCRIPTION, DESCRIBE_SECONDS, complaint)

    def _answer(self, arguments: list[str], form: object, seconds: float, complaint: str) -> dict:
        """Run a command in this twin; return the JSON object that it prints,
        which must match the schema *form*.

        Raises TwinError if it cannot be run, or with *complaint* ("is not a Python ...") if it
        prints something else.
        """
        try:
            done = supervise(arguments, b"", child_environment(), self._watch, seconds)
        except Stopped:
            raise Interrupted(self._interruption.signum) from None
        except (OSError, TimedOut) as error:
            raise TwinError(f"{self.name} cannot be run: {error}") from error
        with contextlib.suppress(ValueError):
            if done.returncode == 0 and conforms(answer := decode(done.stdout), form):
                return answer  # type: ignore[return-value]  # a dict, as it conforms
        raise TwinError(f"{self.name} {complaint}" + last_lines(done.stderr, 4))

    def close(self) -> None:
        """Do nothing: a twin on this machine has no connection to close."""


class RemoteTwin:
    """A twin in another container, reached through the Unix socket of its server (ftrun.server)."""

    python = None

    def __init__(self, path: Path, interruption: Interruption):
        self.name = f"unix:{path}"
        self.closed = False
        """True if the connection has ended. The server then kills the processes
        that it runs for this client.
        """
        self._interruption = interruption
        self._watch = {interruption.fileno(): interruption.wanted}
        self._channel = Channel(self._connect(path))
        try:
            hello = self.exchange(None, CONNECT_SECONDS)
            if "busy" in hello:
                raise TwinError(f"{self.name}: {hello['busy']}; wait until that has ended")
            if hello.get("hello") != PROTOCOL:
                raise TwinError(
                    f"{self.name} speaks another protocol: {str(hello)[:200]}; use the same "
                    "version of ft-env in both containers"
                )
        except BaseException:
            self.close()
            raise

    def _connect(self, path: Path) -> socket.socket:
        # Polls, since inotify reports changes of its own side only on network and virtual machines'
        # file systems, and does not report when a server that was started again accepts
        # connections.
        give_up = time.monotonic() + CONNECT_SECONDS
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(str(path))
                return connection
            except OSError as error:
                connection.close()
                if time.monotonic() >= give_up or not isinstance(
                    error, (FileNotFoundError, ConnectionRefusedError)
                ):
                    raise TwinError(
                        f"no server answers on {path} ({error.strerror or error}): start one in "
                        f"the twin's container with --socket {path}"
                    ) from error
            self._interruption.wait(RETRY_SECONDS)

    def exchange(self, message: dict | None, timeout: float) -> dict:
        """Send *message*, unless it is None, and return the server's next message.
        Raises TwinLost or Interrupted.
        """
        try:
            if message is not None:
                self._channel.send(message)
            answer = self._channel.receive(self._watch, timeout)
        except Disconnected as error:
            # If both containers are stopped together, the server may go before our own signal,
            # the reason, arrives.
            self.close()
            self._interruption.wait(STOPPED_TOGETHER_SECONDS)
            raise TwinLost(f"{self.name}: the server has gone ({error}); see its output") from error
        # Closing the connection makes the server kill what runs for us.
        if answer is None:
            self.close()
            self._interruption.check()
            raise TwinLost(f"{self.name} did not answer within {timeout:.0f} s")
        return answer

    def describe(self) -> dict:
        """Return the result of `ftrun.environment.describe` on the server; raises TwinError."""
        return self.ask({"op": "describe"}, DESCRIBE_SECONDS, DESCRIPTION)

    def ask(self, request: dict, timeout: float, form: object) -> dict:
        """Send a request and return its result. Raises Interrupted, or TwinError if the result does
        not fit `form`.

        `form` is a schema for `ftrun.protocol.conforms`.
        """
        answer = self.exchange(request, timeout)
        if not conforms(answer, {"result": form}):
            self.close()
            raise TwinError(
                f"{self.name} failed: "
                f"{str(answer.get('error', 'its answer has another form'))[:1000]}"
            )
        return answer["result"]

    def close(self) -> None:
        """Close the connection to the server, which then kills the processes
        that it runs for this client.
        """
        self.closed = True
        self._channel.close()
