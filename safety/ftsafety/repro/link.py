"""The connection to a Dask cluster, through a child process whose Python has Dask's client (native/cluster)."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass

from ftrun.configurations import last_lines
from ftrun.errors import Disconnected, TwinError
from ftrun.escape import one_line
from ftrun.interruption import Interruption
from ftrun.project import ROOT
from ftrun.protocol import Channel

BRIDGE = ROOT / "native" / "cluster" / "dask_bridge.py"
CONNECT_SECONDS = 300.0  # the client's own limit is lower
CLOSE_SECONDS = 10.0


class NoCluster(TwinError):
    """There is no cluster to connect to, or it cannot be used from here; the message says what to do."""


@dataclass(frozen=True)
class Where:
    """Place of the runs: a cluster, and the way in which its workers start a batch."""

    address: str
    """The address of the scheduler, or the path of its scheduler file."""
    python: str
    """The Python that has the package distributed."""
    folder: str
    """The folder of this project on the workers."""
    walls: bool
    """True to run the script in the workers' containers."""

    @property
    def command(self) -> list[str]:
        """The command that a worker runs in `folder` to make a batch."""
        if not self.walls:
            return [os.path.join(self.folder, "twins"), "repro", "--batch"]
        # The containers of a project serve one client at a time.
        return ["flock", "compose.yaml", "docker", "compose", "run", "--rm", "-T", "ft-repro", "--batch"]


class Link:
    """Connection to a cluster. Owned by one thread, which must call `close`."""

    def __init__(self, where: Where, interruption: Interruption):
        """Connect to the cluster *where*; raises NoCluster or Interrupted."""
        self.where, self._interruption = where, interruption
        self._watch = {interruption.fileno(): interruption.wanted}
        with contextlib.ExitStack() as stack:
            self._errors = stack.enter_context(tempfile.TemporaryFile())
            ours, theirs = socket.socketpair()
            stack.callback(ours.close)
            with theirs:
                # In a session of its own: Ctrl-C at a terminal is for this process, which then closes the socket.
                self._process = subprocess.Popen(
                    [where.python, str(BRIDGE)],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=self._errors,
                    start_new_session=True,
                )
            stack.callback(self._end, ours)
            self._channel = Channel(ours)
            self.send({"address": where.address, "command": where.command, "folder": where.folder})
            try:
                hello = self.receive(time.monotonic() + CONNECT_SECONDS)
            except TimeoutError:
                hello = {"error": "it does not answer"}
            if not isinstance(hello.get("threads"), int):
                raise NoCluster(f"--dask {where.address}: {one_line(str(hello.get('error')))}")
            self.threads: int = hello["threads"]
            """Number of threads of all workers at the start."""
            self._resources = stack.pop_all()

    def _end(self, ours: socket.socket) -> None:
        """Close the socket *ours*, so that the child cancels all batches and ends; wait for its end."""
        ours.close()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:  # the scheduler does not answer, and cancels when the connection ends
            self._process.kill()
            self._process.wait()

    def send(self, message: dict) -> None:
        """Send a message; raises TwinError if the child process has ended."""
        try:
            self._channel.send(message)
        except Disconnected as error:
            raise self._gone() from error

    def receive(self, until: float) -> dict:
        """Return the next message. Raises Interrupted, TwinError; TimeoutError when time.monotonic() is *until*."""
        try:
            # A wait of more than a month is more than a selector takes.
            message = self._channel.receive(self._watch, min(max(0.0, until - time.monotonic()), 1e6))
        except Disconnected as error:
            raise self._gone() from error
        self._interruption.check()
        if message is None:
            raise TimeoutError
        return message

    def _gone(self) -> TwinError:
        self._process.wait()
        self._errors.seek(0)
        return TwinError(f"the client of the Dask cluster has ended: {last_lines(self._errors.read(), 2)}")

    def close(self) -> None:
        """Cancel all batches and close the connection."""
        self._resources.close()
