"""The script under test: its source, the files next to it, and how it is started. A record that can travel."""

from __future__ import annotations

import base64
import os
import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

FILE, MODULE, TESTS = "file", "module", "tests"
"""How a script is started: as `python FILE`, as `python -m MODULE`, or with pytest."""


@dataclass(frozen=True)
class Script:
    """What each run starts, in a fresh copy of its folder."""

    name: str
    """The path of its file in the folder: "bug.py", "package/bug.py"."""
    source: bytes
    path: str = ""
    """The path by which the script was named; empty for standard input."""
    how: str = FILE
    files: tuple[tuple[str, bytes], ...] = ()
    """Path and content of each further file in the folder. The script can read them, and not write to them."""
    arguments: tuple[str, ...] = ()
    stdin: bytes = b""
    left_out: tuple[str, ...] = ()
    """Lines of a notebook that are IPython's and no Python's."""

    @property
    def text(self) -> str:
        return self.source.decode(errors="backslashreplace")

    @property
    def module(self) -> str:
        """The dotted name of its file: "package.bug"."""
        return ".".join(PurePosixPath(self.name).with_suffix("").parts).removesuffix(".__main__")

    @property
    def title(self) -> str:
        """The name in headings: the notebook's or the archive's, if there is one."""
        return PurePosixPath(self.path).name or self.name

    @property
    def argument(self) -> str:
        """The script as a word of a shell's command: the path by which it was named, else its name; never an option."""
        return shell_path(self.path or self.name)

    def as_json(self) -> dict:
        """Return the fields that a run needs."""
        return {
            "name": self.name,
            "source": _encode(self.source),
            "how": self.how,
            "files": [[name, _encode(content)] for name, content in self.files],
            "arguments": list(self.arguments),
            "stdin": _encode(self.stdin),
        }

    @classmethod
    def from_json(cls, values: dict) -> Script:
        """Return the script that `as_json` described; raises KeyError, TypeError or ValueError for anything else."""
        if values["how"] not in (FILE, MODULE, TESTS):
            raise ValueError(f"a script is not started as {values['how']!r}")
        files = tuple((relative(name), base64.b64decode(content)) for name, content in values["files"])
        return cls(
            relative(values["name"]),
            base64.b64decode(values["source"]),
            how=values["how"],
            files=files,
            arguments=tuple(map(str, values["arguments"])),
            stdin=base64.b64decode(values["stdin"]),
        )


def relative(name: str) -> str:
    """Return a path that stays in its folder; raises ValueError for any other."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\\" in name or not name.isprintable():
        raise ValueError(f"{name!r} is no path within a folder")
    return str(path)


def shell_path(path: str) -> str:
    """Return a path as a word of a shell's command, without the user's home, and never an option."""
    home = os.path.join(os.path.expanduser("~"), "")
    if path.startswith(home) and len(home) > 2:  # a report is for others, whom the home does not concern
        return "~/" + shlex.quote(path[len(home) :])
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()
