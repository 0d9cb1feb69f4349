"""The script under test: its name, its source, and the packages that it requires."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from ftrun.inline_metadata import dependencies


@dataclass(frozen=True)
class Script:
    """One file of Python source."""

    name: str
    source: bytes
    dependencies: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.source.decode(errors="backslashreplace")

    @property
    def argument(self) -> str:
        """The name as an argument of a command, which does not look like an option."""
        return f"./{self.name}" if self.name.startswith("-") else self.name


def load(path: str, source: bytes) -> Script:
    """Return the script that was read from `path` ("-" is standard input); raises MetadataError."""
    name = "script.py" if path == "-" else PurePath(path).name
    return Script(name, source, dependencies(source.decode(errors="backslashreplace")))
