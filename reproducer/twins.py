"""The twins that run the script: interpreters of this machine, or peers in containers of their own.

Both kinds are owned by the thread of the campaign and watch its interruption while they wait.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import os
from pathlib import Path
from typing import Protocol

from bench import trials
from bench.endpoints import EndpointError, PeerEndpoint
from bench.interruption import Interrupted, Interruption
from bench.supervise import Stopped, TimedOut, supervise
from reproducer import outcome
from reproducer.limits import Limits
from reproducer.outcome import Outcome
from reproducer.run import run
from reproducer.script import Script

# A run's own limit comes first; beyond it, for the dump of stacks, SIGTERM and the clearing up.
MARGIN_SECONDS = 60.0
# Importing what describes an environment takes a second, on a machine that does nothing else.
DESCRIBE_SECONDS = 240.0


class Twin(Protocol):
    """Runs scripts with one interpreter."""

    name: str
    python: str | None
    """The interpreter, if it is one of this machine."""

    def describe(self) -> dict:
        """The environment; raises EndpointError."""

    def reproduce(self, config: str, script: Script, threads: int, limits: Limits, force_off: bool,
                  overlay: str | None = None, below: tuple[str, ...] = ()) -> Outcome:
        """One run's outcome; raises EndpointError or Interrupted."""

    def close(self) -> None:
        """Let the twin go."""


class LocalTwin:
    """Runs as child processes of this one. There are no walls around them."""

    def __init__(self, python: Path, interruption: Interruption):
        if not (python.is_file() and os.access(python, os.X_OK)):
            raise EndpointError(f"{python} is no executable file: name a Python interpreter or unix:/path of a peer")
        self._watch = {interruption.fileno(): interruption.wanted}
        self._interruption = interruption
        self.name = self.python = str(python)

    def describe(self) -> dict:
        try:
            done = supervise(trials.command(self.python, "bench.environment"), b"", trials.child_environment(),
                             self._watch, DESCRIBE_SECONDS)
        except Stopped:
            raise Interrupted(self._interruption.signum) from None
        except (OSError, TimedOut) as error:
            raise EndpointError(f"{self.python} cannot be run: {error}") from error
        if done.returncode:
            raise EndpointError(f"{self.python} cannot describe itself:{trials.last_lines(done.stderr, 4)}")
        return json.loads(done.stdout)

    def reproduce(self, config: str, script: Script, threads: int, limits: Limits, force_off: bool,
                  overlay: str | None = None, below: tuple[str, ...] = ()) -> Outcome:
        try:
            return run(self.python, config, script.name, script.source, threads, limits, self._watch,
                       force_off=force_off, overlay=overlay, below=below)
        except Stopped:
            raise Interrupted(self._interruption.signum) from None

    def close(self) -> None:
        pass


class PeerTwin(PeerEndpoint):
    """Runs of a `reproducer.peer`, asked for over its socket. The script's source is sent along."""

    python = None

    def describe(self) -> dict:
        found = super().describe()
        if found.get("reproducer") != version():
            raise EndpointError(f"{self.name} has another version of reproducer/ than this: build both images again "
                                "(docker compose build)")
        return found

    def reproduce(self, config: str, script: Script, threads: int, limits: Limits, force_off: bool,
                  overlay: str | None = None, below: tuple[str, ...] = ()) -> Outcome:
        request = {
            "op": "reproduce", "config": config, "name": script.name,
            "source": base64.b64encode(script.source).decode(), "threads": threads, "limits": limits.as_json(),
            "force_off": force_off,
        }
        answer = self.exchange(request, limits.timeout + MARGIN_SECONDS)
        if "error" in answer:
            raise EndpointError(f"{self.name}: {answer['error']}")
        return outcome.from_json(answer["result"])


def connect(text: str, interruption: Interruption) -> Twin:
    """The twin that `text` names: unix:PATH or an interpreter; raises EndpointError."""
    if text.startswith("unix:"):
        return PeerTwin(Path(text.removeprefix("unix:")), interruption)
    return LocalTwin(Path(text).absolute(), interruption)


def version() -> str:
    """SHA-256 over this package's source: both sides of a socket must have the same."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def distributions(modules: tuple[str, ...]) -> list[str]:
    """The installed distributions that modules belong to. Both twins have the same, so it is asked here."""
    owners = importlib.metadata.packages_distributions()
    return sorted({name for module in modules for name in owners.get(module, ())}, key=str.lower)
