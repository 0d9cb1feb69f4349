"""Versions that an installer would take of the required packages, and of all packages that these need.

uv chooses them, without a download of whole wheels and without running anybody's code: the dependencies of a package
that has no wheel stay unknown. uv's "universal" resolution takes a package whether or not there is a wheel for the
free-threaded build, as installers do that can build it.
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
from ftrun.interruption import Interruption
from ftrun.wheels.package import Package

_LINE = re.compile(r"(?P<requirement>[^#\s][^#]*?)\s+# via (?P<needed_by>.+)")
_WITHOUT_WHEEL = re.compile(r"Wheels are required for `([^`]+)`")
_MOST_WITHOUT_WHEEL = 20


class Tree(NamedTuple):
    """Packages that would be installed."""

    packages: list[Package]
    error: str = ""
    """Reason why there are only the requirements themselves, without what they need; empty if there is none."""
    without_wheel: tuple[str, ...] = ()
    """Names of packages that have no wheel, so that what they need is not known."""


def resolve(
    requirements: Sequence[Requirement],
    constraints: Iterable[Requirement],
    lowest: str,
    cache: Path,
    interruption: Interruption,
) -> Tree:
    """Return the packages that *requirements* bring, for CPython *lowest*, such as 3.13, and each later one.

    Packages that are for some of these interpreters alone have markers. If there is no solution, the packages are the
    requirements. *cache* is the folder for uv and its cache. Raises ``Interrupted``.
    """
    by_name = {canonicalize_name(requirement.name): requirement for requirement in requirements}
    without_wheel: list[str] = []
    with tempfile.TemporaryDirectory(prefix="ft-tree-") as folder:
        inputs = {name: Path(folder, name) for name in ("requirements.in", "constraints.txt", "left-out.txt")}
        inputs["requirements.in"].write_text("".join(f"{requirement}\n" for requirement in requirements))
        inputs["constraints.txt"].write_text("".join(f"{line}\n" for line in constraints))
        command = ["pip", "compile", "--quiet", "--universal", "--no-build", "--no-header"]
        command += ["--annotation-style", "line", "--python", sys.executable, "--python-version", lowest]
        command += ["--constraints", str(inputs["constraints.txt"]), "--overrides", str(inputs["left-out.txt"])]
        try:
            uv = overlay.find_uv(cache, interruption)
            while True:
                left_out = "".join(f"{name}; python_version < '3'\n" for name in without_wheel)
                inputs["left-out.txt"].write_text(left_out)
                done = overlay.run([uv, *command, str(inputs["requirements.in"])], cache, interruption)
                if not done.returncode:
                    break
                words = overlay.last_words(done)
                more = set(_WITHOUT_WHEEL.findall(words)) - set(without_wheel)
                if not more or len(without_wheel) > _MOST_WITHOUT_WHEEL:
                    raise overlay.OverlayError(words)
                without_wheel += sorted(more)
        except overlay.OverlayError as error:
            return Tree([Package(requirement) for requirement in requirements], str(error))
    lines = done.stdout.decode().splitlines()
    packages = [_package(match, by_name) for line in lines if (match := _LINE.fullmatch(line))]
    for name in without_wheel:
        needed_by = () if name in by_name else ("another package",)
        packages.append(Package(by_name.get(name, Requirement(name)), needed_by=needed_by))
    excluded = by_name.keys() - {canonicalize_name(package.requirement.name) for package in packages}
    packages += [Package(by_name[name]) for name in sorted(excluded)]  # by their markers
    return Tree(sorted(packages, key=lambda package: bool(package.needed_by)), without_wheel=tuple(without_wheel))


def _package(line: re.Match, by_name: Mapping[str, Requirement]) -> Package:
    requirement = Requirement(line["requirement"])
    if named := by_name.get(canonicalize_name(requirement.name)):
        return Package(requirement, accepted=named.specifier)
    needed_by = [name for name in line["needed_by"].split(", ") if not name.startswith("-")]  # nor a constraints file
    return Package(requirement, needed_by=tuple(needed_by))
