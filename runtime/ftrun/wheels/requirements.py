"""Requirements from a command line: names, requirements files,
pyproject.toml, lock files and environment.yml.
"""

from __future__ import annotations

import codecs
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ftrun import overlay
from ftrun.errors import BadRequirements
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
# As pip: a byte order mark, else a line such as "# -*- coding: latin-1 -*-". Some of Python's
# encodings are slow.
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_CODING = re.compile(
    rb"^[^\n]*#.*?coding[:=][ \t]*((?:utf|latin|iso|cp|windows|koi8|mac|gb|big5|euc|shift)[-\w.]*)",
    re.MULTILINE,
)
_ITEM = re.compile(r"( *)- +(.+)")  # of a list in YAML
_CONDA_PYTHON = re.compile(r"(python|pip)(\s*[=<>!~ ].*)?")
_ELSEWHERE = "only packages of an index can be judged"


@dataclass
class Contents:
    """Everything that the arguments name."""

    requirements: dict[tuple[str, str], Requirement] = field(default_factory=dict)
    """Requirements that a resolver may choose versions for, by name and marker; several of a
    package are one.
    """
    locked: list[Package] = field(default_factory=list)
    constraints: list[Requirement] = field(default_factory=list)
    not_judged: dict[str, str] = field(default_factory=dict)
    """{line or name: reason why it cannot be judged}."""

    def add(self, text: str, hashes: frozenset[str] = frozenset()) -> None:
        """Add one requirement (PEP 508); raises ``ValueError`` if it is none."""
        requirement = overlay.parse(text)
        if requirement.url:
            self.not_judged[requirement.name] = f"comes from an address; {_ELSEWHERE}"
        elif hashes:
            self.locked.append(Package(requirement, hashes))
        else:
            key = canonicalize_name(requirement.name), str(requirement.marker or "")
            if earlier := self.requirements.get(key):
                requirement.specifier &= earlier.specifier
                requirement.extras |= earlier.extras
            self.requirements[key] = requirement


def read(arguments: list[str]) -> Contents:
    """Return the contents of *arguments*: files,
    folders (for their pyproject.toml) or ``numpy>=2``.

    A line of a file that is no requirement is kept with the reason. Raises ``BadRequirements`` for
    an argument that is none, and for a file that cannot be read.
    """
    contents = Contents()
    reader = _RequirementsReader(contents)
    for argument in arguments:
        reader.read_argument(argument)
    if not (contents.requirements or contents.locked or contents.not_judged):
        raise BadRequirements(f"{', '.join(arguments)[:200]} names no package")
    return contents


