"""The script under test: its source, further files and the way to start it.
Can be converted to and from JSON.
"""

from __future__ import annotations

import base64
import os
import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

FILE, MODULE, TESTS = "file", "module", "tests"
"""How a script is started: as `python FILE`, as `python -m MODULE`, or with pytest."""
LONGEST_PATH, LONGEST_NAME = 1000, 255
"""Largest number of bytes of a path in the folder, and of each part of such a path."""


@dataclass(frozen=True)
class Script:
    """Script under test. Each run starts the script in a new folder with copies of its files."""

    name: str
    """The path of the script in the folder of a run: "bug.py", "package/bug.py"."""
    source: bytes
    path: str = ""
    """The path on the command line; empty for standard input."""
    how: str = FILE
    files: tuple[tuple[str, bytes], ...] = ()
    """Path and content of each further file in the folder. The script can read these files, but not
    write to them.
    """
    arguments: tuple[str, ...] = ()
    stdin: bytes = b""
    left_out: tuple[str, ...] = ()
    """Lines of a notebook that only IPython understands, such as magics."""

    @property
    def text(self) -> str:
        return self.source.decode(errors="backslashreplace")

    @property
    def size(self) -> int:
        """The number of bytes of the script, its files and its standard input."""
        contents = [self.source, self.stdin]
        contents += [content for _, content in self.files]
        return sum(map(len, contents))

    @property
    def module(self) -> str:
        """The dotted name of the script's module: "package.bug"."""
        return ".".join(PurePosixPath(self.name).with_suffix("").parts).removesuffix(".__main__")

    @property
    def title(self) -> str:
        """The name for headings: the name of the given file,
        which may be a notebook or an archive.
        """
        return PurePosixPath(self.path).name or self.name

    @property
    def argument(self) -> str:
        """The script as an argument in a shell command: `path`,
        or `name` for a script from standard input.
        """
        return shell_path(self.path or self.name)

    def as_json(self) -> dict:
        """Return the fields that a run needs, as JSON values."""
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
        """Return the script from the result of `as_json`; raises KeyError,
        TypeError or ValueError if invalid.
        """
        if values["how"] not in (FILE, MODULE, TESTS):
            raise ValueError(f"a script is not started as {values['how']!r}")
        files = []
        for name, content in values["files"]:
            files.append((relative(name), base64.b64decode(content)))
        return cls(
            relative(values["name"]),
            base64.b64decode(values["source"]),
            how=values["how"],
            files=tuple(files),
            arguments=tuple(map(str, values["arguments"])),
            stdin=base64.b64decode(values["stdin"]),
        )


def relative(name: str) -> str:
    """Return the relative path *name*, normalised. ValueError if the path is too long or leads out
    of its folder.
    """
    if len(name) > LONGEST_PATH:
        raise ValueError(f"{name[:100]!r}... is too long for a path")
    path = PurePosixPath(name)
    if not _is_inside(path) or "\\" in name or not name.isprintable():
        raise ValueError(f"{name!r} is no path within a folder")
    longest = max(map(_number_of_bytes, path.parts))
    if _number_of_bytes(name) > LONGEST_PATH or longest > LONGEST_NAME:
        raise ValueError(f"{name[:100]!r}... is too long for a path")
    return str(path)


def _is_inside(path: PurePosixPath) -> bool:
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _number_of_bytes(text: str) -> int:
    return len(text.encode())


def shell_path(path: str) -> str:
    """Return *path* quoted for a shell, with ~ for the home folder. A path like "-x" is not
    mistaken for an option.
    """
    home = os.path.join(os.path.expanduser("~"), "")
    if path.startswith(home) and len(home) > 2:
        # a report is for others, whom the home does not concern
        return "~/" + shlex.quote(path[len(home) :])
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()
