"""Installation of packages that a script requires and the twins lack: the same versions for all, where possible."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ftrun.interruption import Interruption
from ftrun.overlay import OverlayError, absent, has_wheel, install
from ftrun.project import normalise
from ftsafety.repro.commands import SERIES
from ftsafety.repro.twins import LocalScripts, Twin

NO_WHEEL = re.compile(r"\b([A-Za-z0-9][\w.-]*?)(?:[<>=!~]\S*)? (?:has|have) no (?:usable )?wheels")


@dataclass
class Packages:
    """Packages that were installed for the script, and interpreters that cannot have them. Owned by one thread."""

    added: dict[str, dict[str, str]] = field(default_factory=dict)
    """Versions by normalised name, by twin."""
    missing: dict[str, str] = field(default_factory=dict)
    """Reasons why twins cannot run the script, by twin."""
    remarks: list[str] = field(default_factory=list)


class Adder:
    """Installer of a script's packages for several interpreters. Owned by one thread."""

    def __init__(
        self,
        twins: Mapping[str, Twin],
        installed: Mapping[str, Mapping[str, str]],
        work: Path,
        cache: Path | None,
        interruption: Interruption,
        note: Callable[[str], None],
    ):
        """Prepare the installation.

        Args:
            installed: by twin, the versions of the twin's own packages by normalised name.
            work: the folder for the packages to install.
            cache: the folder for uv and its cache; *work* by default.
            note: called with a line of progress.
        """
        self._twins, self._installed, self._work, self._cache = twins, installed, work, cache or work
        self._interruption, self._note = interruption, note
        self._number = 0

    def add(self, wanted: Sequence[str]) -> Packages:
        """Install the packages of *wanted* that the twins lack; raises Interrupted."""
        result = Packages()
        names = list(self._twins)
        for name in [each for each in names if not isinstance(self._twins[each], LocalScripts)]:
            names.remove(name)
            if lacking := ", ".join(each for each in wanted if absent(each, self._installed[name])):
                without = "and a container without network cannot install packages; run `./twins repro` natively"
                result.missing[name] = f"the script wants {lacking}, {without}"
        if not wanted or not names:
            return result
        self._note(f"installing {', '.join(wanted)}")
        # Fewer wheels fit the free-threaded twin, and the others then take the same versions. If they cannot, another
        # interpreter's versions may serve all.
        tried: dict[str, dict[str, str]] = {}
        reasons: dict[str, str] = {}
        for leader in names:
            try:
                pins = tried[leader] = self._install(leader, wanted, {})
                result.added = {name: pins if name == leader else self._install(name, wanted, pins) for name in names}
                return result
            except OverlayError as error:
                if leader not in tried:
                    reasons[leader] = error.args[0]
        result.added = {name: self._install(name, wanted, {}) for name in tried}
        for name, why in reasons.items():
            result.missing[name] = f"its packages cannot be installed there: {self._words(name, wanted, why)}"
            self._note(f"repro: {name}: {result.missing[name]}")
        if len(result.added) > 1:
            result.remarks.append(f"No version of each package serves all interpreters: {differences(result.added)}.")
        return result

    def _install(self, name: str, wanted: Sequence[str], pins: Mapping[str, str]) -> dict[str, str]:
        """Install the packages for the twin *name*, with the versions *pins*; return the installed versions by name.

        Raises OverlayError.
        """
        twin, self._number = self._twins[name], self._number + 1
        assert isinstance(twin, LocalScripts)
        folder = self._work / f"{name}-{self._number}"
        constraints = [f"{each}=={version}" for each, version in pins.items()]
        installed = self._installed[name]
        found = install(folder, twin.python, wanted, installed, self._cache, self._interruption, constraints)
        twin.overlay = str(folder)
        return {normalise(pin.partition("==")[0]): pin.partition("==")[2] for pin in found}

    def _words(self, name: str, wanted: Sequence[str], why: str) -> str:
        """Return the resolver's error *why*, shortened if its reason is a missing wheel."""
        match = NO_WHEEL.search(why)
        if match is None:
            return why
        package, suffix = match[1], "t" if name != "gil" else ""
        here = f"{sys.version_info.major}.{sys.version_info.minor}{suffix}" if name in ("ft", "gil") else name
        said = f"no wheel of {package} for {here}"
        requirement = next(
            (each for each in wanted if re.match(rf"{re.escape(package)}\b", each, re.IGNORECASE)), package
        )
        later = SERIES[-1] + suffix
        if later != here and has_wheel(requirement, SERIES[-1], bool(suffix), self._cache, self._interruption):
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
