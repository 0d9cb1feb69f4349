"""Check of a requirement's wheels: does free-threaded CPython have any,
and do they leave its GIL off?
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import requests
from packaging.requirements import Requirement
from packaging.specifiers import Specifier, SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name
from packaging.version import Version

from ftrun.errors import BadArchive, IndexFailed, NotReadable
from ftrun.wheels import archive, gil_slot
from ftrun.wheels.gil_slot import Gil
from ftrun.wheels.index import File, Index
from ftrun.wheels.package import Package

SERIES = ("3.13t", "3.14t", "3.15t")
_MOST_WHEELS = 3  # read in search of a version that leaves the GIL off
_LOWER = (">=", ">", "~=")
_FIRST = Version("0.1")

Releases = dict[Version, list[File]]
Limits = list[Specifier]


class Answer(enum.Enum):
    """Effect of a required package on the GIL of one interpreter,
    or the reason why the effect is not known.
    """

    PURE = "pure Python"
    OFF = "GIL off"
    ON = "turns GIL on"
    UNKNOWN = "unclear"
    SOURCE = "no wheel"
    NONE = "nothing fits"
    DAMAGED = "not readable"


_PASSES = (Answer.PURE, Answer.OFF)


@dataclass
class WheelFinding:
    """Result of the check of one requirement for one interpreter."""

    version: str
    """The version that an installer takes: the newest that fits. For ``NONE``, the newest that is
    allowed, or empty.
    """
    answer: Answer
    wheel: str = ""
    """File name of the wheel that was looked at."""
    modules: tuple[str, ...] = ()
    """Extension modules that turn the GIL on. For ``UNKNOWN``,
    those whose effect only an import shows.
    """
    better: str = ""
    """The newest version found whose wheel leaves the GIL off, if `version` has no such wheel."""
    error: str = ""


@dataclass
class WheelReport:
    """Findings for one requirement by interpreter; empty after an error,
    or if the marker excludes all interpreters.
    """

    requirement: str
    findings: dict[str, WheelFinding]
    error: str = ""
    needed_by: tuple[str, ...] = ()
    """Names of the packages that need this one; empty if the user named it."""

    @property
    def name(self) -> str:
        return self.requirement.split(";")[0].strip()

    @property
    def project(self) -> str:
        """The normalised name of the package."""
        name = re.split(r"[^\w.-]", self.requirement, maxsplit=1)[0]
        return canonicalize_name(name)


def judge(package: Package, index: Index, series: tuple[str, ...] = SERIES) -> WheelReport:
    """Return a report on a package's wheels, for each free-threaded CPython of *series*,
    such as ``3.13t``.
    """
    requirement = package.requirement
    report = WheelReport(str(requirement), {}, needed_by=package.needed_by)
    try:
        files = index.files(canonicalize_name(requirement.name))
    except IndexFailed as error:
        report.error = str(error)
        return report
    try:
        for version in series:
            if _applies(requirement, version):
                wheels = _Wheels(index.session, version)
                report.findings[version] = _finding(package, files, wheels)
    except ValueError as error:
        # a marker that compares what cannot be compared, or a version of over 4300 digits
        report.findings.clear()
        report.error = f"is no requirement that can be judged: {error}"[:300]
    return report


def _applies(requirement: Requirement, series: str) -> bool:
    """Return True if the marker includes CPython *series*, or asks for what only a lock's installer
    knows (PEP 751).
    """
    if requirement.marker is None:
        return True
    number = series.rstrip("t")
    variables = {"python_version": number}
    for name in ("python_full_version", "implementation_version"):
        variables[name] = f"{number}.0"
    try:
        return requirement.marker.evaluate(variables)
    except KeyError:  # "extras" or "dependency_groups"
        return True


def _finding(package: Package, files: list[File], wheels: _Wheels) -> WheelFinding:
    fitting = [file for file in files if _fits_python(file.requires_python, wheels.series)]
    finding = _installed(package, fitting, wheels)
    if finding.answer not in (*_PASSES, Answer.UNKNOWN):
        releases = _by_version(fitting)
        finding.better = _better(releases, _lower_limits(package), wheels)
    return finding


def _lower_limits(package: Package) -> Limits:
    limits = [*package.requirement.specifier, *package.accepted]
    return [limit for limit in limits if limit.operator in _LOWER]


def _installed(package: Package, files: list[File], wheels: _Wheels) -> WheelFinding:
    """Return the finding for the release that an installer takes:
    the newest with a wheel or a source archive.
    """
    releases = _by_version(file for file in files if _is_allowed(file, package.hashes))
    versions = _versions(releases, package.requirement.specifier)
    for version in versions:
        wheel = _best(releases[version], wheels.series)
        if wheel is not None:
            return wheels.look(wheel)
        if any(not file.tags for file in releases[version]):
            return WheelFinding(str(version), Answer.SOURCE)
    if not versions:
        return WheelFinding("", Answer.NONE)
    return WheelFinding(str(versions[0]), Answer.NONE)


def _versions(releases: Releases, specifier: SpecifierSet) -> list[Version]:
    """Return the versions that an installer may take, the newest first."""
    versions = list(releases)
    if not any(_is_exact(limit) for limit in specifier):
        versions = [version for version in versions if not _is_yanked(releases[version])]
    return sorted(specifier.filter(versions), reverse=True)


def _is_allowed(file: File, hashes: frozenset[str]) -> bool:
    """Return True if the hashes of a lock include the file's, or if either has none."""
    return not hashes or not file.hashes or bool(file.hashes & hashes)


