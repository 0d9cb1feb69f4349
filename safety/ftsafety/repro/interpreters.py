"""Further interpreters (--interpreter), such as another series or a debug build. Each is a row in the report."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ftrun.interruption import Interruption
from ftrun.twin import DESCRIPTION
from ftsafety.repro.twins import LocalScripts

# The standard library is all that such an interpreter needs to have.
DESCRIBE = (
    "import json; from ftrun import environment; "
    "print(json.dumps({'interpreter': environment.interpreter(), 'packages': environment.packages()}))"
)
SECONDS = 60.0


class Interpreter(LocalScripts):
    """Interpreter of --interpreter. Unlike a twin, it need not have the locked packages."""

    def describe(self) -> dict:
        """Return the interpreter's version, build and packages; raises TwinError."""
        form = {name: DESCRIPTION[name] for name in ("interpreter", "packages")}
        line = [self.name, "-P", "-c", DESCRIBE]
        found = self._described(line, form, SECONDS, "is no Python of version 3.11 or newer:")
        self.config = found["interpreter"]["twin"]
        return found


def connect(path: str, interruption: Interruption) -> Interpreter:
    """Return the interpreter at a path; raises TwinError."""
    return Interpreter(Path(path).absolute(), interruption)


def label(description: dict, taken: Collection[str]) -> str:
    """Return a name that is not in *taken*: the version, "t" if free-threaded, "d" for a debug build."""
    python = description["interpreter"]
    free = "t" if python["twin"] == "ft" else ""
    name = python["version"] + free + ("d" if "--with-pydebug" in python["config_args"] else "")
    return next(each for each in (name, *(f"{name}-{n}" for n in range(2, 100))) if each not in taken)