class _RequirementsReader:
    """Reader of files and lines, which adds to *contents*. Each file is read once.

    The methods raise ``BadRequirements``.
    """

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        # Files that each include the next one twice would take forever if they were read each time.
        self._finished: set[Path] = set()
        self._including: list[Path] = []  # the files that include the one that is being read

    def read_argument(self, argument: str) -> None:
        """Add the requirements of a file or folder, or the requirement that an argument is."""
        path = Path(argument)
        if path.is_dir():
            path /= "pyproject.toml"
        if not _ADDRESS.fullmatch(argument) and (path.is_file() or _FILE.fullmatch(argument)):
            self.read_file(path)
            return
        try:
            self.read_line(argument, Path())
        except ValueError as error:
            hint = "a file must exist, or end with .txt, .toml, .lock or .yml"
            raise BadRequirements(f"{argument[:200]!r} {error}; {hint}") from error

    def read_file(self, path: Path, extras: list[str] | None = None) -> None:
        """Add the requirements of a file. *extras*: see `_read_toml`."""
        resolved = path.resolve()
        if resolved in self._including:
            raise BadRequirements(f"{path} includes itself")
        if resolved in self._finished:
            return
        self._finished.add(resolved)
        text = _text(path)
        document = _toml(path, text)
        if document is not None:
            _read_toml(self._contents, document, path, extras)
            return
        self._including.append(resolved)
        try:
            self._read_lines(path, text)
        finally:
            self._including.pop()

    def _read_lines(self, path: Path, text: str) -> None:
        if path.suffix in (".yml", ".yaml"):
            lines = list(_pip_lines(self._contents, text))
        else:
            lines = _logical_lines(text)
        for number, line in enumerate(lines, 1):
            try:
                self.read_line(line, path.parent)
            except ValueError as error:
                self._contents.not_judged[
                    f"{path}, requirement {number}: {line.strip()[:200]!r}"
                ] = str(error)

    def read_line(self, line: str, folder: Path) -> None:
        """Add the requirement of a line, relative to *folder*;
        raises ``ValueError`` if the line is none.
        """
        options = _COMMENT.sub("", line)
        text = _OPTIONS.sub("", options).strip()
        if option := _OPTION.fullmatch(text):
            self._read_option(option[1], option[2], folder)
        elif text.startswith("-"):
            pass  # no other option names a package of an index
        elif _ADDRESS.fullmatch(text) or _PATH.fullmatch(text.partition("[")[0]):
            self._read_place(text, folder)
        else:
            hashes = frozenset(value.lower() for value in _HASH.findall(options))
            self._contents.add(text, hashes)

    def _read_option(self, name: str, value: str, folder: Path) -> None:
        is_address = _ADDRESS.fullmatch(value)
        if name in ("-r", "--requirement") and not is_address:
            self.read_file(folder / value)
        elif name in ("-c", "--constraint") and not is_address:
            _read_constraints(self._contents, folder / value)
        else:
            self._read_place(value, folder)

    def _read_place(self, place: str, folder: Path) -> None:
        """Add what a folder's pyproject.toml needs;
        anything else at an address or a path cannot be judged.
        """
        if _ADDRESS.fullmatch(place):
            kind = "a repository" if "+" in place else "an address"
            self._contents.not_judged[place] = f"comes from {kind}; {_ELSEWHERE}"
            return
        name, _, rest = place.rstrip("]").partition("[")
        extras = [extra.strip() for extra in rest.split(",")]
        try:
            self.read_file(folder / f"{name}/pyproject.toml", extras)
        except BadRequirements:
            self._contents.not_judged[place] = f"comes from this machine; {_ELSEWHERE}"


def _toml(path: Path, text: str) -> dict | None:
    """Return the content of a TOML file; None if a file
    that is not called .toml holds something else.
    """
    is_named_so = path.suffix == ".toml"
    begins_so = path.suffix == ".lock" and text.lstrip().startswith(("version", "#", "[[package"))
    if not (is_named_so or begins_so):
        return None
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of over 4300 digits
        if is_named_so:
            raise BadRequirements(f"{path} is no TOML: {error}") from error
    return None


def _text(path: Path) -> str:
    data = _data(path)
    for mark, coding in _MARKS.items():
        if data.startswith(mark):
            return data[len(mark) :].decode(coding, "replace")
    if b"\0" in data:
        raise BadRequirements(f"{path} is no text")
    codings = ["utf-8"]
    first_lines = data.split(b"\n", 2)[:2]
    if declaration := _CODING.search(b"\n".join(first_lines)):
        codings.insert(0, declaration[1].decode())
    for coding in codings:
        try:
            return data.decode(coding)
        except (UnicodeError, LookupError):
            continue
    return data.decode("latin-1")  # as comments may be; no name of a package is


def _data(path: Path) -> bytes:
    try:
        if not path.is_file():  # a device or a FIFO could block
            raise BadRequirements(f"{path} is no file")
        if path.stat().st_size > _LARGEST_FILE:
            raise BadRequirements(f"{path} is larger than 32 MiB")
        return path.read_bytes()
    except OSError as error:
        raise BadRequirements(f"{path} cannot be read: {error.strerror}") from error


