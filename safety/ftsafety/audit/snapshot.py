"""Saved state of a dataset, which can be restored."""

import collections
import contextlib
import hashlib
import operator
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from ftloader.diagnosis.lookups import attributes_of, is_a
from ftsafety.audit.libraries import LIMITS
from ftsafety.audit.reachable import CONTAINERS, Node, is_of_user_code

_COPIED = 1_000_000
"""Number of elements of the largest container that is restored."""
_HASHED = 64 << 20
"""Largest size in bytes of all hashed arrays together."""


class DatasetSnapshot:
    """Saved state of a dataset. Attributes and containers can be restored; arrays are only hashed,
    to detect changes.

    There is no lock: no thread may use the dataset during ``restore``.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self._saved: list[tuple[Node, Any]] = []
        self._arrays: list[tuple[Node, bytes]] = []
        self._bytes_left = _HASHED
        for node in nodes:
            with contextlib.suppress(Exception):
                self._hash(node)
                self._save(node)

    def _hash(self, node: Node) -> None:
        if not is_a(node.value, (np.ndarray, torch.Tensor)):
            return
        size = _bytes(node.value)
        if size > self._bytes_left:
            return
        digest = _digest(node.value)
        if digest is not None:
            self._arrays.append((node, digest))
            self._bytes_left -= size

    def _save(self, node: Node) -> None:
        value = node.value
        if is_a(value, CONTAINERS):
            if _base(value).__len__(value) <= _COPIED:
                self._saved.append((node, _contents(value)))
        elif _may_be_restored(value):
            self._saved.append((node, dict(attributes_of(value))))

    def restore(self) -> None:
        """Restore the saved attributes and containers."""
        for node, saved in self._saved:
            with contextlib.suppress(Exception):
                _restore(node.value, saved)

    def overwritten(self) -> list[str]:
        """Return the paths, such as "dataset.buffer",
        of arrays whose values have changed since the snapshot.
        """
        return [node.path for node, digest in self._arrays if _digest(node.value) != digest]


def _restore(value: Any, saved: Any) -> None:
    container: Any = value
    if not is_a(value, CONTAINERS):
        container = attributes_of(value)
    if _same(_contents(container), saved):
        return
    base: Any = _base(container)
    base.clear(container)
    if hasattr(base, "extend"):
        base.extend(container, saved)
    else:
        base.update(container, saved)


def _bytes(array: np.ndarray | torch.Tensor) -> int:
    if is_a(array, torch.Tensor):
        return array.numel() * array.element_size()
    return array.nbytes


def _digest(array: np.ndarray | torch.Tensor) -> bytes | None:
    """Return a hash of an array's values; None if the array is read-only
    or its bytes cannot be read.
    """
    values = _bytes_of_tensor(array) if is_a(array, torch.Tensor) else _writeable(array)
    if values is None:
        return None
    return hashlib.blake2b(values.tobytes()).digest()


def _bytes_of_tensor(tensor: torch.Tensor) -> np.ndarray | None:
    if tensor.device.type != "cpu" or tensor.layout != torch.strided or not tensor.numel():
        return None
    try:
        values = tensor.detach().contiguous().view(-1)
        return values.view(torch.uint8).numpy()
    except (RuntimeError, TypeError):  # quantized, or of a class that holds its values elsewhere
        return None


def _writeable(array: np.ndarray) -> np.ndarray | None:
    if not array.flags.writeable or array.dtype.hasobject:
        return None
    return array


def _may_be_restored(value: Any) -> bool:
    """True if the audit may restore the attributes of *value*:
    it is a dataset, or its class is in user code.
    """
    # A threading.local shows this thread's values; restoring would give them to another thread.
    package, _, _ = type(value).__module__.partition(".")
    if package in LIMITS or is_a(value, threading.local):
        return False
    if is_a(value, torch.utils.data.Dataset):
        return True
    return any(is_of_user_code(cls) for cls in type(value).__mro__ if cls is not object)


def _base(value: Any) -> Any:
    """Return the standard type of a container, such as dict for a subclass of dict: its methods run
    no user code.
    """
    return next(kind for kind in (collections.OrderedDict, *CONTAINERS) if is_a(value, kind))


def _contents(value: Any) -> Any:
    """Return the elements of a container as a plain dict, set or list."""
    base = _base(value)
    if issubclass(base, dict):
        return dict(base.items(value))
    elements = base.__iter__(value)
    if base is set:
        return set(elements)
    return list(elements)


def _same(current: Any, saved: Any) -> bool:
    if len(current) != len(saved):
        return False
    if is_a(current, dict):
        return current.keys() == saved.keys() and _identical(
            current.values(), map(saved.get, current)
        )
    if is_a(current, set):
        with contextlib.suppress(Exception):
            return current == saved
        return False
    return _identical(current, saved)


def _identical(values: Iterable[Any], expected: Iterable[Any]) -> bool:
    return all(map(operator.is_, values, expected))
