"""Requirements that a Python file names in its comments:
inline metadata (https://peps.python.org/pep-0723/).
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterator

from ftrun.errors import MetadataError

BEGIN, SCRIPT, END = re.compile(r"# /// [a-zA-Z0-9-]+"), "# /// script", "# ///"
# tomllib needs half a minute for a key of 30,000 parts, and half a second for one of this length.
LONGEST = 8 * 1024


def dependencies(text: str) -> tuple[str, ...]:
    """Return the requirements in the inline metadata of a script's source;
    raises MetadataError if malformed.
    """
    requirements = _read(text).get("dependencies", [])
    if not isinstance(requirements, list) or not all(
        isinstance(entry, str) for entry in requirements
    ):
        raise MetadataError("the inline metadata: dependencies must be a list of strings")
    return tuple(requirements)


def requires_python(text: str) -> str:
    """Return the Python versions that inline metadata allows,
    such as ">=3.13"; "" for all. Raises MetadataError.
    """
    versions = _read(text).get("requires-python", "")
    if not isinstance(versions, str):
        raise MetadataError("the inline metadata: requires-python must be a string")
    return versions


def _read(text: str) -> dict:
    lines = [line.rstrip("\r") for line in text.split("\n")]
    blocks = list(_blocks(lines))
    if len(blocks) > 1:
        raise MetadataError(
            "there is more than one block of inline metadata (# /// script); PEP 723 allows one"
        )
    if not blocks:
        return {}
    return _parse("".join(f"{line[2:]}\n" for line in blocks[0]))


def _parse(content: str) -> dict:
    if len(content) > LONGEST:
        raise MetadataError(f"the inline metadata has more than {LONGEST // 1024} KiB")
    try:
        return tomllib.loads(content)
    # ValueError: TOMLDecodeError, and a number of more than 4,300 digits.
    except (ValueError, RecursionError) as error:
        raise MetadataError(f"the inline metadata is no TOML: {error}") from error


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Yield the lines between the markers of each "script" block; raises MetadataError if a block
    has no end.
    """
    for _, comment in itertools.groupby(lines, _is_comment):
        block = list(itertools.dropwhile(lambda line: not BEGIN.fullmatch(line), comment))
        end = _last_index(block, END)
        if end and block[0] == SCRIPT:
            yield block[1:end]
        elif not end and SCRIPT in block:
            open_ended = (
                "is never closed by a line '# ///', or has lines that do not begin with '# '"
            )
            raise MetadataError(f"the inline metadata ({SCRIPT}) {open_ended}")


def _is_comment(line: str) -> bool:
    return line == "#" or line.startswith("# ")


def _last_index(lines: list[str], text: str) -> int:
    """Return the index of the last line that is *text*; 0 if there is none."""
    for index in range(len(lines) - 1, -1, -1):
        if lines[index] == text:
            return index
    return 0
