"""The objects that a dataset refers to through attributes and containers: finding, comparing and restoring them."""

import collections
import contextlib
import functools
import hashlib
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
from ftsafety.audit.libraries import LIMITS
from ftsafety.audit.locks import is_lock

_LIMIT = 20_000
"""Largest number of objects visited."""
_ELEMENTS = 200
"""Largest number of elements visited in each container."""
_COPIED = 1_000_000
"""Number of elements of the largest container that is restored."""
_HASHED = 64 << 20
"""Largest size in bytes of all hashed arrays together."""

ATOMS = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType)
_LEAVES = (*ATOMS, torch.Tensor, torch.Generator, np.ndarray, np.generic, threading.Thread, range, slice, mmap.mmap)
_CONTAINERS = (dict, list, set, collections.deque)


def is_undecoded(value: Any) -> bool:
    """True if *value* is an image that Pillow has opened but not decoded yet."""
    return any(cls.__module__ == "PIL.ImageFile" for cls in type(value).__mro__) and bool(
        attributes_of(value).get("tile")
    )


@dataclass(frozen=True)
class Node:
    """Object that threads share through the dataset."""

    path: str
    """Expression for the object, starting at the dataset: "dataset.cache"."""
    value: Any


def walk(dataset: Any) -> list[Node]:
    """Return the dataset and all objects that it refers to, breadth first. Attributes of C types are not followed."""
    queue = collections.deque([Node("dataset", dataset)])
    seen = {id(dataset)}
    nodes: list[Node] = []
    while queue and len(nodes) < _LIMIT:
        node = queue.popleft()
        nodes.append(node)
        with contextlib.suppress(Exception):  # a user-defined container may raise anything
            for name, value in _children(node):
                if not is_a(value, ATOMS) and id(value) not in seen:
                    seen.add(id(value))
                    queue.append(Node(node.path + name, value))
    return nodes