def _logical_lines(text: str) -> list[str]:
    return [
        line
        for line in re.sub(r"\\\r?\n", " ", text).splitlines()
        if _COMMENT.sub("", line).strip()
    ]


def _read_constraints(contents: Contents, path: Path) -> None:
    """Add the requirements of a constraints file; a line that is none is kept with the reason."""
    for number, line in enumerate(_logical_lines(_text(path)), 1):
        text = _OPTIONS.sub("", _COMMENT.sub("", line)).strip()
        limits = Contents()
        try:
            limits.add(text)
            contents.constraints += limits.requirements.values()
        except ValueError as error:
            contents.not_judged[f"{path}, constraint {number}: {text[:200]!r}"] = str(error)


def _read_toml(contents: Contents, document: dict, path: Path, extras: list[str] | None) -> None:
    """Add the requirements of a pyproject.toml, with those of its *extras*,
    or the packages of a lock file.

    If *extras* is None, all extras and dependency groups are added.
    """
    try:
        if "packages" in document or "package" in document:
            locked, reasons = locks.packages(document, (DEFAULT, address()))
            contents.locked += locked
            contents.not_judged |= reasons
            return
        texts = _dependencies(document, extras)
        _add_dependencies(contents, document, texts)
        contents.not_judged |= _unknown_dependencies(document, path)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise BadRequirements(f"{path} is no pyproject.toml and no lock: {error}") from error
    if not texts and not contents.not_judged:
        raise BadRequirements(
            f"{path} names no dependencies: [project] dependencies, dependency groups or a "
            f"lock's packages"
        )


def _add_dependencies(contents: Contents, document: dict, texts: list[str]) -> None:
    project_name = canonicalize_name(document.get("project", {}).get("name", ""))
    for text in texts:
        if canonicalize_name(Requirement(text).name) != project_name:
            # as in an extra of all extras
            contents.add(text)


def _unknown_dependencies(document: dict, path: Path) -> dict[str, str]:
    reasons = {}
    if "dependencies" in document.get("project", {}).get("dynamic", ()):
        reasons[f"{path}: dependencies"] = "are dynamic: only a build of the project names them"
    if "dependencies" in document.get("tool", {}).get("poetry", {}):
        reasons[f"{path}: [tool.poetry.dependencies]"] = (
            "is Poetry's own form; judge its poetry.lock"
        )
    return reasons


def _dependencies(document: dict, extras: list[str] | None) -> list[str]:
    """Return the requirements of a pyproject.toml. *extras*: see `_read_toml`."""
    project = document.get("project", {})
    optional = project.get("optional-dependencies", {})
    if extras is None:
        groups = list(optional.values())
        groups += document.get("dependency-groups", {}).values()
    else:
        groups = [optional.get(extra, ()) for extra in extras]
    texts = list(project.get("dependencies", ()))
    for group in groups:
        texts += [text for text in group if isinstance(text, str)]  # else it includes another group
    return texts


def _pip_lines(contents: Contents, text: str) -> Iterator[str]:
    """Yield the lines below ``pip:`` in an environment.yml; add conda's packages to those that
    cannot be judged.
    """
    pip_indent = -1
    for indent, name in _conda_dependencies(text):
        if name == "pip:":
            pip_indent = indent
        elif 0 <= pip_indent < indent:
            yield name
        elif not _CONDA_PYTHON.fullmatch(name):
            contents.not_judged[name] = f"comes from conda; {_ELSEWHERE}"


def _conda_dependencies(text: str) -> Iterator[tuple[int, str]]:
    """Yield (indentation, text) of each item in the lists
    of an environment.yml that are called dependencies.
    """
    in_dependencies = False
    for line in text.splitlines():
        content = _COMMENT.sub("", line).rstrip()
        item = _ITEM.fullmatch(content)
        if item and in_dependencies:
            yield len(item[1]), item[2].strip("'\"")
        elif content and content[0] not in " -":
            in_dependencies = content == "dependencies:"
