"""The objects that a dataset refers to, through attributes and containers, and how they are restored."""

import collections
import functools
import hashlib
import mmap
import os
import sys
import sysconfig
import threading
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ftloader.diagnosis.call_site import is_user_code
from ftsafety.audit.libraries import LIMITS

_LIMIT = 20_000
"""Number of objects visited; a dataset of a million file names has many of one kind."""
_ELEMENTS = 200
"""Number of elements visited in each container."""
_COPIED = 1_000_000
"""Number of elements of the largest container that is restored."""
_HASHED = 64 << 20
"""Bytes of all arrays together whose values are compared."""

_LEAVES = (
    str,
    bytes,
    int,
    float,
    complex,
    bool,
    type(None),
    type,
    types.ModuleType,
    torch.Tensor,
    torch.Generator,
    np.ndarray,
    np.generic,
    threading.Thread,
    range,
    slice,
    mmap.mmap,
)
_CONTAINERS = (dict, list, set, collections.deque)
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
LOCK_LIKE = (*_LOCKS, threading.Condition, threading.Semaphore)


@dataclass(frozen=True)
class Node:
    """An object that threads share through the dataset."""

    path: str
    """How the object is reached from the dataset: "dataset.cache"."""
    value: Any
    restorable: bool
    """True if the object is state of user code, which may be restored."""


def walk(dataset: Any) -> list[Node]:
    """Return the dataset and the objects that it refers to, breadth first; objects of C types are not entered."""
    queue = collections.deque([Node("dataset", dataset, True)])
    seen = {id(dataset)}
    nodes: list[Node] = []
    while queue and len(nodes) < _LIMIT:
        node = queue.popleft()
        nodes.append(node)
        for name, value, own in _children(node):
            if not isinstance(value, _LEAVES[:9]) and id(value) not in seen:
                seen.add(id(value))
                queue.append(Node(node.path + name, value, node.restorable and own))
    return nodes


