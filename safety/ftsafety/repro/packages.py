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
from ftsafety.repro.commands import SERIES
from ftsafety.repro.twins import LocalScripts, Twin

# Each word is read once: a match starts only where a word does, and gives nothing back (*+). So the
# time is linear.
NO_WHEEL = re.compile(
    r"(?<!\S)([A-Za-z0-9][\w.-]*+)(?:[<>=!~]\S*+)? (?:has|have) no (?:usable )?wheels"
)


@dataclass
class Packages:
    """Packages that were installed for the script, and reasons why twins cannot run it.
    Owned by one thread.
    """

    added: dict[str, dict[str, str]] = field(default_factory=dict)
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
    local = {name: twin for name, twin in twins.items() if isinstance(twin, LocalScripts)}
    for name in [name for name in twins if name not in local]:
        lacking = [
            requirement for requirement in requirements if absent(requirement, installed[name])
        ]
        if lacking:
            without = (
                "and a container without network cannot install packages; run `./twins "
                "repro` natively"
            )
            result.missing[name] = f"the script wants {', '.join(lacking)}, {without}"
    if not requirements or not local:
        return result
    note(f"installing {', '.join(requirements)}")
    folders = (work / str(number) for number in itertools.count())

    def put(name: str, pins: Mapping[str, str]) -> dict[str, str]:
        """Install the packages for the twin *name*,
        in versions *pins*; return versions by package.
        """
        twin, folder = local[name], next(folders)
        constraints = [f"{package}=={version}" for package, version in pins.items()]
        added = install(
            folder,
            twin.python,
            requirements,
            installed[name],
            cache or work,
            interruption,
            constraints,
        )
        twin.overlay = str(folder)
        versions = {}
        for pin in added:
            package, _, version = pin.partition("==")
            versions[normalise(package)] = version
        return versions

    result.added, reasons = _installed(local, put)
    for name, why in reasons.items():
        why = _words(name, requirements, why, cache or work, interruption)
        result.missing[name] = f"its packages cannot be installed there: {why}"
        note(f"repro: {name}: {result.missing[name]}")
    if different := differences(result.added):
        result.remarks.append(f"No version of each package serves all interpreters: {different}.")
    return result


def _installed(
    names: Iterable[str], put: Callable[[str, Mapping[str, str]], dict[str, str]]
) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Install the packages for the twins, in the same versions if possible; return versions and
    failures by twin.

    *put* installs the packages for a twin in given versions, and returns all versions. Fewer wheels
    fit the free-threaded twin, and the others then take the same versions. If they cannot, another
    interpreter's versions may serve all.
    """
    versions: dict[str, dict[str, str]] = {}
    reasons: dict[str, str] = {}
    for leader in names:
        try:
            pins = versions[leader] = put(leader, {})
        except OverlayError as error:
            reasons[leader] = error.args[0]
            continue
        with contextlib.suppress(OverlayError):
            followers = {name: put(name, pins) for name in names if name != leader}
            return {name: pins if name == leader else followers[name] for name in names}, {}
    return {name: put(name, {}) for name in versions}, reasons


def _words(
    name: str, requirements: Sequence[str], why: str, cache: Path, interruption: Interruption
) -> str:
    """Return in words why packages cannot be installed for the twin *name*.
    *why*: the installer's error.

    If the error is about a missing wheel, return a short sentence about this wheel,
    else *why* itself.
    """
    match = NO_WHEEL.search(why)
    if match is None:
        return why
    package, suffix = match[1], "t" if name != "gil" else ""
    version = (
        f"{sys.version_info.major}.{sys.version_info.minor}{suffix}"
        if name in ("ft", "gil")
        else name
    )
    words = f"no wheel of {package} for {version}"
    requirement = next(
        (
            line
            for line in requirements
            if re.match(rf"{re.escape(package)}\b", line, re.IGNORECASE)
        ),
        package,
    )
    later = SERIES[-1] + suffix
    if later != version and has_wheel(requirement, SERIES[-1], bool(suffix), cache, interruption):
        words += f"; {later} has one"
    return words


def differences(versions: Mapping[str, Mapping[str, str]]) -> str:
    """Return the packages whose version differs between twins: "numpy 2.1 (ft), 2.2 (gil)"."""
    words = []
    for name in sorted(set().union(*versions.values())):
        by_version: dict[str, list[str]] = {}
        for twin, packages in versions.items():
            if name in packages:
                by_version.setdefault(packages[name], []).append(twin)
        if len(by_version) > 1:
            twins_of_versions = [
                f"{version} ({', '.join(twins)})" for version, twins in by_version.items()
            ]
            words.append(f"{name} {', '.join(twins_of_versions)}")
    return "; ".join(words)
