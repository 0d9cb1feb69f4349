"""Check of a requirement's wheels: does free-threaded CPython have any, and do they leave its GIL off?"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

import requests
from packaging.requirements import Requirement
from packaging.specifiers import Specifier, SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name
from packaging.version import Version

from ftrun.wheels import archive, gil_slot
from ftrun.wheels.gil_slot import Gil
from ftrun.wheels.index import File, Index, IndexFailed
from ftrun.wheels.package import Package

SERIES = ("3.13t", "3.14t", "3.15t")
_MOST_WHEELS = 3  # read in search of a version that leaves the GIL off
_LOWER = (">=", ">", "~=")
_FIRST = Version("0.1")


class Answer(enum.Enum):
    """Effect of a required package on the GIL of one interpreter, or the reason why the effect is not known."""

    PURE = "pure Python"
    OFF = "GIL off"
    ON = "turns GIL on"
    UNKNOWN = "unclear"
    SOURCE = "no wheel"
    NONE = "nothing fits"
    DAMAGED = "not readable"


@dataclass
class Finding:
    """Result of the check of one requirement for one interpreter."""

    version: str
    """The version that an installer takes: the newest that fits. For ``NONE``, the newest that is allowed, or empty."""
    answer: Answer
    wheel: str = ""
    """File name of the wheel that was looked at."""
    modules: tuple[str, ...] = ()
    """Extension modules that turn the GIL on. For ``UNKNOWN``, those whose effect only an import shows."""
    better: str = ""
    """The newest version found whose wheel leaves the GIL off, if `version` has no such wheel."""
    error: str = ""


@dataclass
class Report:
    """Findings for one requirement by interpreter; empty after an error, or if the marker excludes all interpreters."""

    requirement: str
    findings: dict[str, Finding]
    error: str = ""
    needed_by: tuple[str, ...] = ()
    """Names of the packages that need this one; empty if the user named it."""

    @property
    def name(self) -> str:
        return self.requirement.split(";")[0].strip()

    @property
    def project(self) -> str:
        """The normalised name of the package."""
        return canonicalize_name(re.split(r"[^\w.-]", self.requirement, maxsplit=1)[0])


def judge(package: Package, index: Index, series: tuple[str, ...] = SERIES) -> Report:
    """Return a report on a package's wheels, for each free-threaded CPython of *series*, such as ``3.13t``."""
    requirement = package.requirement
    try:
        files = index.files(canonicalize_name(requirement.name))
    except IndexFailed as error:
        return Report(str(requirement), {}, str(error), package.needed_by)
    wheels = _Wheels(index.session)
    try:
        findings = {each: _finding(package, files, each, wheels) for each in series if _applies(requirement, each)}
    except ValueError as error:  # a marker that compares what cannot be compared, or a version of over 4300 digits
        reason = f"is no requirement that can be judged: {error}"[:300]
        return Report(str(requirement), {}, reason, package.needed_by)
    return Report(str(requirement), findings, needed_by=package.needed_by)


def _applies(requirement: Requirement, series: str) -> bool:
    """Return True if the marker includes CPython *series*, or asks for what only a lock's installer knows (PEP 751)."""
    number = series.rstrip("t")
    full = {"python_full_version": f"{number}.0", "implementation_version": f"{number}.0"}
    try:
        return requirement.marker is None or requirement.marker.evaluate({"python_version": number, **full})
    except KeyError:  # "extras" or "dependency_groups"
        return True


def _finding(package: Package, files: list[File], series: str, wheels: _Wheels) -> Finding:
    requirement, hashes = package.requirement, package.hashes
    fitting = [file for file in files if _fits_python(file.requires_python, series)]
    allowed = _by_version(file for file in fitting if not hashes or not file.hashes or file.hashes & hashes)
    exact = any(limit.operator in ("==", "===") and limit.version[-2:] != ".*" for limit in requirement.specifier)
    offered = [version for version, group in allowed.items() if exact or not all(file.yanked for file in group)]
    versions = sorted(requirement.specifier.filter(offered), reverse=True)
    for version in versions:
        wheel = _best(allowed[version], series)
        if wheel is not None:
            finding = wheels.look(wheel, series)
            break
        if any(not file.tags for file in allowed[version]):
            finding = Finding(str(version), Answer.SOURCE)
            break
    else:
        finding = Finding(str(versions[0]) if versions else "", Answer.NONE)
    if finding.answer not in (Answer.PURE, Answer.OFF, Answer.UNKNOWN):
        limits = [*requirement.specifier, *package.accepted]
        lowest = [limit for limit in limits if limit.operator in _LOWER]
        finding.better = _better(_by_version(fitting), lowest, series, wheels)
    return finding


