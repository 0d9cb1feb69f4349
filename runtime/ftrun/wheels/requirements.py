"""Requirements from a command line: names, requirements files, pyproject.toml, lock files and environment.yml."""

from __future__ import annotations

import codecs
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ftrun import overlay
from ftrun.wheels import locks
from ftrun.wheels.index import DEFAULT, address
from ftrun.wheels.package import Package

_LARGEST_FILE = 32 << 20
_FILE = re.compile(r".*[/\\].*|.*\.(txt|in|toml|lock|ya?ml)", re.DOTALL)
_ADDRESS = re.compile(r"[\w+.-]+://.*|git\+.*", re.DOTALL)
_PATH = re.compile(r"\.{0,2}/.*|\.{1,2}|.*\.(whl|zip|tar\.\w+)", re.DOTALL)
_COMMENT = re.compile(r"(^|\s)#.*$")
_OPTIONS = re.compile(r"\s--(hash|config-settings|global-option)[ =].*$")
_HASH = re.compile(r"\s--hash[ =](\w+:[0-9a-fA-F]+)")
_OPTION = re.compile(r"(-r|--requirement|-c|--constraint|-e|--editable)[ =]?\s*(\S.*)")
# As pip: a byte order mark, else a line such as "# -*- coding: latin-1 -*-". Some of Python's encodings are slow.
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_CODING = re.compile(
    rb"^[^\n]*#.*?coding[:=][ \t]*((?:utf|latin|iso|cp|windows|koi8|mac|gb|big5|euc|shift)[-\w.]*)", re.MULTILINE
)
_ELSEWHERE = "only packages of an index can be judged"


class BadRequirements(Exception):
    """Raised if a file cannot be read, or an argument is no requirement. The message names it."""


@dataclass
class Contents:
    """Everything that the arguments name."""

    requirements: dict[tuple[str, str], Requirement] = field(default_factory=dict)
    """Requirements that a resolver may choose versions for, by name and marker; several of a package are one."""
    locked: list[Package] = field(default_factory=list)
    constraints: list[Requirement] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)
    """{line or name: reason why it cannot be judged}."""

    def add(self, text: str, hashes: frozenset[str] = frozenset()) -> None:
        """Add one requirement (PEP 508); raises ``ValueError`` if it is none."""
        requirement = overlay.parse(text)
        if requirement.url:
            self.others[requirement.name] = f"comes from an address; {_ELSEWHERE}"
        elif hashes:
            self.locked.append(Package(requirement, hashes))
        else:
            key = canonicalize_name(requirement.name), str(requirement.marker or "")
            if earlier := self.requirements.get(key):
                requirement.specifier &= earlier.specifier
                requirement.extras |= earlier.extras
            self.requirements[key] = requirement


def read(arguments: list[str]) -> Contents:
    """Return the contents of *arguments*: files, folders (for their pyproject.toml) or ``numpy>=2``.

    A line of a file that is no requirement is kept with the reason. Raises ``BadRequirements`` for an argument that is
    none, and for a file that cannot be read.
    """
    contents = Contents()
    seen: set[Path] = set()

    def include(other: str, extras: list[str] | None = None) -> None:
        _read_file(contents, Path(other), (), seen, extras)

    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            path /= "pyproject.toml"
        if not _ADDRESS.fullmatch(argument) and (path.is_file() or _FILE.fullmatch(argument)):
            _read_file(contents, path, (), seen)
            continue
        try:
            _read_line(contents, argument, Path(), include)
        except ValueError as error:
            hint = "a file must exist, or end with .txt, .toml, .lock or .yml"
            raise BadRequirements(f"{argument[:200]!r} {error}; {hint}") from error
    if not (contents.requirements or contents.locked or contents.others):
        raise BadRequirements(f"{', '.join(arguments)[:200]} names no package")
    return contents


def _read_file(
    contents: Contents, path: Path, within: tuple[Path, ...], seen: set[Path], extras: list[str] | None = None
) -> None:
    """Add the requirements of a file. *within*: the files that include this one; *seen*: those that have been read.

    *extras*: see `_read_toml`.
    """
    if path.resolve() in within:
        raise BadRequirements(f"{path} includes itself")
    if path.resolve() in seen:  # files that include each the next one twice would take forever
        return
    seen.add(path.resolve())
    text = _text(path)
    if path.suffix == ".toml" or (path.suffix == ".lock" and text.lstrip().startswith(("version", "#", "[[package"))):
        try:
            document = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # ValueError: also a number of over 4300 digits
            if path.suffix == ".toml":
                raise BadRequirements(f"{path} is no TOML: {error}") from error
        else:
            _read_toml(contents, document, path, extras)
            return

    def include(other: str, extras: list[str] | None = None) -> None:
        _read_file(contents, path.parent / other, (*within, path.resolve()), seen, extras)

    lines = _of_conda(contents, text) if path.suffix in (".yml", ".yaml") else _logical_lines(text)
    for number, line in enumerate(lines, 1):
        try:
            _read_line(contents, line, path.parent, include)
        except ValueError as error:
            contents.others[f"{path}, requirement {number}: {line.strip()[:200]!r}"] = str(error)


