"""Interpreters that run the script: the twins (see ftrun.twin),
here or in containers, or named by --interpreter.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ftrun.environment import source_hash
from ftrun.errors import Interrupted, Stopped, TwinError
from ftrun.interruption import Interruption
from ftrun.twin import DESCRIPTION, LocalTwin, RemoteTwin
from ftsafety.repro import outcome
from ftsafety.repro.outcome import Outcome
from ftsafety.repro.request import Request
from ftsafety.repro.run import run

# Beyond a run's own limit: for the dump of stacks, SIGTERM and the deletion of its files.
MARGIN_SECONDS = 60.0
# The standard library is all that an interpreter of --interpreter needs to have.
DESCRIBE = (
    "import json; from ftrun import environment; print(json.dumps({'interpreter': "
    "environment.interpreter(), 'packages': environment.packages()}))"
)
DESCRIBE_SECONDS = 60.0


class LocalScripts(LocalTwin):
    """Twin whose runs are child processes of this process, without a container around them."""

    overlay: str | None = None
    """A folder of packages that Python finds before the interpreter's own packages."""
    config: str | None = None
    """The only configuration that this interpreter can run;
    None for a twin, which can run several.
    """

    def reproduce(self, request: Request) -> Outcome:
        """Run a script once; raises Interrupted."""
        try:
            return run(self.python, request, self._watch, overlay=self.overlay)
        except Stopped:
            raise Interrupted(self._interruption.signum) from None


class NamedInterpreter(LocalScripts):
    """Interpreter named by --interpreter, such as a debug build or another version.
    May lack the twins' packages.
    """

    def describe(self) -> dict:
        """Return the interpreter's version, build and packages; raises TwinError."""
        form = {name: DESCRIPTION[name] for name in ("interpreter", "packages")}
        line = [self.name, "-P", "-c", DESCRIBE]
        description = self._answer(
            line, form, DESCRIBE_SECONDS, "is no Python of version 3.11 or newer:"
        )
        self.config = description["interpreter"]["twin"]
        return description


def label(description: dict, names: Collection[str]) -> str:
    """Return a name, not in *names*, for an interpreter: its version, "t" if free-threaded, "d" for
    a debug build.
    """
    python = description["interpreter"]
    name = python["version"]
    if python["twin"] == "ft":
        name += "t"
    if "--with-pydebug" in python["config_args"]:
        name += "d"
    result = name
    number = 1
    while result in names:
        number += 1
        result = f"{name}-{number}"
    return result


class RemoteScripts(RemoteTwin):
    """Twin in another container, reached through `ftsafety.repro.script_server`. Each request
    contains the script.
    """

    config = None

    def describe(self) -> dict:
        """Return the twin's environment; raises TwinError, also if the server runs another version
        of this project.
        """
        description = super().describe()
        if description["source"] != source_hash():
            raise TwinError(
                f"{self.name} has other sources than this program: build both images again "
                f"(docker compose build)"
            )
        return description

    def reproduce(self, request: Request) -> Outcome:
        """Run a script once; raises TwinError or Interrupted."""
        message = {"op": "reproduce", **request.as_json()}
        answer = self.ask(message, request.limits.timeout + MARGIN_SECONDS, outcome.FORM)
        try:
            return outcome.from_json(answer)
        except ValueError as error:
            raise TwinError(f"{self.name}: {error}") from error


Twin = LocalScripts | RemoteScripts
"""A twin that runs scripts."""


def connect(text: str, interruption: Interruption) -> Twin:
    """Return the twin at `text`: a server (unix:PATH)
    or a Python interpreter (its path); raises TwinError.
    """
    if text.startswith("unix:"):
        return RemoteScripts(Path(text.removeprefix("unix:")), interruption)
    return LocalScripts(Path(text).absolute(), interruption)
