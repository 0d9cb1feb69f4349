"""Versions that an installer would take of the required packages,
and of all packages that these need.

uv chooses them, without a download of whole wheels and without running anybody's code: the
dependencies of a package that has no wheel stay unknown. uv's "universal" resolution takes a
package whether or not there is a wheel for the free-threaded build, as installers do that can build
it.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ftrun import overlay
from ftrun.errors import OverlayError
from ftrun.interruption import Interruption
from ftrun.wheels.package import Package

_LINE = re.compile(r"(?P<requirement>[^#\s][^#]*?)\s+# via (?P<needed_by>.+)")
_WITHOUT_WHEEL = re.compile(r"Wheels are required for `([^`]+)`")
_MOST_WITHOUT_WHEEL = 20


class Tree(NamedTuple):
    """Packages that would be installed."""

    packages: list[Package]
    error: str = ""
    """Reason why there are only the requirements themselves,
    without what they need; empty if there is none.
    """
    without_wheel: tuple[str, ...] = ()
    """Names of packages that have no wheel, so that what they need is not known."""


def resolve(
    requirements: Sequence[Requirement],
    constraints: Iterable[Requirement],
    lowest: str,
    cache: Path,
    interruption: Interruption,
) -> Tree:
    """Return the packages that *requirements* bring, for CPython *lowest*,
    such as 3.13, and each later one.

    Packages that are for some of these interpreters alone have markers. If there is no solution,
    the packages are the requirements. *cache* is the folder for uv and its cache. Raises
    ``Interrupted``.
    """
    by_name = {canonicalize_name(requirement.name): requirement for requirement in requirements}
    with tempfile.TemporaryDirectory(prefix="ft-tree-") as folder:
        resolution = _Resolution(Path(folder), requirements, constraints, lowest)
        try:
            lines = resolution.run(cache, interruption)
        except OverlayError as error:
            return Tree([Package(requirement) for requirement in requirements], str(error))
    packages = []
    for line in lines:
        if match := _LINE.fullmatch(line):
            packages.append(_package(match, by_name))
    for name in resolution.without_wheel:
        if name in by_name:
            packages.append(Package(by_name[name]))
        else:
            packages.append(Package(Requirement(name), needed_by=("another package",)))
    names = {canonicalize_name(package.requirement.name) for package in packages}
    for name in sorted(by_name.keys() - names):
        packages.append(Package(by_name[name]))  # its marker excludes it
    packages.sort(key=lambda package: bool(package.needed_by))
    return Tree(packages, without_wheel=tuple(resolution.without_wheel))


class _Resolution:
    """Run of uv's resolver, which is repeated without the packages that have no wheel."""

    def __init__(
        self,
        folder: Path,
        requirements: Iterable[Requirement],
        constraints: Iterable[Requirement],
        lowest: str,
    ) -> None:
        self.without_wheel: list[str] = []
        """Names of the packages that were left out."""
        self._left_out = folder / "left-out.txt"
        requirements_file, constraints_file = folder / "requirements.in", folder / "constraints.txt"
        _write(requirements_file, requirements)
        _write(constraints_file, constraints)
        self._arguments = ["pip", "compile", "--quiet", "--universal", "--no-build", "--no-header"]
        self._arguments += [
            "--annotation-style",
            "line",
            "--python",
            sys.executable,
            "--python-version",
            lowest,
        ]
        self._arguments += [
            "--constraints",
            str(constraints_file),
            "--overrides",
            str(self._left_out),
        ]
        self._arguments.append(str(requirements_file))

    def run(self, cache: Path, interruption: Interruption) -> list[str]:
        """Return the lines that uv writes. Raises ``OverlayError`` or ``Interrupted``."""
        command = [overlay.find_uv(cache, interruption), *self._arguments]
        while True:
            _write(self._left_out, [f"{name}; python_version < '3'" for name in self.without_wheel])
            done = overlay.run(command, cache, interruption)
            if not done.returncode:
                return done.stdout.decode().splitlines()
            message = overlay.last_words(done)
            names = set(_WITHOUT_WHEEL.findall(message)) - set(self.without_wheel)
            if not names or len(self.without_wheel) > _MOST_WITHOUT_WHEEL:
                raise OverlayError(message)
            self.without_wheel += sorted(names)


def _write(path: Path, lines: Iterable[object]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


def _package(line: re.Match, by_name: Mapping[str, Requirement]) -> Package:
    requirement = Requirement(line["requirement"])
    if named := by_name.get(canonicalize_name(requirement.name)):
        return Package(requirement, accepted=named.specifier)
    # nor a constraints file
    needed_by = [name for name in line["needed_by"].split(", ") if not name.startswith("-")]
    return Package(requirement, needed_by=tuple(needed_by))
