"""``python -m ftsafety.repro --task``: a whole campaign, made on a worker of a cluster.

Standard input has one line of JSON, a request of ftsafety.repro.cluster. Standard output gets the
outcomes, as one JSON object. The end of standard input means that they are not wanted any more, or
that the worker has gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading

from ftrun.environment import source_hash
from ftrun.errors import Interrupted, TwinError
from ftrun.interruption import Interruption
from ftsafety.repro.arguments import PROGRAM, parse
from ftsafety.repro.campaign import Runs
from ftsafety.repro.cli import Reproduction
from ftsafety.repro.progress import ProgressPrinter
from ftsafety.repro.script import Script


def main(arguments: list[str]) -> int:
    """Make the runs that the request on standard input describes; return the exit status."""
    request = json.loads(sys.stdin.buffer.readline())
    answer: dict = {"source": source_hash()}
    with Interruption() as interruption:
        threading.Thread(target=_interrupt_at_end, daemon=True).start()
        try:
            if answer["source"] == request["source"]:
                words = [word for word in arguments if word != "--task"]
                answer |= _runs_of(request, words, interruption)
            interruption.check()
        except Interrupted as error:
            return error.exit_status
        except TwinError as error:
            print(f"{PROGRAM}: {error}", file=sys.stderr)
            return 1
    print(json.dumps(answer))
    return 0


def _runs_of(request: dict, arguments: list[str], interruption: Interruption) -> dict:
    """Make the runs; return them with the twins and packages, as JSON values."""
    script = Script.from_json(request["script"])
    options = parse([*arguments, *request["options"]], script=script)
    with contextlib.ExitStack() as stack:
        nowhere = stack.enter_context(open(os.devnull, "w"))
        reproduction = Reproduction(options, interruption, ProgressPrinter(nowhere), stack)
        campaign = reproduction.campaign()
        runs = campaign.run(options.configs, request["rounds"], options.threads)
        return {
            "twins": reproduction.descriptions,
            **vars(reproduction.packages),
            "runs": {config: _as_json(config_runs) for config, config_runs in runs.items()},
        }


def _interrupt_at_end() -> None:
    """Interrupt this process at the end of its standard input."""
    os.read(0, 1)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def _as_json(runs: Runs) -> dict:
    outcomes = [outcome.as_json() for outcome in runs.outcomes]
    return {"missing": runs.missing, "outcomes": outcomes}
