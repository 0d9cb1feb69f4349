"""``python -m ftbench.trial.server``: offers this interpreter's trials to a benchmark elsewhere."""

import contextlib
import itertools
import socket
import sys

from ftbench.trial import stress
from ftbench.trial.process import TrialFailed, TrialProcess
from ftbench.trial.request import Request
from ftrun import environment, server
from ftrun.configurations import CONFIGURATIONS
from ftrun.interruption import Interruption
from ftrun.protocol import Channel
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
    """Server of trials for one benchmark. The main thread owns it, and the trials that wait for their next turn."""

    def __init__(self, listener: socket.socket, interruption: Interruption):
        super().__init__(listener, interruption)
        self._waiting: dict[int, TrialProcess] = {}
        self._numbers = itertools.count(1)

    def _client_gone(self) -> None:
        for trial in self._waiting.values():
            trial.close()

    def _turn(self, number: int, trial: TrialProcess) -> dict:
        """Resume a trial, and keep it if it has turns left. Raises what TrialProcess.go_on does."""
        with contextlib.ExitStack() as stack:
            stack.callback(trial.close)
            result = trial.go_on()
            if result is not None:
                return {"result": result}
            stack.pop_all()
        self._waiting[number] = trial
        return {"waiting": number}

    def _answer(self, request: dict, watch: Watch, channel: Channel) -> dict:
        try:
            if request["op"] == "describe":
                return {"result": environment.describe()}
            if request["op"] == "stress":
                config = _known(request["config"])
                stress.run(sys.executable, config, request["request"], lambda line: channel.send({"line": line}), watch)
                return {"result": {}}
            if request["op"] == "trial":
                wanted = Request(**request["request"])
                _known(wanted.config)
                number = next(self._numbers)
                self._waiting[number] = TrialProcess(sys.executable, wanted, watch)
                return {"waiting": number}
            if request["op"] in ("turn", "end"):
                trial = self._waiting.pop(request["trial"], None)
                if trial is None:
                    return {"error": f"no trial {request['trial']!r} is waiting"}
                if request["op"] == "turn":
                    return self._turn(request["trial"], trial)
                trial.close()
                return {"result": {}}
        except TrialFailed as error:
            return {"error": str(error), "hung": error.hung}
        except OSError as error:
            return {"error": str(error)}
        except KeyError as error:
            return {"error": f"the request lacks {error}"}
        except TypeError as error:
            return {"error": f"no request of this version: {error}"}
        return {"error": f"unknown request {request['op']!r}"}


def _known(config: str) -> str:
    """Return the configuration; raises TrialFailed if there is none of this name."""
    if config not in CONFIGURATIONS:
        raise TrialFailed(f"unknown configuration {config!r}")
    return config


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    return server.run("ftbench.trial.server", DESCRIPTION, TrialServer, arguments)


if __name__ == "__main__":
    sys.exit(main())
