"""Installation of packages that a script requires and the twins lack: the same versions for all, where possible."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ftrun.errors import OverlayError
from ftrun.interruption import Interruption
from ftrun.overlay import absent, has_wheel, install
from ftrun.project import normalise
from ftsafety.repro.commands import SERIES
from ftsafety.repro.twins import LocalScripts, Twin

# Each word is read once: a match starts only where a word does, and gives nothing back (*+). So the time is linear.
NO_WHEEL = re.compile(r"(?<!\S)([A-Za-z0-9][\w.-]*+)(?:[<>=!~]\S*+)? (?:has|have) no (?:usable )?wheels")


@dataclass
class Packages:
    """Packages that were installed for the script, and reasons why twins cannot run it. Owned by one thread."""

    added: dict[str, dict[str, str]] = field(default_factory=dict)
    """By twin: the versions of the installed packages, by normalised name."""
    missing: dict[str, str] = field(default_factory=dict)
    """By twin: the reason why this twin cannot run the script."""
    remarks: list[str] = field(default_factory=list)


def add(
    wanted: Sequence[str],
    twins: Mapping[str, Twin],
    installed: Mapping[str, Mapping[str, str]],
    work: Path,
    cache: Path | None,
    interruption: Interruption,
    note: Callable[[str], None],
) -> Packages:
    """Install the packages *wanted* for the twins that lack them; raises Interrupted. Skips twins in containers.

    Args:
        installed: by twin, the versions of the packages that the twin has already, by normalised name.
        work: the folder into which the packages are installed.
        cache: the folder for uv and its cache; *work* by default.
        note: called with a line of progress.
    """
    result = Packages()
    local = {name: twin for name, twin in twins.items() if isinstance(twin, LocalScripts)}
    for name in [each for each in twins if each not in local]:
        if lacking := ", ".join(each for each in wanted if absent(each, installed[name])):
            without = "and a container without network cannot install packages; run `./twins repro` natively"
            result.missing[name] = f"the script wants {lacking}, {without}"
    if not wanted or not local:
        return result
    note(f"installing {', '.join(wanted)}")
    folders = (work / str(number) for number in itertools.count())

    def put(name: str, pins: Mapping[str, str]) -> dict[str, str]:
        """Install *wanted* for the twin *name*, in versions *pins*; return versions by package. Raises OverlayError."""
        folder, constraints = next(folders), [f"{each}=={version}" for each, version in pins.items()]
        python, own = local[name].python, installed[name]
        found = install(folder, python, wanted, own, cache or work, interruption, constraints)
        local[name].overlay = str(folder)
        return {normalise(pin.partition("==")[0]): pin.partition("==")[2] for pin in found}

    # Fewer wheels fit the free-threaded twin, and the others then take the same versions. If they cannot, another
    # interpreter's versions may serve all.
    tried: dict[str, dict[str, str]] = {}
    reasons: dict[str, str] = {}
    for leader in local:
        try:
            pins = tried[leader] = put(leader, {})
            result.added = {name: pins if name == leader else put(name, pins) for name in local}
            return result
        except OverlayError as error:
            if leader not in tried:
                reasons[leader] = error.args[0]
    result.added = {name: put(name, {}) for name in tried}
    for name, why in reasons.items():
        why = _words(name, wanted, why, cache or work, interruption)
        result.missing[name] = f"its packages cannot be installed there: {why}"
        note(f"repro: {name}: {result.missing[name]}")
    if len(result.added) > 1:
        result.remarks.append(f"No version of each package serves all interpreters: {differences(result.added)}.")
    return result


def _words(name: str, wanted: Sequence[str], why: str, cache: Path, interruption: Interruption) -> str:
    """Return in words why packages cannot be installed for the twin *name*. *why*: the installer's error.

    If the error is about a missing wheel, return a short sentence about this wheel, else *why* itself.
    """
    match = NO_WHEEL.search(why)
    if match is None:
        return why
    package, suffix = match[1], "t" if name != "gil" else ""
    here = f"{sys.version_info.major}.{sys.version_info.minor}{suffix}" if name in ("ft", "gil") else name
    said = f"no wheel of {package} for {here}"
    requirement = next((each for each in wanted if re.match(rf"{re.escape(package)}\b", each, re.IGNORECASE)), package)
    later = SERIES[-1] + suffix
    if later != here and has_wheel(requirement, SERIES[-1], bool(suffix), cache, interruption):
        said += f"; {later} has one"
    return said


def differences(versions: Mapping[str, Mapping[str, str]]) -> str:
    """Return the packages whose version differs between twins: "numpy 2.1 (ft), 2.2 (gil)"."""
    names = sorted({name for each in versions.values() for name in each})
    found = []
    for name in names:
        by_version: dict[str, list[str]] = {}
        for twin, each in versions.items():
            if name in each:
                by_version.setdefault(each[name], []).append(twin)
        if len(by_version) > 1:
            found.append(f"{name} " + ", ".join(f"{version} ({', '.join(of)})" for version, of in by_version.items()))
    return "; ".join(found)
