"""``python -m bench.peer``: offers this interpreter's trials to a benchmark elsewhere.

One process, one thread, one client at a time. Everything the peer waits for (clients, the
running trial, signals) goes through one event loop at a time, so nothing here is shared.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import selectors
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import environment, stress, trials
from bench.interruption import Interruption
from bench.supervise import Stopped
from bench.trial_process import TrialProcess
from bench.wire import PROTOCOL, Channel, Disconnected

DESCRIPTION = """\
Offer this Python interpreter as a twin to a benchmark that runs in another container:

    here:   python -m bench.peer --socket /shared/ft.sock
    there:  python -m bench --twin ft=unix:/shared/ft.sock --twin gil=/usr/bin/python3

The socket's directory, the images (FT_BENCH_CACHE or --data) and the measured CPUs have to
be the same in both. Each trial is a fresh process of this interpreter. The peer serves one
benchmark, tells others that one is running, and exits with status 0 when it has gone or when
none came within --idle seconds. If the benchmark vanishes, its running trial is killed.
"""


class PeerError(Exception):
    """The peer cannot start; the message says what to do."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(
        prog="python -m bench.peer", description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--socket", required=True, type=Path, metavar="PATH",
                        help="the Unix socket to listen on; removed at the end")
    result.add_argument("--idle", type=float, default=120, metavar="SECONDS",
                        help="give up when no benchmark came for so long (default: %(default)s)")
    return result


def listen(path: Path) -> socket.socket:
    """A listening socket at `path`; raises PeerError if it cannot be had.

    It appears there by a rename, so a client that sees it can connect, and one that a killed
    peer left behind is replaced.
    """
    with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
        probe.connect(str(path))
        raise PeerError(f"another peer listens on {path} already")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(temporary))
        listener.listen(4)
        temporary.rename(path)
    except OSError as error:
        listener.close()
        temporary.unlink(missing_ok=True)
        hint = " (the path of a Unix socket has at most 107 bytes)" if len(str(temporary)) > 107 else ""
        raise PeerError(f"cannot listen on {path}: {error.strerror or error}{hint}; "
                        "name a path in a writable directory") from error
    return listener


@contextlib.contextmanager
def listening(path: Path, anyone: bool = False) -> Iterator[socket.socket]:
    """A block with a listening socket at `path`, which is gone after it; raises PeerError as `listen` does.

    With `anyone`, whoever sees the socket may connect, also under another user id.
    """
    before = os.umask(0) if anyone else None
    try:
        listener = listen(path)
    finally:
        if before is not None:
            os.umask(before)
    try:
        yield listener
    finally:
        path.unlink(missing_ok=True)
        listener.close()


class Peer:
    """Serves one client; the others are refused. Owned by the main thread, as the trials that wait are."""

    def __init__(self, listener: socket.socket, interruption: Interruption):
        self._listener = listener
        self._interruption = interruption
        self._waiting: dict[int, TrialProcess] = {}
        self._numbers = itertools.count(1)

    def _refuse(self) -> bool:
        """Tell a client that comes while another is served; never ends what runs."""
        with contextlib.suppress(OSError, Disconnected):
            channel = Channel(self._listener.accept()[0])
            channel.send({"busy": "another benchmark is running"})
            channel.close()
        return False

    def serve(self, idle: float) -> None:
        """Wait for a client and serve it until it has gone or a signal comes."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._interruption, selectors.EVENT_READ)
            if not selector.select(idle) or self._interruption.wanted():
                return
        channel = Channel(self._listener.accept()[0])
        watch = {self._listener.fileno(): self._refuse,
                 self._interruption.fileno(): self._interruption.wanted}
        try:
            channel.send({"hello": PROTOCOL})
            while (request := channel.receive(watch)) is not None:
                # While a trial runs nothing is due from the client: readable means gone.
                answer = self._answer(request, {**watch, channel.fileno(): lambda: True}, channel)
                channel.send(answer)
        except (Disconnected, Stopped):
            pass  # the client has gone or a signal came
        finally:
            for trial in self._waiting.values():
                trial.close()
            channel.close()

    def _turn(self, trial: TrialProcess) -> dict:
        """Let a trial go on; it is kept if it has more turns to come. Raises what TrialProcess.go_on does."""
        with contextlib.ExitStack() as stack:
            stack.callback(trial.close)
            result = trial.go_on()
            if result is not None:
                return {"result": result}
            stack.pop_all()
        number = next(self._numbers)
        self._waiting[number] = trial
        return {"waiting": number}

    def _answer(self, request: dict, watch: dict, channel: Channel) -> dict:
        try:
            if request["op"] == "describe":
                return {"result": environment.describe()}
            if request["op"] in ("trial", "stress"):
                config = request["config"]
                if config not in trials.PYTHON_GIL:
                    return {"error": f"unknown configuration {config!r}"}
            if request["op"] == "stress":
                stress.run(sys.executable, config, request["request"],
                           lambda line: channel.send({"line": line}), watch)
                return {"result": {}}
            if request["op"] == "trial":
                return self._turn(TrialProcess(sys.executable, config, request["request"], watch))
            if request["op"] in ("turn", "end"):
                trial = self._waiting.pop(request["trial"], None)
                if trial is None:
                    return {"error": f"no trial {request['trial']!r} is waiting"}
                if request["op"] == "turn":
                    return self._turn(trial)
                trial.close()
                return {"result": {}}
        except (trials.TrialFailed, OSError) as error:
            return {"error": str(error)}
        except KeyError as error:
            return {"error": f"the request lacks {error}"}
        return {"error": f"unknown request {request['op']!r}"}


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    options = parser().parse_args(arguments)
    try:
        with Interruption() as interruption, listening(options.socket) as listener:
            Peer(listener, interruption).serve(options.idle)
    except PeerError as error:
        print(f"bench.peer: {error}", file=sys.stderr)
        return 1
    # SIGTERM is how `docker stop` and compose end a service: an ordinary end.
    return 0


if __name__ == "__main__":
    sys.exit(main())
