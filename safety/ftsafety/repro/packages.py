"""Installation of packages that a script requires and the twins lack:
the same versions for all, where possible.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ftrun.errors import OverlayError
from ftrun.interruption import Interruption
from ftrun.overlay import absent, has_wheel, install
from ftrun.project import normalise
from ftsafety.repro.arguments import PROGRAM
from ftsafety.repro.campaign import names_by_value
from ftsafety.repro.commands import SERIES
from ftsafety.repro.twins import LocalScripts, Twin

# Each word is read once: a match starts only where a word does, and gives nothing back (*+). So the
# time is linear.
NO_WHEEL = re.compile(
    r"(?<!\S)([A-Za-z0-9][\w.-]*+)(?:[<>=!~]\S*+)? (?:has|have) no (?:usable )?wheels"
)
WITHOUT_NETWORK = (
    "and a container without network cannot install packages; run `./twins repro` natively"
)
Versions = dict[str, str]
"""Versions of packages, by normalised name."""


@dataclass
class Packages:
    """Packages that were installed for the script, and reasons why twins cannot run it.
    Owned by one thread.
    """

    added: dict[str, Versions] = field(default_factory=dict)
    """By twin: the versions of the installed packages, by normalised name."""
    missing: dict[str, str] = field(default_factory=dict)
    """By twin: the reason why this twin cannot run the script."""
    remarks: list[str] = field(default_factory=list)


def add(
    requirements: Sequence[str],
    twins: Mapping[str, Twin],
    installed: Mapping[str, Mapping[str, str]],
    work: Path,
    cache: Path | None,
    interruption: Interruption,
    note: Callable[[str], None],
) -> Packages:
    """Install packages for the twins that lack them; raises Interrupted. Skips twins in containers.

    Args:
        installed: by twin, the versions of the packages that the twin has already, by normalised
            name.
        work: the folder into which the packages are installed.
        cache: the folder for uv and its cache; *work* by default.
        note: called with a line of progress.
    """
    result = Packages()
    local: dict[str, LocalScripts] = {}
    for name, twin in twins.items():
        if isinstance(twin, LocalScripts):
            local[name] = twin
        elif lacking := _lacking(requirements, installed[name]):
            result.missing[name] = f"the script wants {lacking}, {WITHOUT_NETWORK}"
    if not requirements or not local:
        return result
    note(f"installing {', '.join(requirements)}")
    installer = _Installer(requirements, installed, work, cache or work, interruption)

    def put(name: str, pins: Versions) -> Versions:
        return installer.put(name, local[name], pins)

    result.added, reasons = _installed(local, put)
    for name, why in reasons.items():
        words = installer.words(name, why)
        result.missing[name] = f"its packages cannot be installed there: {words}"
        note(f"{PROGRAM}: {name}: {result.missing[name]}")
    if different := differences(result.added):
        result.remarks.append(f"No version of each package serves all interpreters: {different}.")
    return result


def _lacking(requirements: Iterable[str], installed: Mapping[str, str]) -> str:
    return ", ".join(requirement for requirement in requirements if absent(requirement, installed))


class _Installer:
    """Installer of the packages of one script. Owned by one thread. Arguments: see `add`."""

    def __init__(
        self,
        requirements: Sequence[str],
        installed: Mapping[str, Mapping[str, str]],
        work: Path,
        cache: Path,
        interruption: Interruption,
    ):
        self._requirements = requirements
        self._installed = installed
        self._cache = cache
        self._interruption = interruption
        self._folders = (work / str(number) for number in itertools.count())

    def put(self, name: str, twin: LocalScripts, pins: Versions) -> Versions:
        """Install the packages for the twin *name*, in versions *pins*;
        return versions by package. Raises OverlayError.
        """
        folder = next(self._folders)
        added = install(
            folder,
            twin.python,
            self._requirements,
            self._installed[name],
            self._cache,
            self._interruption,
            [f"{package}=={version}" for package, version in pins.items()],
        )
        twin.overlay = str(folder)
        versions = {}
        for pin in added:
            package, _, version = pin.partition("==")
            versions[normalise(package)] = version
        return versions

    def words(self, name: str, why: str) -> str:
        """Return in words why packages cannot be installed for the twin *name*.
        *why*: the installer's error.

        If the error is about a missing wheel, return a short sentence about this wheel,
        else *why* itself.
        """
        match = NO_WHEEL.search(why)
        if match is None:
            return why
        package = match[1]
        free = name != "gil"
        version = name
        later = _tag(SERIES[-1], free)
        if name in ("ft", "gil"):
            version = _tag("{}.{}".format(*sys.version_info), free)
        words = f"no wheel of {package} for {version}"
        if later != version and self._has_wheel(package, free):
            words += f"; {later} has one"
        return words

    def _has_wheel(self, package: str, free: bool) -> bool:
        """Return True if there is a wheel for the latest series."""
        requirement = self._requirement(package)
        return has_wheel(requirement, SERIES[-1], free, self._cache, self._interruption)

    def _requirement(self, package: str) -> str:
        """Return the requirement that names *package*; *package* itself if none does."""
        for requirement in self._requirements:
            if re.match(rf"{re.escape(package)}\b", requirement, re.IGNORECASE):
                return requirement
        return package


def _tag(series: str, free: bool) -> str:
    return f"{series}t" if free else series


def _installed(
    names: Iterable[str], put: Callable[[str, Versions], Versions]
) -> tuple[dict[str, Versions], dict[str, str]]:
    """Install the packages for the twins, in the same versions if possible; return versions and
    failures by twin.

    *put* installs the packages for a twin in given versions, and returns all versions. The choice
    of each twin is tried on all others in turn, that of the free-threaded one first, which fewer
    wheels fit. If none serves all, each twin keeps its own.
    """
    leaders: list[str] = []
    reasons: dict[str, str] = {}
    for leader in names:
        try:
            pins = put(leader, {})
        except OverlayError as error:
            reasons[leader] = error.args[0]
            continue
        leaders.append(leader)
        with contextlib.suppress(OverlayError):
            followers = {name: put(name, pins) for name in names if name != leader}
            return {name: followers.get(name, pins) for name in names}, {}
    return {name: put(name, {}) for name in leaders}, reasons


def differences(versions: Mapping[str, Mapping[str, str]]) -> str:
    """Return the packages whose version differs between twins: "numpy 2.1 (ft), 2.2 (gil)"."""
    words = []
    for name in sorted(set().union(*versions.values())):
        pairs = []
        for twin, packages in versions.items():
            if name in packages:
                pairs.append((twin, packages[name]))
        twins_of_versions = names_by_value(pairs)
        if len(twins_of_versions) > 1:
            words.append(f"{name} {_by_version(twins_of_versions)}")
    return "; ".join(words)


def _by_version(twins_of_versions: Mapping[str, Iterable[str]]) -> str:
    words = []
    for version, twins in twins_of_versions.items():
        words.append(f"{version} ({', '.join(twins)})")
    return ", ".join(words)
