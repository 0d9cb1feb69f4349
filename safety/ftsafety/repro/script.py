"""The script under test: its name, its source, the packages that it says it needs (PEP 723)."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import PurePath

# As in PEP 723's reference implementation: a block of comment lines between two marks.
BLOCK = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")


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
    blocks = [match for match in BLOCK.finditer(text) if match["type"] == "script"]
    if len(blocks) > 1:
        raise ScriptError("the script has more than one block of inline metadata (# /// script); PEP 723 allows one")
    if not blocks:
        if re.search(r"(?m)^# /// script\s*$", text):
            raise ScriptError(
                "the script's inline metadata (# /// script) is never closed by a line '# ///', or has "
                "lines that do not begin with '# '"
            )
        return ()
    content = "".join(
        line[2:] if line.startswith("# ") else line[1:] for line in blocks[0]["content"].splitlines(keepends=True)
    )
    try:
        found = tomllib.loads(content).get("dependencies", [])
    except tomllib.TOMLDecodeError as error:
        raise ScriptError(f"the script's inline metadata is no TOML: {error}") from error
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ScriptError("the script's inline metadata: dependencies must be a list of strings")
    return tuple(found)
