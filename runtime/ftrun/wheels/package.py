"""Record of one package whose wheels are checked."""

from __future__ import annotations

from dataclasses import dataclass, field

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet


@dataclass
class Package:
    """One version of a package of an index, as a lock file or a resolver gives it."""

    requirement: Requirement
    hashes: frozenset[str] = frozenset()
    """Hashes of the files that a lock allows, such as ``sha256:00ff``;
    empty if any file will do.
    """
    needed_by: tuple[str, ...] = ()
    """Names of the packages that need this one. Empty if the user or the project does, or if a lock
    does not say.
    """
    accepted: SpecifierSet = field(default_factory=SpecifierSet)
    """Versions that the user would take."""
