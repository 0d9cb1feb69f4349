"""Requirements from a command line: names, requirements files, pyproject.toml, and lock files."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

_LARGEST_FILE = 32 << 20
_FILE = re.compile(r".*[/\\].*|.*\.(txt|in|toml|lock)", re.DOTALL)
_COMMENT = re.compile(r"(^|\s)#.*$")
_OPTIONS = re.compile(r"\s--(hash|config-settings|global-option)[ =].*$")
_HASH = re.compile(r"\s--hash[ =](\w+:[0-9a-fA-F]+)")


class BadRequirements(Exception):
    """Raised if a file cannot be read, or a line or argument is no requirement. The message names it."""


def read(arguments: list[str]) -> dict[Requirement, frozenset[str]]:
    """Return {requirement: hashes} for *arguments*: files, folders (for their pyproject.toml) or ``numpy>=2``.

    The hashes, such as ``sha256:00ff``, are those of the wheels that a lock file allows; empty if any wheel will do.
    Raises ``BadRequirements``.
    """
    found: dict[str, tuple[Requirement, frozenset[str]]] = {}
    seen: set[Path] = set()
    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            path /= "pyproject.toml"
        texts = _of_file(path, (), seen) if path.is_file() or _FILE.fullmatch(argument) else iter([("", argument, "")])
        for place, text, options in texts:
            try:
                requirement = Requirement(text)
            except (InvalidRequirement, RecursionError) as error:
                hint = "" if place else "; a file must exist, or end with .txt, .toml or .lock"
                raise BadRequirements(f"{place}{text[:200]!r} is no requirement (PEP 508){hint}") from error
            hashes = frozenset(each.lower() for each in _HASH.findall(options))
            found.setdefault(str(requirement), (requirement, hashes))
    return dict(found.values())


def _of_file(path: Path, within: tuple[Path, ...], seen: set[Path]) -> Iterator[tuple[str, str, str]]:
    """Yield each requirement in a file: (its place in the file, for error messages; the requirement; its options).

    *within* are the files that include this one; *seen* are the files that have been read.
    """
    if path.resolve() in within:
        raise BadRequirements(f"{path} includes itself")
    if path.resolve() in seen:  # files that include each the next one twice would take forever
        return
    seen.add(path.resolve())
    try:
        if not path.is_file():  # a device or a FIFO could block
            raise BadRequirements(f"{path} is no file")
        if path.stat().st_size > _LARGEST_FILE:
            raise BadRequirements(f"{path} is larger than 32 MiB")
        text = path.read_text()
    except OSError as error:
        raise BadRequirements(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadRequirements(f"{path} is no UTF-8 text") from error
    if path.suffix == ".toml" or (path.suffix == ".lock" and text.lstrip().startswith(("version", "#", "[[package"))):
        try:
            document = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # ValueError: also a number of over 4300 digits
            if path.suffix == ".toml":
                raise BadRequirements(f"{path} is no TOML: {error}") from error
        else:
            yield from ((f"{path}: ", each, "") for each in _of_toml(document, path))
            return
    for number, line in enumerate(re.sub(r"\\\r?\n", " ", text).splitlines(), 1):
        options = _COMMENT.sub("", line)
        line = _OPTIONS.sub("", options).strip()
        include = re.fullmatch(r"(?:-r|--requirement)[ =]?\s*(\S+)", line)
        if include:
            yield from _of_file(path.parent / include[1], (*within, path.resolve()), seen)
        elif line and not line.startswith("-"):  # other options do not name packages of an index
            yield f"{path}, requirement {number}: ", line, options


def _of_toml(document: dict, path: Path) -> list[str]:
    """Return the requirements in a pyproject.toml, with those of its groups, or the packages in a TOML lock file."""
    try:
        packages = document.get("packages", document.get("package"))
        if packages is not None:
            return [
                f"{each['name']}=={each['version']}"
                for each in packages
                if "version" in each and not {"editable", "virtual", "directory"} & set(each.get("source", ()))
            ]
        project = document.get("project", {})
        texts = list(project.get("dependencies", ()))
        for group in (
            *project.get("optional-dependencies", {}).values(),
            *document.get("dependency-groups", {}).values(),
        ):
            texts += [each for each in group if isinstance(each, str)]
        if not all(isinstance(each, str) for each in texts):
            raise TypeError("dependencies must be strings")
    except (TypeError, KeyError, AttributeError) as error:
        raise BadRequirements(f"{path} is no pyproject.toml and no lock: {error}") from error
    if not texts:
        raise BadRequirements(
            f"{path} names no dependencies: [project] dependencies, dependency groups or a lock's packages"
        )
    return texts
