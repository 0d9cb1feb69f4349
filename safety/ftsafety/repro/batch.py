"""``python -m ftsafety.repro --batch``: some rounds of a campaign, run on a worker of a cluster.

Standard input has one line of JSON, a request of ftsafety.repro.cluster. Standard output gets lines of JSON: first a
description of this node, then each outcome, then a message about the end. The end of standard input means that the
worker has gone, so the batch ends too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import select
import signal
import sys
import tempfile
import time
from pathlib import Path

from ftrun.environment import source_hash
from ftrun.errors import Interrupted, TwinError
from ftrun.interruption import Interruption
from ftrun.options import endpoint
from ftsafety.repro.campaign import Campaign, Runs
from ftsafety.repro.outcome import Outcome
from ftsafety.repro.packages import Packages, add
from ftsafety.repro.request import Limits
from ftsafety.repro.script import Script
from ftsafety.repro.twins import connect

MOST_BYTES = 32 * 1024 * 1024
"""A batch ends after the round in which its outcomes exceed this size."""


class Leash(Interruption):
    """Interruption by a signal or by the end of standard input.

    Standard input may hold nothing but the request: further input counts as the end.
    """

    def __enter__(self) -> Leash:
        super().__enter__()
        self._either = select.epoll()
        self._either.register(self._reader, select.EPOLLIN)
        self._either.register(0, select.EPOLLIN)
        return self

    def __exit__(self, *error: object) -> None:
        self._either.close()
        super().__exit__(*error)

    def fileno(self) -> int:
        """Return a descriptor that becomes readable once a signal has arrived or standard input has ended."""
        return self._either.fileno()

    def wanted(self) -> bool:
        """True if a signal has arrived or standard input has ended."""
        if not self.signum and self._either.poll(0):
            self.signum = signal.SIGHUP
        return bool(self.signum)


def main(arguments: list[str]) -> int:
    """Run the batch that the request on standard input describes; return the exit status."""
    parser = argparse.ArgumentParser(prog="repro --batch", allow_abbrev=False)
    parser.add_argument("--batch", action="store_true")
    parser.add_argument("--twin", action="append", type=endpoint, required=True)
    parser.add_argument("--cache", type=Path)
    given = parser.parse_args(arguments)
    request = json.loads(_line())
    with Leash() as leash, contextlib.ExitStack() as stack:
        try:
            return Batch(request, given, leash, stack).run()
        except Interrupted as error:
            return error.exit_status
        except TwinError as error:
            print(f"repro: {error}", file=sys.stderr)
            return 1


def _line() -> bytes:
    """Return the first line of standard input, and read nothing after it."""
    line = bytearray()
    while not line.endswith(b"\n") and (data := os.read(0, 1 << 16)):
        line += data
    return bytes(line)


class Batch:
    """Rounds of runs that one request asks for. Owned by one thread."""

    def __init__(self, request: dict, given, leash: Leash, stack: contextlib.ExitStack):
        self._request, self._given, self._leash, self._stack = request, given, leash, stack
        self._written = 0

    def run(self) -> int:
        """Make the rounds and print the outcomes; return the exit status. Raises TwinError or Interrupted."""
        end = time.monotonic() + self._request["seconds"]
        source = source_hash()
        if source != self._request["source"]:
            self._write({"source": source})
            return 0
        twins = {}
        for name, where in self._given.twin:
            if name in self._request["twins"]:
                twins[name] = connect(where, self._leash)
                self._stack.callback(twins[name].close)
        described = {name: twin.describe() for name, twin in twins.items()}
        packages = self._packages(twins, described)
        about = {"added": packages.added, "missing": packages.missing, "remarks": packages.remarks}
        self._write({"source": source, "twins": described, **about})
        script = Script.from_json(self._request["script"])
        limits = Limits(**self._request["limits"])
        campaign = Campaign(script, twins, limits, self._outcome, math.inf, packages.missing)
        campaign.forced_off |= set(self._request["forced"])

        def enough(_: dict[str, Runs]) -> bool:
            return time.monotonic() >= end or self._written > MOST_BYTES

        found = campaign.run(self._request["configs"], self._request["rounds"], self._request["threads"], enough=enough)
        self._leash.check()
        self._write({"end": {config: runs.missing for config, runs in found.items() if runs.missing}})
        return 0

    def _packages(self, twins: dict, described: dict) -> Packages:
        work = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ft-repro-packages-")))
        installed = {name: each["packages"] for name, each in described.items()}
        wanted = self._request["packages"]
        return add(wanted, twins, installed, work.resolve(), self._given.cache, self._leash, lambda _: None)

    def _outcome(self, _title: str, _done: int, _of: int, config: str, outcome: Outcome | None) -> None:
        if outcome is not None:
            self._write({"config": config, "outcome": outcome.as_json()})

    def _write(self, message: dict) -> None:
        line = json.dumps(message) + "\n"
        self._written += len(line)
        sys.stdout.write(line)
        sys.stdout.flush()