def _children(node: Node) -> Iterator[tuple[str, Any, bool]]:
    """Yield (name, value, True if it is the user's) of each object that *node* refers to."""
    value = node.value
    if isinstance(value, _LEAVES) or isinstance(value, threading.local):
        return
    if isinstance(value, dict):
        for key, child in _some(value.items()):
            yield f"[{_short(key)}]", child, True
    elif isinstance(value, (list, tuple, collections.deque)):
        for number, child in enumerate(_some(value)):
            yield f"[{number}]", child, True
    elif isinstance(value, (set, frozenset)):
        for child in _some(value):
            yield "[...]", child, True
    if isinstance(value, functools.partial):
        yield from ((".func", value.func, True), (".args", value.args, True), (".keywords", value.keywords, True))
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__, True
    elif isinstance(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                yield f"'s {name}", cell.cell_contents, True
            except ValueError:  # empty
                continue
    attributes = _attributes(value)
    if attributes is not None:
        for name, child in _some(attributes.items()):
            yield f".{name}", child, True
        for cls in type(value).__mro__:
            if is_user_code(_file_of(cls)):
                for name, child in list(vars(cls).items()):  # state of the class, which instances share as well
                    if isinstance(child, (*_CONTAINERS, *LOCK_LIKE)):
                        yield f".{name}", child, True


def _attributes(value: Any) -> dict | None:
    """Return the attributes, slots included, of an object of a class written in Python."""
    attributes = {}
    try:
        attributes.update(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError):
        pass
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            member = cls.__dict__.get(name)
            if isinstance(member, types.MemberDescriptorType):
                try:
                    attributes[name] = member.__get__(value)
                except AttributeError:
                    continue
    return attributes or None


def _some(values: Any) -> list:
    try:
        return [value for _, value in zip(range(_ELEMENTS), values, strict=False)]
    except RuntimeError:  # changed by a thread of the dataset at the same time
        return []


def _short(key: Any) -> str:
    return repr(key)[:40]


def _file_of(cls: type) -> str:
    return getattr(sys.modules.get(cls.__module__), "__file__", None) or "<frozen >"


def watched_files(nodes: list[Node]) -> set[str]:
    """Return the files of the classes and functions that make up the dataset, installed ones too."""
    skipped = tuple(
        os.path.join(path, "")
        for path in (os.path.dirname(np.__file__), os.path.dirname(torch.__file__), os.path.dirname(threading.__file__))
    )
    installed = sysconfig.get_path("purelib")
    files = set()
    for node in nodes:
        if isinstance(node.value, types.FunctionType):
            files.add(node.value.__code__.co_filename)
        else:
            files.update(_file_of(cls) for cls in type(node.value).__mro__)
    return {file for file in files if file.startswith(installed) or not file.startswith((*skipped, "<frozen"))}


class Snapshot:
    """Attributes and containers of a dataset at one moment, and hashes of its arrays.

    Arrays are compared only, not put back. ``restore`` is for a moment in which no thread uses the dataset; so it
    needs no lock.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self._saved: list[tuple[Node, Any]] = []
        self._arrays: list[tuple[Node, bytes]] = []
        left = _HASHED
        for node in nodes:
            if isinstance(node.value, (np.ndarray, torch.Tensor)) and _bytes(node.value) <= left:
                digest = _digest(node.value)
                if digest is not None:
                    self._arrays.append((node, digest))
                    left -= _bytes(node.value)
            if not node.restorable:
                continue
            if isinstance(node.value, _CONTAINERS):
                if len(node.value) <= _COPIED:
                    self._saved.append((node, node.value.copy()))
            elif _is_users(node.value) and hasattr(node.value, "__dict__"):
                self._saved.append((node, dict(vars(node.value))))

    def restore(self) -> None:
        """Restore everything that has changed since."""
        for node, saved in self._saved:
            current = node.value if isinstance(node.value, _CONTAINERS) else vars(node.value)
            if _same(current, saved):
                continue
            current.clear()
            if isinstance(current, (list, collections.deque)):
                current.extend(saved)
            else:
                current.update(saved)

    def changes(self) -> list[tuple[str, str]]:
        """Return (path, change) of everything that has changed since."""
        found = []
        for node, saved in self._saved:
            if isinstance(node.value, _CONTAINERS):
                if not _same(node.value, saved):
                    found.append((node.path, f"{len(saved)} entries before, {len(node.value)} after"))
                continue
            current = vars(node.value)
            for name in sorted({*saved, *current}, key=str):
                if current.get(name, _MISSING) is not saved.get(name, _MISSING):
                    before, after = _describe(saved.get(name, _MISSING)), _describe(current.get(name, _MISSING))
                    found.append((f"{node.path}.{name}", f"{before} before, {after} after"))
        return found

    def overwritten(self) -> list[str]:
        """Return the paths of arrays whose values have changed since."""
        return [node.path for node, digest in self._arrays if _digest(node.value) != digest]


def _bytes(array: np.ndarray | torch.Tensor) -> int:
    return array.numel() * array.element_size() if isinstance(array, torch.Tensor) else array.nbytes


def _digest(array: np.ndarray | torch.Tensor) -> bytes | None:
    """Return a hash of an array's or tensor's values; None if it is read-only or its bytes cannot be read."""
    if isinstance(array, torch.Tensor):
        if array.device.type != "cpu" or array.layout != torch.strided or not array.numel():
            return None
        try:
            array = array.detach().contiguous().view(-1).view(torch.uint8).numpy()
        except (RuntimeError, TypeError):  # quantized, or of a class that holds its values elsewhere
            return None
    elif not array.flags.writeable or array.dtype.hasobject:
        return None
    return hashlib.blake2b(array.tobytes()).digest()


_MISSING = object()


def _is_users(value: Any) -> bool:
    """True if *value*'s attributes may be restored: a dataset, or an object of a user's class."""
    # A threading.local shows this thread's values; restoring would give them to another thread.
    if type(value).__module__.partition(".")[0] in LIMITS or isinstance(value, threading.local):
        return False
    return isinstance(value, torch.utils.data.Dataset) or any(
        is_user_code(_file_of(cls)) for cls in type(value).__mro__ if cls is not object
    )


def _same(current: Any, saved: Any) -> bool:
    if len(current) != len(saved):
        return False
    if isinstance(current, dict):
        return all(key in saved and value is saved[key] for key, value in current.items())
    if isinstance(current, set):
        return current == saved
    return all(a is b for a, b in zip(current, saved, strict=True))


def _describe(value: Any) -> str:
    if value is _MISSING:
        return "not there"
    if isinstance(value, (int, float, bool, str, type(None))):
        return repr(value)[:40]
    return f"a {type(value).__qualname__}"


def is_held(lock: Any) -> bool:
    """True if any thread holds *lock*."""
    if isinstance(lock, threading.Semaphore):
        return lock._value == 0
    if isinstance(lock, threading.Condition):
        lock = lock._lock  # type: ignore[attr-defined]  # not public
    if isinstance(lock, _LOCKS[1]):
        return lock._is_owned()  # type: ignore[attr-defined]  # RLock.locked() is new in 3.14
    return lock.locked()