def _children(node: Node) -> Iterator[tuple[str, Any]]:
    """Yield (suffix of the path, object) for each object that *node* refers to."""
    value = node.value
    if is_a(value, _LEAVES) or is_a(value, threading.local):
        return
    if is_a(value, dict):
        yield from ((f"[{repr(key)[:40]}]", child) for key, child in _some(value.items()))
    elif is_a(value, (list, tuple, collections.deque)):
        yield from ((f"[{number}]", child) for number, child in enumerate(_some(value)))
    elif is_a(value, (set, frozenset)):
        yield from (("[...]", child) for child in _some(value))
    if is_a(value, functools.partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif is_a(value, types.MethodType):
        yield ".__self__", value.__self__
    elif (wrapped := native_attribute(value, "__wrapped__")) is not None:  # a proxy, such as wrapt's
        yield "", wrapped
    elif is_a(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # empty
                yield f"'s {name}", cell.cell_contents
    attributes = _attributes(value)
    yield from ((f".{name}", child) for name, child in _some(attributes.items()))
    for cls in type(value).__mro__ if attributes else ():
        if is_user_code(_file_of(cls)):
            for name, child in list(vars(cls).items()):  # state of the class, which instances share as well
                if is_a(child, _CONTAINERS) or is_lock(child):
                    yield f".{name}", child


def with_several_names(dataset: Any) -> set[str]:
    """Return the names, such as ".cache", of all containers that the dataset refers to under more than one name."""
    names: dict[int, set[str]] = collections.defaultdict(set)
    nodes = walk(dataset)  # keeps the containers alive, so that ids stay unique
    for node in nodes:
        with contextlib.suppress(Exception):  # a user-defined container may raise anything
            for name, value in _children(node):
                if is_a(value, (*_CONTAINERS, bytearray, np.ndarray)):
                    names[id(value)].add(name)
    return {name for several in names.values() if len(several) > 1 for name in several}


def _attributes(value: Any) -> dict:
    """Return the attributes of *value*, slots included, by name."""
    attributes = {**attributes_of(value)}
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in [slots] if is_a(slots, str) else slots:
            member = cls.__dict__.get(name)
            if member is not None and is_a(member, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):
                    attributes[name] = member.__get__(value)
    return attributes


def _some(values: Any) -> list:
    try:
        return [value for _, value in zip(range(_ELEMENTS), values, strict=False)]
    except RuntimeError:  # changed by a thread of the dataset at the same time
        return []


def variables_of(classes: Iterable[type]) -> list[dict]:
    """Return the global variables of modules of user code, and the variables of the classes in these modules.

    The modules are those that define *classes* or their base classes. Each module and class gives a dictionary.
    """
    with contextlib.suppress(Exception):  # a metaclass may raise anything
        names = {kind.__module__ for cls in classes for kind in cls.__mro__ if is_user_code(_file_of(kind))}
        modules = [dict(vars(sys.modules[name])) for name in sorted(names)]
        kinds = [value for variables in modules for value in variables.values() if is_a(value, type)]
        return [*modules, *(dict(vars(kind)) for kind in kinds if is_user_code(_file_of(kind)))]
    return []


def _file_of(cls: type) -> str:
    return getattr(sys.modules.get(cls.__module__), "__file__", None) or "<frozen >"


def watched_files(nodes: list[Node]) -> set[str]:
    """Return the source files of the classes and functions in *nodes*, torch's too, but not the standard library's."""
    library = os.path.join(os.path.dirname(threading.__file__), "")
    installed = sysconfig.get_path("purelib")
    files = set()
    for node in nodes:
        if is_a(node.value, types.FunctionType):
            files.add(node.value.__code__.co_filename)
        else:
            files.update(_file_of(cls) for cls in type(node.value).__mro__)
    return {file for file in files if file.startswith(installed) or not file.startswith((library, "<frozen"))}


class Snapshot:
    """Saved state of a dataset. Attributes and containers can be restored; arrays are only hashed, to detect changes.

    There is no lock: no thread may use the dataset during ``restore``.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self._saved: list[tuple[Node, Any]] = []
        self._arrays: list[tuple[Node, bytes]] = []
        left = _HASHED
        for node in nodes:
            with contextlib.suppress(Exception):
                if is_a(node.value, (np.ndarray, torch.Tensor)) and _bytes(node.value) <= left:
                    digest = _digest(node.value)
                    if digest is not None:
                        self._arrays.append((node, digest))
                        left -= _bytes(node.value)
                if is_a(node.value, _CONTAINERS):
                    if _base(node.value).__len__(node.value) <= _COPIED:
                        self._saved.append((node, _contents(node.value)))
                elif _is_users(node.value):
                    self._saved.append((node, dict(attributes_of(node.value))))

    def restore(self) -> None:
        """Restore the saved attributes and containers."""
        for node, saved in self._saved:
            current: Any = node.value if is_a(node.value, _CONTAINERS) else attributes_of(node.value)
            with contextlib.suppress(Exception):
                if not _same(_contents(current), saved):
                    base: Any = _base(current)
                    base.clear(current)
                    (base.extend if hasattr(base, "extend") else base.update)(current, saved)

    def overwritten(self) -> list[str]:
        """Return the paths, such as "dataset.buffer", of arrays whose values have changed since the snapshot."""
        return [node.path for node, digest in self._arrays if _digest(node.value) != digest]


def _bytes(array: np.ndarray | torch.Tensor) -> int:
    return array.numel() * array.element_size() if is_a(array, torch.Tensor) else array.nbytes


def _digest(array: np.ndarray | torch.Tensor) -> bytes | None:
    """Return a hash of an array's values; None if the array is read-only or its bytes cannot be read."""
    if is_a(array, torch.Tensor):
        if array.device.type != "cpu" or array.layout != torch.strided or not array.numel():
            return None
        try:
            array = array.detach().contiguous().view(-1).view(torch.uint8).numpy()
        except (RuntimeError, TypeError):  # quantized, or of a class that holds its values elsewhere
            return None
    elif not array.flags.writeable or array.dtype.hasobject:
        return None
    return hashlib.blake2b(array.tobytes()).digest()


def _is_users(value: Any) -> bool:
    """True if the audit may restore the attributes of *value*: it is a dataset, or its class is in user code."""
    # A threading.local shows this thread's values; restoring would give them to another thread.
    if type(value).__module__.partition(".")[0] in LIMITS or is_a(value, threading.local):
        return False
    return is_a(value, torch.utils.data.Dataset) or any(
        is_user_code(_file_of(cls)) for cls in type(value).__mro__ if cls is not object
    )


def _base(value: Any) -> Any:
    """Return the standard type of a container, such as dict for a subclass of dict: its methods run no user code."""
    return next(kind for kind in (collections.OrderedDict, *_CONTAINERS) if is_a(value, kind))


def _contents(value: Any) -> Any:
    """Return the elements of a container as a plain dict, set or list."""
    base = _base(value)
    if issubclass(base, dict):
        return dict(base.items(value))
    return (set if base is set else list)(base.__iter__(value))


def _same(current: Any, saved: Any) -> bool:
    if len(current) != len(saved):
        return False
    if is_a(current, dict):
        return all(key in saved and value is saved[key] for key, value in current.items())
    if is_a(current, set):
        with contextlib.suppress(Exception):
            return current == saved
        return False
    return all(a is b for a, b in zip(current, saved, strict=True))
