"""``python -m ftsafety.repro.script_server``: run scripts for a `repro` in another container.

The container has one twin, but no network, no files of the host, no other scripts and no report.
With --user, the script runs under a user id of its own, so that it cannot signal, trace or read the
server. All files and processes of a run are then removed before the next run.
"""

from __future__ import annotations

import argparse
import functools
import sys

from ftrun import environment, server
from ftrun.loop import Watch
from ftsafety.repro.request import Request
from ftsafety.repro.run import run

DESCRIPTION = """\
Offer this Python interpreter to `python -m ftsafety.repro --twin ft=unix:PATH` elsewhere. Serves one client and exits
with status 0 when it has gone, or when none came within --idle seconds. If the client vanishes, its run is killed.
--user UID runs the scripts under another user id; this needs the capabilities SETUID, SETGID and KILL, and a container
in which nothing else runs under it.
"""


def answer(request: dict, watch: Watch, user: int | None = None) -> dict:
    """Return the answer to one request; raises ftrun.errors.Stopped
    if a callback of *watch* returns True.
    """
    try:
        if request["op"] == "describe":
            return {"result": environment.describe()}
        if request["op"] == "reproduce":
            return {
                "result": run(sys.executable, Request.from_json(request), watch, user).as_json()
            }
    except (KeyError, TypeError, ValueError) as error:
        return {"error": f"not a request of this version: {type(error).__name__}: {error}"}
    except OSError as error:
        return {"error": f"the run could not be made: {error}"}
    return {"error": f"unknown request {request['op']!r}"}


class ScriptServer(server.Server):
    """Server that runs scripts for one client at a time. Other clients are refused."""

    def __init__(self, *arguments, user: int | None):
        super().__init__(*arguments)
        self._user = user

    def _answer(self, request: dict, watch: Watch) -> dict:
        return answer(request, watch, self._user)


def main(arguments: list[str] | None = None) -> int:
    """Run the server until its client has gone; return the exit status."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--user", type=int)
    options, rest = parser.parse_known_args(arguments)
    make = functools.partial(ScriptServer, user=options.user)
    # Docker compose may run the client under another user id (`--user`).
    # Access is by the folder of the socket.
    return server.run("ftsafety.repro.script_server", DESCRIPTION, make, rest, anyone=True)


if __name__ == "__main__":
    sys.exit(main())
