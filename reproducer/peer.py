"""``python -m reproducer.peer``: runs scripts for a `reproducer` in another container, behind its walls.

The container of a peer holds one twin and nothing else: no network, nothing of the host, no script but
the one it is sent, no report to tamper with. What a script does to its own container ends with it.
"""

from __future__ import annotations

import argparse
import base64
import sys
from pathlib import Path, PurePath

from bench import environment
from bench.interruption import Interruption
from bench.peer import Peer, PeerError, listening
from bench.trials import TWIN
from bench.wire import Channel
from reproducer import limits as limits_
from reproducer import tree, twins
from reproducer.run import run

DESCRIPTION = """\
Offer this Python interpreter to `python -m reproducer --twin ft=unix:PATH` elsewhere. Serves one client and
exits with status 0 when it has gone, or when none came within --idle seconds. If the client vanishes, what
runs for it is killed.
"""


def answer(request: dict, watch: dict) -> dict:
    """What the peer says to one request; raises bench.supervise.Stopped if the client has gone."""
    try:
        if request["op"] == "describe":
            return {"result": {**environment.describe(), "reproducer": twins.version()}}
        if request["op"] == "reproduce":
            if request["config"] not in TWIN:
                return {"error": f"unknown configuration {request['config']!r}"}
            done = run(
                sys.executable, request["config"], PurePath(request["name"]).name,
                base64.b64decode(request["source"]), int(request["threads"]), limits_.from_json(request["limits"]),
                watch, force_off=bool(request["force_off"]))
            return {"result": done.as_json()}
    except (KeyError, TypeError, ValueError) as error:
        return {"error": f"not a request of this version: {type(error).__name__}: {error}"}
    return {"error": f"unknown request {request['op']!r}"}


class ReproducerPeer(Peer):
    """Serves one client; the others are refused."""

    def _answer(self, request: dict, watch: dict, channel: Channel) -> dict:
        return answer(request, watch)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m reproducer.peer", description=DESCRIPTION)
    parser.add_argument("--socket", required=True, type=Path, metavar="PATH", help="the Unix socket to listen on")
    parser.add_argument("--idle", type=float, default=120, metavar="SECONDS",
                        help="give up when no client came for so long (default: %(default)s)")
    options = parser.parse_args(arguments)
    # The script runs as the same user; it may kill this process (which its client notices), not steer it.
    tree.become_opaque()
    try:
        # Docker compose may run the client under another user id (`--user`).
        with Interruption() as interruption, listening(options.socket, anyone=True) as listener:
            ReproducerPeer(listener, interruption).serve(options.idle)
    except PeerError as error:
        print(f"reproducer.peer: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