def _text(path: Path) -> str:
    try:
        if not path.is_file():  # a device or a FIFO could block
            raise BadRequirements(f"{path} is no file")
        if path.stat().st_size > _LARGEST_FILE:
            raise BadRequirements(f"{path} is larger than 32 MiB")
        data = path.read_bytes()
    except OSError as error:
        raise BadRequirements(f"{path} cannot be read: {error.strerror}") from error
    for mark, coding in _MARKS.items():
        if data.startswith(mark):
            return data[len(mark) :].decode(coding, "replace")
    if b"\0" in data:
        raise BadRequirements(f"{path} is no text")
    declared = _CODING.search(b"\n".join(data.split(b"\n", 2)[:2]))
    for coding in (*([declared[1].decode()] if declared else []), "utf-8"):
        try:
            return data.decode(coding)
        except (UnicodeError, LookupError):
            continue
    return data.decode("latin-1")  # as comments may be; no name of a package is


def _logical_lines(text: str) -> list[str]:
    return [line for line in re.sub(r"\\\r?\n", " ", text).splitlines() if _COMMENT.sub("", line).strip()]


def _read_line(contents: Contents, line: str, folder: Path, include: Callable[..., None]) -> None:
    """Add the requirement of a line, relative to *folder*; raises ``ValueError`` if the line is none."""
    options = _COMMENT.sub("", line)
    text = _OPTIONS.sub("", options).strip()
    option = _OPTION.fullmatch(text)
    if option and _ADDRESS.fullmatch(option[2]):
        _read_place(contents, option[2], include)
    elif option and option[1] in ("-r", "--requirement"):
        include(option[2])
    elif option and option[1] in ("-c", "--constraint"):
        _read_constraints(contents, folder / option[2])
    elif option:
        _read_place(contents, option[2], include)
    elif text.startswith("-"):
        pass  # no other option names a package of an index
    elif _ADDRESS.fullmatch(text) or _PATH.fullmatch(text.partition("[")[0]):
        _read_place(contents, text, include)
    else:
        contents.add(text, frozenset(value.lower() for value in _HASH.findall(options)))


def _read_constraints(contents: Contents, path: Path) -> None:
    """Add the requirements of a constraints file; a line that is none is kept with the reason."""
    for number, line in enumerate(_logical_lines(_text(path)), 1):
        text = _OPTIONS.sub("", _COMMENT.sub("", line)).strip()
        limits = Contents()
        try:
            limits.add(text)
            contents.constraints += limits.requirements.values()
        except ValueError as error:
            contents.others[f"{path}, constraint {number}: {text[:200]!r}"] = str(error)


def _read_place(contents: Contents, place: str, include: Callable[..., None]) -> None:
    """Add what a folder's pyproject.toml needs; anything else at an address or a path cannot be judged."""
    if not _ADDRESS.fullmatch(place):
        try:
            name, _, extras = place.rstrip("]").partition("[")
            include(f"{name}/pyproject.toml", [extra.strip() for extra in extras.split(",")])
        except BadRequirements:
            contents.others[place] = f"comes from this machine; {_ELSEWHERE}"
    else:
        contents.others[place] = f"comes from {'a repository' if '+' in place else 'an address'}; {_ELSEWHERE}"


def _read_toml(contents: Contents, document: dict, path: Path, extras: list[str] | None) -> None:
    """Add the requirements of a pyproject.toml, with those of its *extras*, or the packages of a lock file.

    If *extras* is None, all extras and dependency groups are added.
    """
    try:
        if "packages" in document or "package" in document:
            locked, reasons = locks.packages(document, (DEFAULT, address()))
            contents.locked += locked
            contents.others |= reasons
            return
        project = document.get("project", {})
        texts = list(project.get("dependencies", ()))
        optional = project.get("optional-dependencies", {})
        if extras is None:
            groups = [*optional.values(), *document.get("dependency-groups", {}).values()]
        else:
            groups = [optional.get(extra, ()) for extra in extras]
        texts += [text for group in groups for text in group if isinstance(text, str)]
        project_name = canonicalize_name(project.get("name", ""))
        for text in texts:
            if canonicalize_name(Requirement(text).name) != project_name:  # as in an extra of all extras
                contents.add(text)
        if "dependencies" in project.get("dynamic", ()):
            contents.others[f"{path}: dependencies"] = "are dynamic: only a build of the project names them"
        if "dependencies" in document.get("tool", {}).get("poetry", {}):
            contents.others[f"{path}: [tool.poetry.dependencies]"] = "is Poetry's own form; judge its poetry.lock"
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise BadRequirements(f"{path} is no pyproject.toml and no lock: {error}") from error
    if not texts and not contents.others:
        raise BadRequirements(
            f"{path} names no dependencies: [project] dependencies, dependency groups or a lock's packages"
        )


def _of_conda(contents: Contents, text: str) -> Iterator[str]:
    """Yield the lines below ``pip:`` in an environment.yml; add conda's packages to those that cannot be judged."""
    inside, pip = False, -1  # the indentation of "- pip:"
    for line in text.splitlines():
        content = _COMMENT.sub("", line).rstrip()
        item = re.fullmatch(r"( *)- +(.+)", content)
        if item and inside:
            name = item[2].strip("'\"")
            if name == "pip:":
                pip = len(item[1])
            elif 0 <= pip < len(item[1]):
                yield name
            elif not re.fullmatch(r"(python|pip)(\s*[=<>!~ ].*)?", name):
                contents.others[name] = f"comes from conda; {_ELSEWHERE}"
        elif content and content[0] not in " -":
            inside, pip = content == "dependencies:", -1