def _is_exact(limit: Specifier) -> bool:
    """Return True for a limit that only one version fulfils.
    Installers then take yanked releases too.
    """
    return limit.operator in ("==", "===") and not limit.version.endswith(".*")


def _is_yanked(release: list[File]) -> bool:
    return all(file.yanked for file in release)


def _by_version(files: Iterable[File]) -> Releases:
    releases: Releases = {}
    for file in files:
        releases.setdefault(file.version, []).append(file)
    return releases


def _better(releases: Releases, lowest: Limits, wheels: _Wheels) -> str:
    """Return the newest final release whose wheel leaves the GIL off; "" if none of the
    _MOST_WHEELS newest does.

    *lowest*: limits that a release has to fulfil.
    """
    candidates = _newer_wheels(releases, lowest, wheels.series)
    for wheel in itertools.islice(candidates, _MOST_WHEELS):
        if wheels.look(wheel).answer in _PASSES:
            return str(wheel.version)
    return ""


def _newer_wheels(releases: Releases, lowest: Limits, series: str) -> Iterator[File]:
    """Yield the wheels of final releases, the newest first.

    A release below _FIRST is a placeholder if there are later ones.
    """
    finals = [version for version in releases if not version.is_prerelease]
    finals.sort(reverse=True)
    for version in finals:
        if version < _FIRST <= finals[0]:
            continue
        if not all(version in limit for limit in lowest):
            continue
        wheel = _best_not_yanked(releases[version], series)
        if wheel is not None:
            yield wheel


def _best_not_yanked(release: list[File], series: str) -> File | None:
    files = [file for file in release if not file.yanked]
    return _best(files, series)


@functools.lru_cache(1000)
def _fits_python(requires_python: str, series: str) -> bool:
    try:
        specifier = SpecifierSet(requires_python)
        return specifier.contains(f"{series.rstrip('t')}.0", prereleases=True)
    except ValueError:  # InvalidSpecifier, or a number of over 4300 digits
        return True


def _best(release: list[File], series: str) -> File | None:
    """Return the wheel of a release that an installer would choose on this machine;
    None if no wheel fits.
    """
    ranks = _tags(series)
    wheels = [file for file in release if file.tags & ranks.keys()]

    def rank(wheel: File) -> int:
        fitting = wheel.tags & ranks.keys()
        return min(ranks[tag] for tag in fitting)

    return min(wheels, key=rank, default=None)


@functools.cache
def _tags(series: str) -> dict[Tag, int]:
    """Return the rank of each wheel tag that CPython *series* accepts on this machine; the best tag
    has rank 0.
    """
    minor = int(series[2:].rstrip("t"))
    interpreter = f"cp3{minor}"
    tags = list(cpython_tags((3, minor), [f"{interpreter}t"]))
    tags += compatible_tags((3, minor), interpreter)
    ranks: dict[Tag, int] = {}
    for rank, tag in enumerate(tags):
        ranks.setdefault(tag, rank)
    return ranks


class _Wheels:
    """Reader of the wheels of one project for one interpreter,
    which fetches each wheel only once.
    """

    def __init__(self, session: requests.Session, series: str) -> None:
        self.series = series
        self._session = session
        self._findings: dict[str, WheelFinding] = {}

    def look(self, wheel: File) -> WheelFinding:
        """Judge a wheel by its extension modules; return a new finding,
        which the caller may change.
        """
        if all(tag.platform == "any" for tag in wheel.tags):
            return WheelFinding(str(wheel.version), Answer.PURE, wheel.name)
        if wheel.name not in self._findings:
            self._findings[wheel.name] = self._fetch(wheel)
        return dataclasses.replace(self._findings[wheel.name])

    def _fetch(self, wheel: File) -> WheelFinding:
        finding = WheelFinding(str(wheel.version), Answer.DAMAGED, wheel.name)
        try:
            self._read(wheel, finding)
        except requests.RequestException as error:
            # its text has the address, and so perhaps a password
            finding.error = type(error).__name__
            if error.response is not None:
                finding.error += f" {error.response.status_code}"
        except (BadArchive, NotReadable) as error:
            message = f"{type(error).__name__}: {error}"
            finding.error = message[:300]
        return finding

    def _read(self, wheel: File, finding: WheelFinding) -> None:
        """Set the answer, and the extension modules that are the reason for it."""
        number = self.series.replace(".", "")
        modules = collections.defaultdict(list)
        for module, data in archive.extensions(self._session, wheel.url, f"cp{number}"):
            declaration = gil_slot.read(data)
            modules[declaration].append(module)
        if modules[Gil.USED]:
            finding.answer = Answer.ON
            finding.modules = tuple(modules[Gil.USED])
        elif modules[Gil.UNKNOWN]:
            finding.answer = Answer.UNKNOWN
            finding.modules = tuple(modules[Gil.UNKNOWN])
        elif modules[Gil.NOT_USED]:
            finding.answer = Answer.OFF
        else:
            finding.answer = Answer.PURE
