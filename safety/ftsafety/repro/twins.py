"""The twins that run the script: interpreters of this machine, or servers in containers of their own.

Both kinds are owned by the thread of the campaign and watch its interruption while they wait.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
from pathlib import Path

import ftrun
from ftrun.child_process import Stopped
from ftrun.interruption import Interrupted, Interruption
from ftrun.twin import LocalTwin, RemoteTwin, TwinError
from ftsafety.repro import outcome
from ftsafety.repro.limits import Limits
from ftsafety.repro.outcome import Outcome
from ftsafety.repro.run import run
from ftsafety.repro.script import Script

# A run's own limit comes first; beyond it, for the dump of stacks, SIGTERM and the clearing up.
MARGIN_SECONDS = 60.0


class LocalScripts(LocalTwin):
    """Runs as child processes of this one. There are no walls around them."""

    def reproduce(
        self,
        config: str,
        script: Script,
        threads: int,
        limits: Limits,
        force_off: bool,
        overlay: str | None = None,
        below: tuple[str, ...] = (),
    ) -> Outcome:
        """One run's outcome; raises Interrupted."""
        try:
            return run(
                self.python,
                config,
                script.name,
                script.source,
                threads,
                limits,
                self._watch,
                force_off=force_off,
                overlay=overlay,
                below=below,
            )
        except Stopped:
            raise Interrupted(self._interruption.signum) from None


class RemoteScripts(RemoteTwin):
    """Runs of a `ftsafety.repro.script_server`, asked for over its socket. The script's source is sent along."""

    def describe(self) -> dict:
        found = super().describe()
        if found.get("repro") != version():
            raise TwinError(
                f"{self.name} has another version of ftsafety.repro than this program: build both images again "
                "(docker compose build)"
            )
        return found

    def reproduce(
        self,
        config: str,
        script: Script,
        threads: int,
        limits: Limits,
        force_off: bool,
        overlay: str | None = None,
        below: tuple[str, ...] = (),
    ) -> Outcome:
        """One run's outcome; raises TwinError or Interrupted."""
        request = {
            "op": "reproduce",
            "config": config,
            "name": script.name,
            "source": base64.b64encode(script.source).decode(),
            "threads": threads,
            "limits": limits.as_json(),
            "force_off": force_off,
        }
        if overlay or below:
            raise TwinError(f"{self.name}: behind walls no packages are added and no debugger runs")
        answer = self.ask(request, limits.timeout + MARGIN_SECONDS, outcome.FORM)
        try:
            return outcome.from_json(answer)
        except ValueError as error:
            raise TwinError(f"{self.name}: {error}") from error


Twin = LocalScripts | RemoteScripts
"""Runs scripts with one interpreter."""


def connect(text: str, interruption: Interruption) -> Twin:
    """The twin that `text` names: unix:PATH or an interpreter; raises TwinError."""
    if text.startswith("unix:"):
        return RemoteScripts(Path(text.removeprefix("unix:")), interruption)
    return LocalScripts(Path(text).absolute(), interruption)


def version() -> str:
    """SHA-256 over the source of this package and of ftrun: both sides of a socket must have the same."""
    digest = hashlib.sha256()
    for folder in (Path(__file__).parent, *map(Path, ftrun.__path__)):
        for path in sorted(folder.glob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def distributions(modules: tuple[str, ...]) -> list[str]:
    """The installed distributions that modules belong to. Both twins have the same, so it is asked here."""
    owners = importlib.metadata.packages_distributions()
    return sorted({name for module in modules for name in owners.get(module, ())}, key=str.lower)
