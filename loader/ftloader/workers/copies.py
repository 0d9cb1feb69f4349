"""Makes deep copies of an iterable-style dataset, ``collate_fn``
and ``worker_init_fn`` for each worker thread.

In a worker process everything is a copy, and datasets rely on that. The copies here are made as
``pickle`` makes them (``__reduce_ex__``, ``__getstate__``), except that a lock becomes a new, free
lock. A copy shares with the original:

- classes, modules and functions, importable or not; but the variables in a function's closure are
  copied;
- an ``object()``, which has nothing but its identity, and the program's random generators;
- memory that no worker can change: read-only arrays, if the array that owns the memory is read-only
  too;
- objects that worker processes share too: memory maps, tensors in shared memory
  (``share_memory_()``) or on a GPU, the events, locks, queues and values of ``multiprocessing``,
  and arrays on their memory;
- the parameters of a model, which a ``collate_fn`` may hold: they are large, and workers only read
  them.
"""

import copy
import ctypes
import io
import mmap
import pickle
import threading
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from ftloader.compat.torch_private import DatasetKind
from ftloader.diagnosis.exceptions import text_of
from ftloader.diagnosis.lookups import is_a
from ftloader.rng.generators import PROGRAMS

_PLAIN = frozenset({str, int, float, bool, type(None), list, dict, tuple, bytes})
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_CTYPES = (ctypes.Array, ctypes.Structure, ctypes.Union, ctypes._SimpleCData)
_SHARED_BY_PROCESSES = ("multiprocessing.", "torch.multiprocessing.")


class UserObjects(NamedTuple):
    """The user-supplied objects that one worker uses."""

    dataset: Any
    collate_fn: Callable[[Any], Any]
    worker_init_fn: Callable[[int], Any] | None


def copies_for_workers(original: UserObjects, dataset_kind: int, count: int) -> list[UserObjects]:
    """Return the user objects of each of *count* workers: the originals if the dataset is
    map-style, else deep copies.

    Raise ``TypeError`` if an object cannot be copied.
    """
    # The workers of a map-style dataset share the original. Those of an iterable-style dataset get
    # a deep copy each, as processes do.
    if dataset_kind == DatasetKind.Map:
        return [original] * count
    parts = {
        type(original.dataset).__name__: original.dataset,
        "worker_init_fn or collate_fn": original[1:],
    }
    file = io.BytesIO()
    pickler = _Pickler(file)
    try:
        for name in parts:
            pickler.dump(parts[name])  # the functions refer to what is in the dataset
        copies = []
        for _ in range(count):
            unpickler = _Unpickler(io.BytesIO(file.getvalue()), pickler.apart)
            loaded = {}
            for name in parts:
                loaded[name] = unpickler.load()
            dataset, functions = loaded.values()
            copies.append(UserObjects(dataset, *functions))
    except Exception as error:
        raise TypeError(
            f"{name} cannot be copied ({text_of(error)}), and each worker thread needs its own "
            "copy of an iterable-style dataset and of the functions that come with it. Open files, "
            "connections and generators in __iter__, give what holds them a __getstate__ that "
            "leaves them out, or use worker_method='process'"
        ) from error
    return copies


class _Shared(NamedTuple):
    """Wrapper that keeps ``_Pickler`` from copying a value:
    the copied object refers to the original value.
    """

    value: Any