def _by_version(files: Iterable[File]) -> dict[Version, list[File]]:
    groups: dict[Version, list[File]] = {}
    for file in files:
        groups.setdefault(file.version, []).append(file)
    return groups


def _better(releases: dict[Version, list[File]], lowest: list[Specifier], series: str, wheels: _Wheels) -> str:
    """Return the newest final release whose wheel leaves the GIL off; "" if none of the _MOST_WHEELS newest does.

    *lowest*: limits that a release has to fulfil. A release below _FIRST is a placeholder if there are later ones.
    """
    finals = sorted((version for version in releases if not version.is_prerelease), reverse=True)
    with_wheels = (
        wheel
        for version in finals
        if (version >= _FIRST or finals[0] < _FIRST)
        and all(version in limit for limit in lowest)
        and (wheel := _best([file for file in releases[version] if not file.yanked], series))
    )
    for wheel, _ in zip(with_wheels, range(_MOST_WHEELS), strict=False):
        if wheels.look(wheel, series).answer in (Answer.PURE, Answer.OFF):
            return str(wheel.version)
    return ""


@functools.lru_cache(1000)
def _fits_python(requires_python: str, series: str) -> bool:
    try:
        return SpecifierSet(requires_python).contains(f"{series.rstrip('t')}.0", prereleases=True)
    except ValueError:  # InvalidSpecifier, or a number of over 4300 digits
        return True


def _best(release: list[File], series: str) -> File | None:
    """Return the wheel of a release that an installer would choose on this machine; None if no wheel fits."""
    order = _tags(series)
    ranks = [(min(order[tag] for tag in tags), file) for file in release if (tags := file.tags & order.keys())]
    return min(ranks, key=lambda pair: pair[0])[1] if ranks else None


@functools.cache
def _tags(series: str) -> dict[Tag, int]:
    """Return the rank of each wheel tag that CPython *series* accepts on this machine; the best tag has rank 0."""
    number = (3, int(series[2:].rstrip("t")))
    abi = f"cp{number[0]}{number[1]}t"
    tags = [*cpython_tags(number, [abi]), *compatible_tags(number, abi.rstrip("t"))]
    return {tag: rank for rank, tag in reversed(list(enumerate(tags)))}


class _Wheels:
    """Reader of the wheels of one project, which fetches each wheel only once for each series."""

    def __init__(self, session: requests.Session) -> None:
        self._session = session
        self._seen: dict[tuple[str, str], Finding] = {}

    def look(self, wheel: File, series: str) -> Finding:
        """Judge a wheel by its extension modules; return a new finding, which the caller may change."""
        version = str(wheel.version)
        if all(tag.platform == "any" for tag in wheel.tags):
            return Finding(version, Answer.PURE, wheel.name)
        known = self._seen.get((wheel.name, series))
        if known is None:
            try:
                known = Finding(version, *self._answer(wheel, series))
            except requests.RequestException as error:  # its text has the address, and so perhaps a password
                status = f" {error.response.status_code}" if error.response is not None else ""
                known = Finding(version, Answer.DAMAGED, wheel.name, error=f"{type(error).__name__}{status}")
            except (archive.BadArchive, gil_slot.NotReadable) as error:
                known = Finding(version, Answer.DAMAGED, wheel.name, error=f"{type(error).__name__}: {error}"[:300])
            self._seen[wheel.name, series] = known
        return Finding(**vars(known))

    def _answer(self, wheel: File, series: str) -> tuple[Answer, str, tuple[str, ...]]:
        declared: dict[Gil, list[str]] = {kind: [] for kind in Gil}
        for module, data in archive.extensions(self._session, wheel.url, f"cp{series.replace('.', '')}"):
            declared[gil_slot.read(data)].append(module)
        for kind, answer in ((Gil.USED, Answer.ON), (Gil.UNKNOWN, Answer.UNKNOWN)):
            if declared[kind]:
                return answer, wheel.name, tuple(declared[kind])
        return (Answer.OFF if declared[Gil.NOT_USED] else Answer.PURE), wheel.name, ()
