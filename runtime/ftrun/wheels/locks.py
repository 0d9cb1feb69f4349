"""Packages of a TOML lock file: of uv, of Poetry, and of PEP 751."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from packaging.utils import canonicalize_name

_PLACES = {
    **dict.fromkeys(("git", "vcs"), "a repository"),
    **dict.fromkeys(("url", "archive"), "an address"),
    **dict.fromkeys(("path", "directory", "file"), "this machine"),
}


class Locked(NamedTuple):
    """One package of a lock."""

    requirement: str
    """Name, version and marker, or the name alone if there is a reason."""
    hashes: frozenset[str]
    """Hashes of the files that the lock allows, such as ``sha256:00ff``; empty if it has none."""
    needed_by: tuple[str, ...]
    """Names of the packages that need this one; empty if the project does, or if the lock does not tell."""
    reason: str
    """Reason why the package cannot be judged, such as that it comes from git; empty if it comes from an index."""


def packages(document: dict, indexes: Collection[str]) -> Iterator[Locked]:
    """Yield the packages of a lock without the project's own; raises errors of wrong types for anything else.

    *indexes*: addresses of package indexes; a package of another one has a reason.
    """
    listed = document.get("packages", document.get("package", ()))
    project_names = {
        canonicalize_name(entry["name"]) for entry in listed if {"editable", "virtual"} & set(_source(entry))
    }
    parents: dict[str, dict[str, list[str]]] = {}  # of each package, with the markers under which it is needed
    for entry in listed:
        for child, marker in _edges(entry):
            parents.setdefault(child, {}).setdefault(canonicalize_name(entry["name"]), []).append(marker)
    for entry in listed:
        name = canonicalize_name(entry["name"])
        if name in project_names:
            continue
        needing = parents.get(name, {})
        needed_by = () if needing.keys() & project_names else tuple(sorted(needing))
        if reason := _elsewhere(entry, indexes):
            yield Locked(name, frozenset(), needed_by, reason)
            continue
        conditions = _own_markers(entry)
        # Only uv writes down what the project itself needs. Its markers of extras are names of its own.
        if project_names and not any("extra" in marker for markers in needing.values() for marker in markers):
            conditions.append(_either(marker for markers in needing.values() for marker in markers))
        condition = " and ".join(f"({marker})" for marker in conditions if marker)
        requirement = f"{name}=={entry['version']}" + (f"; {condition}" if condition else "")
        yield Locked(requirement, frozenset(_hashes(entry)), needed_by, "")


def _source(entry: dict) -> dict:
    return {**entry.get("source", {}), **{key: True for key in ("vcs", "directory", "archive") if key in entry}}


def _elsewhere(entry: dict, indexes: Collection[str]) -> str:
    """Return the reason why a package is none of these indexes; "" if it is one."""
    source = _source(entry)
    for kind in [source["type"]] if "type" in source else source:  # Poetry gives the kind as a type
        if kind in _PLACES:
            return f"comes from {_PLACES[kind]}; only packages of an index can be judged"
    index = str(source.get("registry") or (source.get("type") == "legacy" and source["url"]) or entry.get("index", ""))
    if index and index.rstrip("/") not in indexes:
        return "comes from another index; UV_DEFAULT_INDEX names the one to look at"
    return "" if "version" in entry else "has no version in the lock"


def _edges(entry: dict) -> Iterator[tuple[str, str]]:
    """Yield (name of a needed package, marker or ""), with those of uv's extras and groups."""
    dependencies = entry.get("dependencies", ())
    if isinstance(dependencies, dict):  # Poetry's table: a version, a table, or a list of tables
        for name, limits in dependencies.items():
            for limit in limits if isinstance(limits, list) else [limits]:
                yield canonicalize_name(name), limit.get("markers", "") if isinstance(limit, dict) else ""
        return
    groups = (entry.get("optional-dependencies", {}), entry.get("dev-dependencies", {}))
    for dependency in (*dependencies, *(each for group in groups for part in group.values() for each in part)):
        yield canonicalize_name(dependency["name"]), dependency.get("marker", "")


def _either(markers: Iterable[str]) -> str:
    """Return the marker that holds if one of these does; "" if one of them is empty, or if there are none."""
    alternatives = list(dict.fromkeys(markers))
    return "" if "" in alternatives else " or ".join(f"({marker})" for marker in alternatives)


def _own_markers(entry: dict) -> list[str]:
    """Return the markers of a package itself; Poetry may have one for each group, uv one for each resolution."""
    marker = entry.get("marker", entry.get("markers", ""))
    return [
        _either(marker.values()) if isinstance(marker, dict) else marker,
        _either(entry.get("resolution-markers", ())),
    ]


def _hashes(entry: dict) -> Iterator[str]:
    for file in (*entry.get("wheels", ()), *entry.get("files", ()), *([entry["sdist"]] if "sdist" in entry else ())):
        if "hash" in file:
            yield file["hash"].lower()
        for kind, value in file.get("hashes", {}).items():
            yield f"{kind}:{value}".lower()
