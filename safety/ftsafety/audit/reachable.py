"""The objects that a dataset refers to through attributes and containers."""

import collections
import contextlib
import functools
import itertools
import mmap
import os
import sys
import sysconfig
import threading
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ftloader.diagnosis.call_site import is_user_code
from ftloader.diagnosis.lookups import attributes_of, is_a
from ftrun.target import native_attribute
from ftsafety.audit.locks import is_lock

_LIMIT = 20_000
"""Largest number of objects visited."""
_ELEMENTS = 200
"""Largest number of elements visited in each container."""

ATOMS = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType)
CONTAINERS = (dict, list, set, collections.deque)
_LEAVES = (
    *ATOMS,
    torch.Tensor,
    torch.Generator,
    np.ndarray,
    np.generic,
    threading.Thread,
    threading.local,
    range,
    slice,
    mmap.mmap,
)


def is_undecoded(value: Any) -> bool:
    """True if *value* is an image that Pillow has opened but not decoded yet."""
    is_image = any(cls.__module__ == "PIL.ImageFile" for cls in type(value).__mro__)
    return is_image and bool(attributes_of(value).get("tile"))


@dataclass(frozen=True)
class Node:
    """Object that threads share through the dataset."""

    path: str
    """Expression for the object, starting at the dataset: "dataset.cache"."""
    value: Any


def walk(dataset: Any) -> list[Node]:
    """Return the dataset and all objects that it refers to, breadth first. Attributes of C types
    are not followed.
    """
    queue = collections.deque([Node("dataset", dataset)])
    visited = {id(dataset)}
    nodes: list[Node] = []
    while queue and len(nodes) < _LIMIT:
        node = queue.popleft()
        nodes.append(node)
        with contextlib.suppress(Exception):  # a user-defined container may raise anything
            for suffix, value in _children(node.value):
                if not is_a(value, ATOMS) and id(value) not in visited:
                    visited.add(id(value))
                    queue.append(Node(node.path + suffix, value))
    return nodes


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (suffix of the path, object) for each object that *value* refers to."""
    if is_a(value, _LEAVES):
        return
    yield from _elements(value)
    yield from _inner_objects(value)
    attributes = _attributes(value)
    for name, child in _first(attributes.items()):
        yield f".{name}", child
    if attributes:
        yield from _class_state(value)


def _elements(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the children of a container."""
    if is_a(value, dict):
        for key, child in _first(value.items()):
            yield f"[{repr(key)[:40]}]", child
    elif is_a(value, (list, tuple, collections.deque)):
        for number, child in enumerate(_first(value)):
            yield f"[{number}]", child
    elif is_a(value, (set, frozenset)):
        for child in _first(value):
            yield "[...]", child


def _inner_objects(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects in a function, or in a value that stands for another one."""
    if is_a(value, functools.partial):
        yield ".func", value.func
        yield ".args", value.args
        yield ".keywords", value.keywords
    elif is_a(value, types.MethodType):
        yield ".__self__", value.__self__
    # A proxy, such as wrapt's.
    elif (wrapped := native_attribute(value, "__wrapped__")) is not None:
        yield "", wrapped
    elif is_a(value, types.FunctionType):
        cells = value.__closure__ or ()
        for name, cell in zip(value.__code__.co_freevars, cells, strict=True):
            with contextlib.suppress(ValueError):  # empty
                yield f"'s {name}", cell.cell_contents


def _class_state(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the containers and locks of the class, which instances share as well."""
    for cls in type(value).__mro__:
        if not is_of_user_code(cls):
            continue
        for name, child in list(vars(cls).items()):
            if is_a(child, CONTAINERS) or is_lock(child):
                yield f".{name}", child


def with_several_names(dataset: Any) -> set[str]:
    """Return the names, such as ".cache", of all containers that the dataset refers to under more
    than one name.
    """
    names_by_id: dict[int, set[str]] = collections.defaultdict(set)
    nodes = walk(dataset)  # keeps the containers alive, so that ids stay unique
    for node in nodes:
        with contextlib.suppress(Exception):  # a user-defined container may raise anything
            for name, value in _children(node.value):
                if is_a(value, (*CONTAINERS, bytearray, np.ndarray)):
                    names_by_id[id(value)].add(name)
    several: set[str] = set()
    for names in names_by_id.values():
        if len(names) > 1:
            several |= names
    return several


def _attributes(value: Any) -> dict:
    """Return the attributes of *value*, slots included, by name."""
    attributes = {**attributes_of(value)}
    for cls in type(value).__mro__:
        for name in _slots(cls):
            member: Any = cls.__dict__.get(name)
            if is_a(member, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):
                    attributes[name] = member.__get__(value)
    return attributes


def _slots(cls: type) -> Iterable[str]:
    slots = cls.__dict__.get("__slots__", ())
    return [slots] if is_a(slots, str) else slots


def _first(values: Any) -> list:
    try:
        return list(itertools.islice(values, _ELEMENTS))
    except RuntimeError:  # changed by a thread of the dataset at the same time
        return []


def variables_of(classes: Iterable[type]) -> list[dict]:
    """Return the global variables of modules of user code,
    and the variables of the classes in these modules.

    The modules are those that define *classes* or their base classes.
    Each module and class gives a dictionary.
    """
    with contextlib.suppress(Exception):  # a metaclass may raise anything
        modules = _modules_of(classes)
        return modules + _class_variables(modules)
    return []


def _modules_of(classes: Iterable[type]) -> list[dict]:
    names: set[str] = set()
    for cls in classes:
        for base in cls.__mro__:
            if is_of_user_code(base):
                names.add(base.__module__)
    return [dict(vars(sys.modules[name])) for name in sorted(names)]


def _class_variables(modules: list[dict]) -> list[dict]:
    dictionaries = []
    for variables in modules:
        for value in variables.values():
            if is_a(value, type) and is_of_user_code(value):
                dictionaries.append(dict(vars(value)))
    return dictionaries


def is_of_user_code(cls: type) -> bool:
    """True if the module that defines *cls* is user code."""
    return is_user_code(_file_of(cls))


def _file_of(cls: type) -> str:
    return getattr(sys.modules.get(cls.__module__), "__file__", None) or "<frozen >"


def watched_files(nodes: list[Node]) -> set[str]:
    """Return the source files of the classes and functions in *nodes*,
    torch's too, but not the standard library's.
    """
    library = os.path.join(os.path.dirname(threading.__file__), "")
    installed = sysconfig.get_path("purelib")
    files = set()
    for node in nodes:
        if is_a(node.value, types.FunctionType):
            files.add(node.value.__code__.co_filename)
        else:
            files.update(map(_file_of, type(node.value).__mro__))
    for file in list(files):
        is_foreign = file.startswith((library, "<frozen"))
        if is_foreign and not file.startswith(installed):
            files.remove(file)
    return files
