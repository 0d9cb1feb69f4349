"""A server that runs processes with this interpreter for a client in another container,
over a Unix socket.

A server is one process with one thread, and serves one client at a time. An event loop in this
thread waits for clients, their processes and signals, so no state is shared between threads.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ftrun.errors import Disconnected, ServerError, Stopped
from ftrun.interruption import Interruption
from ftrun.loop import Loop, Watch
from ftrun.options import add_all
from ftrun.protocol import PROTOCOL, Channel


@contextlib.contextmanager
def listening(path: Path, anyone: bool = False) -> Iterator[socket.socket]:
    """Context manager: yield a socket that listens at `path`; remove it at the end.

    If `anyone` is true, every user may connect. Replaces a socket
    that a killed server left. Raises ServerError.
    """
    with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
        probe.connect(str(path))
        raise ServerError(f"another server listens on {path} already")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    before = os.umask(0)
    os.umask(0 if anyone else before)
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(str(temporary))
            listener.listen(4)
            temporary.rename(path)  # it accepts connections from now on
        except OSError as error:
            temporary.unlink(missing_ok=True)
            hint = (
                " (the path of a Unix socket has at most 107 bytes)"
                if len(str(temporary)) > 107
                else ""
            )
            raise ServerError(
                f"cannot listen on {path}: {error.strerror or error}{hint}; name a path in a "
                f"writable directory"
            ) from error
        finally:
            os.umask(before)
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


class Server:
    """Base class of a server that serves one client at a time and refuses all others.
    Owned by the main thread.
    """

    def __init__(self, listener: socket.socket, interruption: Interruption):
        self._listener = listener
        self._interruption = interruption

    def _answer(self, request: dict, watch: Watch) -> dict:
        """Return a subclass's answer to a request;
        raises Stopped if a callback of `watch` returns True.
        """
        raise NotImplementedError

    def _client_gone(self) -> None:
        """End the processes that still run for the client,
        which has gone. Subclasses implement this.
        """

    def _accept(self) -> socket.socket:
        return self._listener.accept()[0]

    def _refuse(self) -> bool:
        """Tell a second client that the server is busy. Return False, so that the first client's
        request goes on.
        """
        with contextlib.suppress(OSError, Disconnected):
            channel = Channel(self._accept())
            channel.send({"busy": "it serves another client"})
            channel.close()
        return False

    def serve(self, idle: float) -> None:
        """Wait up to `idle` seconds for a client. Serve
        that client until it disconnects or a signal arrives.
        """
        signals = {self._interruption.fileno(): self._interruption.wanted}
        clients: list[socket.socket] = []
        with Loop(signals) as loop, contextlib.suppress(Stopped):
            loop.add(self._listener.fileno(), lambda: clients.append(self._accept()))
            loop.run(lambda: bool(clients), time.monotonic() + idle)
        if not clients:
            return
        channel = Channel(clients[0])
        watch = {self._listener.fileno(): self._refuse, **signals}
        try:
            channel.send({"hello": PROTOCOL})
            while (request := channel.receive(watch)) is not None:
                # A client sends nothing while its request runs: if its socket is readable, the
                # client has gone.
                answer = self._answer(request, {**watch, channel.fileno(): lambda: True})
                channel.send(answer)
        except (Disconnected, Stopped):
            pass  # the client has gone or a signal came
        finally:
            self._client_gone()
            channel.close()


def run(
    module: str,
    description: str,
    server: Callable[[socket.socket, Interruption], Server],
    arguments: list[str] | None = None,
    anyone: bool = False,
) -> int:
    """Run a server program, with options `--socket` and `--idle`; return its exit status.

    `server` is called with the listening socket, and returns the Server.
    The program ends after one client.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--socket",
        required=True,
        type=Path,
        metavar="PATH",
        help="the Unix socket to listen on; removed at the end",
    )
    idle = "exit if no client comes within this time after the start"
    add_all(parser, [("--idle", float, 120.0, "SECONDS", idle)])
    options = parser.parse_args(arguments)
    try:
        with Interruption() as interruption, listening(options.socket, anyone) as listener:
            server(listener, interruption).serve(options.idle)
    except ServerError as error:
        print(f"{module}: {error}", file=sys.stderr)
        return 1
    # SIGTERM is how `docker stop` and compose end a service: it is not a failure.
    return 0
