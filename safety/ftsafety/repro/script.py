"""The script under test: its name, its source, the packages that it says it needs (PEP 723)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

BEGIN, END = re.compile(r"# /// ([a-zA-Z0-9-]+)"), "# ///"
LONGEST_METADATA = 64 * 1024


class ScriptError(Exception):
    """The script cannot be used; the message says why."""


@dataclass(frozen=True)
class Script:
    """One file of Python source."""

    name: str
    source: bytes
    dependencies: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.source.decode(errors="backslashreplace")


def load(path: str, source: bytes) -> Script:
    """The script that was read from `path` ("-" is standard input); raises ScriptError."""
    name = "script.py" if path == "-" else PurePath(path).name
    return Script(name, source, dependencies(source.decode(errors="backslashreplace")))


def dependencies(text: str) -> tuple[str, ...]:
    """The requirements in the script's inline metadata; raises ScriptError if it is malformed.

    https://peps.python.org/pep-0723/
    """
    blocks = list(_blocks([line.rstrip("\r") for line in text.split("\n")]))
    if len(blocks) > 1:
        raise ScriptError("the script has more than one block of inline metadata (# /// script); PEP 723 allows one")
    if not blocks:
        return ()
    content = "".join(f"{line[2:]}\n" for line in blocks[0])
    if len(content) > LONGEST_METADATA:
        raise ScriptError(f"the script's inline metadata has more than {LONGEST_METADATA // 1024} KiB")
    try:
        found = tomllib.loads(content).get("dependencies", [])
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ScriptError(f"the script's inline metadata is no TOML: {error}") from error
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ScriptError("the script's inline metadata: dependencies must be a list of strings")
    return tuple(found)


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """The lines of each block of the type "script", without its marks; raises ScriptError for one without an end.

    A block is comment lines from "# /// TYPE" to the last "# ///" among those that follow.
    """
    position = 0
    while position < len(lines):
        begin = BEGIN.fullmatch(lines[position])
        position += 1
        if not begin:
            continue
        first = position
        while position < len(lines) and (lines[position] == "#" or lines[position].startswith("# ")):
            position += 1
        end = next((number for number in range(position - 1, first - 1, -1) if lines[number] == END), None)
        if end is not None and begin[1] == "script":
            yield lines[first:end]
        elif end is None and "# /// script" in lines[first - 1 : position]:
            raise ScriptError(
                "the script's inline metadata (# /// script) is never closed by a line '# ///', or has "
                "lines that do not begin with '# '"
            )