class _Pickler(pickle.Pickler):
    """Pickler that puts arrays, tensors and shared objects into the list ``apart``, not into the
    pickle. Used once.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        # objects set aside; True: the copy shares it with the original
        self.apart: list[tuple[Any, bool]] = []

    def persistent_id(self, value: Any) -> int | None:
        kind = type(value)
        if kind in _PLAIN:
            return None
        shared = kind is _Shared or _is_shared(value)
        is_array = kind is np.ndarray and not value.dtype.hasobject
        if not (shared or is_array or is_a(value, torch.Tensor)):
            return None
        self.apart.append((value.value if kind is _Shared else value, shared))
        return len(self.apart) - 1

    def reducer_override(self, value: Any) -> Any:
        if is_a(value, _LOCKS):
            return type(value), ()
        if type(value) is types.FunctionType:
            return _function, (_Shared(value), value.__closure__)
        if type(value) is types.CellType:
            try:
                return types.CellType, (), (value.cell_contents,), None, None, _fill
            except ValueError:  # nothing is in it yet
                return types.CellType, ()
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    """Unpickler that makes one copy of an object from its pickle and from what ``_Pickler`` left
    out of the pickle.
    """

    def __init__(self, file: io.BytesIO, apart: list[tuple[Any, bool]]) -> None:
        super().__init__(file)
        self._apart = apart
        # deepcopy's memo: views of one memory are views of one copy
        self._copied: dict[int, Any] = {}

    def persistent_load(self, number: int) -> Any:
        value, shared = self._apart[number]
        if shared:
            return value
        return (
            _copied_array(value, self._copied)
            if type(value) is np.ndarray
            else copy.deepcopy(value, self._copied)
        )


def _is_shared(value: Any) -> bool:
    """Return True if copies share *value* with the original,
    as listed in this module's docstring.
    """
    if type(value) is types.FunctionType:
        return value.__closure__ is None
    if is_a(value, (type, types.ModuleType)) or type(value) is object:
        return True
    if is_a(value, np.ndarray):
        return _lies_on_shared_memory(value)
    if is_a(value, torch.Tensor):
        is_parameter = isinstance(value, torch.nn.Parameter)
        return (
            value.layout is torch.strided
            and not value.is_nested
            and (is_parameter or value.is_shared())
        )
    if is_a(value, _CTYPES):
        return hasattr(value, "_wrapper")  # multiprocessing.sharedctypes made it
    return str(type(value).__module__).startswith(_SHARED_BY_PROCESSES) or any(
        value is generator for generator in PROGRAMS.values()
    )


def _lies_on_shared_memory(array: np.ndarray) -> bool:
    """Return True if copies may share the memory of *array*:
    worker processes would too, or it is read-only.
    """
    value: Any = array
    read_only = True
    while True:
        if isinstance(value, np.memmap) and value.mode == "c":
            return False  # writing to it makes a private copy
        if isinstance(value, mmap.mmap) or hasattr(value, "_wrapper"):
            return True
        if isinstance(value, np.ndarray):
            read_only = read_only and not value.flags.writeable
            value = _base(value)
        elif isinstance(value, memoryview):
            read_only = read_only and value.readonly
            value = value.obj
        else:
            return read_only and (value is None or isinstance(value, bytes))


def _base(array: np.ndarray) -> Any:
    """Return the object of which *array* is a view, or None.
    Skip the helper object that ``as_strided`` inserts.
    """
    base: Any = array.base
    return base.base if type(base).__name__ == "DummyArray" else base


def _copied_array(array: np.ndarray, memo: dict[int, Any]) -> np.ndarray:
    """Return a copy of *array*. Views of one array become views of one copy."""
    owner = array
    while type(_base(owner)) is np.ndarray:
        owner = _base(owner)
    if owner is array or _base(owner) is not None or not owner.flags.forc:
        return copy.deepcopy(array, memo)
    new = copy.deepcopy(owner, memo)
    offset = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    view = np.ndarray(array.shape, array.dtype, new.reshape(-1, order="A"), offset, array.strides)
    view.flags.writeable = array.flags.writeable
    return view


def _function(
    original: types.FunctionType, closure: tuple[types.CellType, ...]
) -> types.FunctionType:
    new = types.FunctionType(
        original.__code__, original.__globals__, original.__name__, original.__defaults__, closure
    )
    new.__kwdefaults__, new.__qualname__ = original.__kwdefaults__, original.__qualname__
    new.__dict__.update(original.__dict__)
    return new


def _fill(cell: types.CellType, state: tuple[Any]) -> None:
    (cell.cell_contents,) = state
