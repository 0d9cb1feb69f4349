"""``python -m ftbench.trial.server``: runs trials in this interpreter
for a benchmark in another container.
"""

import itertools
import socket
import sys

from ftbench.trial.endpoints import start
from ftbench.trial.process import Process, TrialFailed
from ftrun import environment, server
from ftrun.configurations import CONFIGURATIONS
from ftrun.interruption import Interruption
from ftrun.supervise import Watch

DESCRIPTION = """\
Offer this Python interpreter as a twin to a benchmark that runs in another container:

    here:   python -m ftbench.trial.server --socket /shared/ft.sock
    there:  python -m ftbench --twin ft=unix:/shared/ft.sock --twin gil=/usr/bin/python3

The socket's directory, the images (FT_BENCH_CACHE or --data) and the measured CPUs have to
be the same in both. Each trial is a fresh process of this interpreter. The server serves one
benchmark, refuses others until then, and exits with status 0 when it has gone or when none
came within --idle seconds. If the benchmark vanishes, its running trial is killed.
"""


class TrialServer(server.Server):
    """Server of trials for one benchmark. Used by the main thread only,
    as are the processes that it starts.
    """

    def __init__(self, listener: socket.socket, interruption: Interruption):
        super().__init__(listener, interruption)
        self._started: dict[int, Process] = {}
        self._numbers = itertools.count(1)

    def _client_gone(self) -> None:
        for process in self._started.values():
            process.close()

    def _answer(self, request: dict, watch: Watch) -> dict:
        try:
            match request:
                case {"op": "describe"}:
                    return {"result": environment.describe()}
                case {"op": "start", "request": {"config": str(config)} as wanted}:
                    if config not in CONFIGURATIONS:
                        raise TrialFailed(f"unknown configuration {config!r}")
                    number = next(self._numbers)
                    self._started[number] = start(sys.executable, wanted, watch)
                    return {"result": number}
                case {"op": "go on", "process": int(number)}:
                    if number not in self._started:
                        raise TrialFailed(f"no trial {number} is waiting")
                    try:
                        return {"result": self._started[number].go_on()}
                    except TrialFailed:  # it may still compute, and disturb other trials
                        self._started.pop(number).close()
                        raise
                case {"op": "end", "process": int(number)}:
                    if process := self._started.pop(number, None):
                        process.close()
                    return {"result": None}
        except TrialFailed as error:
            return {"error": str(error), "hung": error.hung}
        except (OSError, KeyError, TypeError) as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {"error": f"no request of this version: {str(request)[:200]}"}


def main(arguments: list[str] | None = None) -> int:
    """Run the server; return its exit status."""
    return server.run("ftbench.trial.server", DESCRIPTION, TrialServer, arguments)


if __name__ == "__main__":
    sys.exit(main())
