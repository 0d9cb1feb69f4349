"""Packages of a TOML lock file: of uv, of Poetry, and of PEP 751."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ftrun.wheels.package import Package

_PLACES = {
    **dict.fromkeys(("git", "vcs"), "a repository"),
    **dict.fromkeys(("url", "archive"), "an address"),
    **dict.fromkeys(("path", "directory", "file"), "this machine"),
}

Reasons = dict[str, str]
Markers = dict[str, list[str]]
"""{package that needs another one: markers under which it does}."""
Parents = dict[str, Markers]


def packages(document: dict, indexes: Collection[str]) -> tuple[list[Package], Reasons]:
    """Return the packages of a lock without the project's own, and {name: reason} of those that
    cannot be judged.

    Raises errors of wrong types for a document that is no lock. *indexes*: addresses of package
    indexes. Packages of other indexes, of repositories and of this machine cannot be judged.
    """
    entries = document.get("packages", document.get("package", ()))
    projects = _project_names(entries)
    parents = _parents(entries)
    locked, reasons = [], {}
    for entry in entries:
        name = canonicalize_name(entry["name"])
        if name in projects:
            continue
        if reason := _elsewhere(entry, indexes):
            reasons[name] = reason
        else:
            markers = parents.get(name, {})
            locked.append(_package(entry, projects, markers))
    return locked, reasons


def _project_names(entries: Iterable[dict]) -> set[str]:
    names = set()
    for entry in entries:
        if {"editable", "virtual"} & set(_source(entry)):
            names.add(canonicalize_name(entry["name"]))
    return names


def _parents(entries: Iterable[dict]) -> Parents:
    parents: Parents = {}
    for entry in entries:
        name = canonicalize_name(entry["name"])
        for dependency, marker in _dependencies(entry):
            needing = parents.setdefault(dependency, {})
            needing.setdefault(name, []).append(marker)
    return parents


def _package(entry: dict, projects: set[str], parents: Markers) -> Package:
    conditions = _own_markers(entry)
    if projects:  # only uv writes down what the project itself needs
        conditions.append(_marker_of_parents(parents))
    text = f"{canonicalize_name(entry['name'])}=={entry['version']}"
    condition = _join(conditions, " and ")
    if condition:
        text = f"{text}; {condition}"
    package = Package(Requirement(text), frozenset(_hashes(entry)))
    if not parents.keys() & projects:
        package.needed_by = tuple(sorted(parents))
    return package


def _marker_of_parents(parents: Markers) -> str:
    """Return the marker under which a package is needed. uv's markers of extras are names of its
    own: "" for these.
    """
    markers = list(itertools.chain.from_iterable(parents.values()))
    if any("extra" in marker for marker in markers):
        return ""
    return _either(markers)


def _source(entry: dict) -> dict:
    source = dict(entry.get("source", {}))
    for key in ("vcs", "directory", "archive"):
        if key in entry:
            source[key] = True
    return source


def _elsewhere(entry: dict, indexes: Collection[str]) -> str:
    """Return the reason why a package is of none of these indexes; "" if it is of one."""
    source = _source(entry)
    kinds = list(source)
    if "type" in source:  # Poetry gives the kind as a type
        kinds = [source["type"]]
    for kind in kinds:
        if kind in _PLACES:
            return f"comes from {_PLACES[kind]}; only packages of an index can be judged"
    index = _index(entry, source).rstrip("/")
    if index and index not in indexes:
        return "comes from another index; UV_DEFAULT_INDEX names the one to look at"
    if "version" not in entry:
        return "has no version in the lock"
    return ""


def _index(entry: dict, source: dict) -> str:
    """Return the address of the index that a package comes from; "" if the lock names none."""
    if source.get("registry"):
        return str(source["registry"])
    if source.get("type") == "legacy" and source["url"]:
        return str(source["url"])
    return str(entry.get("index", ""))


def _dependencies(entry: dict) -> Iterator[tuple[str, str]]:
    """Yield (name of a needed package, marker or ""), with those of uv's extras and groups."""
    dependencies = entry.get("dependencies", ())
    if isinstance(dependencies, dict):
        yield from _poetry_dependencies(dependencies)
        return
    lists = [dependencies]
    lists += entry.get("optional-dependencies", {}).values()
    lists += entry.get("dev-dependencies", {}).values()
    for dependency in itertools.chain.from_iterable(lists):
        yield canonicalize_name(dependency["name"]), dependency.get("marker", "")


def _poetry_dependencies(dependencies: dict) -> Iterator[tuple[str, str]]:
    """Yield (name, marker or "") for Poetry's table,
    whose values are versions, tables, or lists of these.
    """
    for name, limits in dependencies.items():
        if not isinstance(limits, list):
            limits = [limits]
        for limit in limits:
            marker = ""
            if isinstance(limit, dict):
                marker = limit.get("markers", "")
            yield canonicalize_name(name), marker


def _either(markers: Iterable[str]) -> str:
    """Return the marker that holds if one of these does;
    "" if one of them is empty, or if there are none.
    """
    alternatives = list(dict.fromkeys(markers))
    if "" in alternatives:
        return ""
    return _join(alternatives, " or ")


def _join(markers: Iterable[str], operator: str) -> str:
    return operator.join(f"({marker})" for marker in markers if marker)


def _own_markers(entry: dict) -> list[str]:
    """Return the markers of a package itself; Poetry may have one for each group,
    uv one for each resolution.
    """
    marker = entry.get("marker", entry.get("markers", ""))
    if isinstance(marker, dict):
        marker = _either(marker.values())
    return [marker, _either(entry.get("resolution-markers", ()))]


def _hashes(entry: dict) -> Iterator[str]:
    files = list(entry.get("wheels", ()))
    files += entry.get("files", ())
    if "sdist" in entry:
        files.append(entry["sdist"])
    for file in files:
        if "hash" in file:
            yield file["hash"].lower()
        for algorithm, value in file.get("hashes", {}).items():
            yield f"{algorithm}:{value}".lower()
