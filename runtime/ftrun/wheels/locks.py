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

Parents = dict[str, dict[str, list[str]]]
"""{package: {package that needs it: markers under which it is needed}}."""


def packages(document: dict, indexes: Collection[str]) -> tuple[list[Package], dict[str, str]]:
    """Return the packages of a lock without the project's own, and {name: reason} of those that cannot be judged.

    Raises errors of wrong types for a document that is no lock. *indexes*: addresses of package indexes. Packages of
    other indexes, of repositories and of this machine cannot be judged.
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
            locked.append(_package(entry, projects, parents.get(name, {})))
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
            parents.setdefault(dependency, {}).setdefault(name, []).append(marker)
    return parents


def _package(entry: dict, projects: set[str], parents: dict[str, list[str]]) -> Package:
    conditions = _own_markers(entry)
    markers = list(itertools.chain.from_iterable(parents.values()))
    # Only uv writes down what the project itself needs. Its markers of extras are names of its own.
    if projects and not any("extra" in marker for marker in markers):
        conditions.append(_either(markers))
    text = f"{canonicalize_name(entry['name'])}=={entry['version']}"
    if condition := " and ".join(f"({marker})" for marker in conditions if marker):
        text = f"{text}; {condition}"
    needed_by = () if parents.keys() & projects else tuple(sorted(parents))
    return Package(Requirement(text), frozenset(_hashes(entry)), needed_by)


def _source(entry: dict) -> dict:
    source = dict(entry.get("source", {}))
    for key in ("vcs", "directory", "archive"):
        if key in entry:
            source[key] = True
    return source


def _elsewhere(entry: dict, indexes: Collection[str]) -> str:
    """Return the reason why a package is of none of these indexes; "" if it is of one."""
    source = _source(entry)
    kinds = [source["type"]] if "type" in source else list(source)  # Poetry gives the kind as a type
    for kind in kinds:
        if kind in _PLACES:
            return f"comes from {_PLACES[kind]}; only packages of an index can be judged"
    index = _index(entry, source)
    if index and index.rstrip("/") not in indexes:
        return "comes from another index; UV_DEFAULT_INDEX names the one to look at"
    return "" if "version" in entry else "has no version in the lock"


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
    """Yield (name, marker or "") for Poetry's table, whose values are versions, tables, or lists of these."""
    for name, limits in dependencies.items():
        if not isinstance(limits, list):
            limits = [limits]
        for limit in limits:
            marker = limit.get("markers", "") if isinstance(limit, dict) else ""
            yield canonicalize_name(name), marker


def _either(markers: Iterable[str]) -> str:
    """Return the marker that holds if one of these does; "" if one of them is empty, or if there are none."""
    alternatives = list(dict.fromkeys(markers))
    return "" if "" in alternatives else " or ".join(f"({marker})" for marker in alternatives)


def _own_markers(entry: dict) -> list[str]:
    """Return the markers of a package itself; Poetry may have one for each group, uv one for each resolution."""
    marker = entry.get("marker", entry.get("markers", ""))
    if isinstance(marker, dict):
        marker = _either(marker.values())
    return [marker, _either(entry.get("resolution-markers", ()))]


def _hashes(entry: dict) -> Iterator[str]:
    files = [*entry.get("wheels", ()), *entry.get("files", ())]
    if "sdist" in entry:
        files.append(entry["sdist"])
    for file in files:
        if "hash" in file:
            yield file["hash"].lower()
        for algorithm, value in file.get("hashes", {}).items():
            yield f"{algorithm}:{value}".lower()
