"""Makes deep copies of the dataset, ``collate_fn`` and ``worker_init_fn`` for each worker thread:
of an iterable-style dataset always, of a map-style one with ``copy_dataset=True``.

In a worker process everything is a copy, and datasets rely on that. The copies here are made as
``pickle`` makes them (``__reduce_ex__``, ``__getstate__``), except that a lock becomes a new, free
lock, and a ``threading.local`` a new one with its values in the thread that calls ``iter()``, as
after a fork. A copy shares with the original:

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
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
import torch

from ftloader.compat.torch_private import DatasetKind
from ftloader.diagnosis.exceptions import text_of
from ftloader.diagnosis.limits import usable_memory
from ftloader.diagnosis.lookups import attributes_of, is_a
from ftloader.errors import Cancelled
from ftloader.rng.generators import PROGRAMS

_PLAIN = frozenset({str, int, float, bool, type(None), list, dict, tuple, bytes})
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_CTYPES = (ctypes.Array, ctypes.Structure, ctypes.Union, ctypes._SimpleCData)
_DEPTH = 5  # attributes of attributes that an error names
_SHARED_BY_PROCESSES = ("multiprocessing.", "torch.multiprocessing.")


class UserObjects(NamedTuple):
    """The user-supplied objects that one worker uses."""

    dataset: Any
    collate_fn: Callable[[Any], Any]
    worker_init_fn: Callable[[int], Any] | None


class Copier:
    """Maker of copies of *original*, which is pickled here and now. All copies refer to the same
    objects *shared*, which are not copied.

    ``copy()`` makes one copy at a time, in the thread that calls it: without the GIL, an object
    belongs to the thread that made it, and that thread changes its reference count without an
    atomic operation (PEP 703).

    Raises:
        TypeError: if an object cannot be pickled.
        MemoryError: if *count* copies are larger than all memory that this process may use.
    """

    def __init__(
        self,
        original: UserObjects,
        dataset_kind: int,
        count: int,
        shared: Iterable[Any] = (),
    ) -> None:
        self._iterable = dataset_kind == DatasetKind.Iterable
        parts = {
            type(original.dataset).__name__: original.dataset,
            "worker_init_fn or collate_fn": original[1:],
        }
        file = io.BytesIO()
        pickler = _SharingPickler(file, shared) if shared else _Pickler(file)
        for name, part in parts.items():
            try:
                pickler.dump(part)  # the functions refer to what is in the dataset
            except MemoryError:
                raise
            except Exception as error:
                raise self._no_copy(name, part, error) from error
        self._name = next(iter(parts))
        self._pickle, self._apart = file.getvalue(), pickler.apart
        # bytes of one copy, or more: small objects are larger than their pickles
        self.nbytes = len(self._pickle) + _nbytes_apart(self._apart)
        memory = usable_memory()
        if self.nbytes * count > memory:
            raise MemoryError(
                f"{count} copies of {self._name} have {self.nbytes:,} bytes or more each, and this "
                f"process may use {memory:,}: use fewer workers, or share the large arrays: make "
                "them read-only (array.flags.writeable = False), memory maps, or tensors after "
                "share_memory_()"
            )
        self._turn = threading.Lock()  # held by the worker that makes its copy
        self._ends: SimpleQueue[BaseException | None] = SimpleQueue()  # see wait()
        self._seen = 0  # ends that wait() has taken
        self.cancelled = False  # True once no copy is needed any more

    def copy(self) -> UserObjects:
        """Return a new copy. Raise ``TypeError`` if that fails, ``Cancelled`` if none is needed."""
        failure = None
        with self._turn:
            try:
                if self.cancelled:
                    raise Cancelled
                return self._copy()
            except BaseException as error:
                failure = error
                raise
            finally:
                self._ends.put(failure)

    def _copy(self) -> UserObjects:
        unpickler = _Unpickler(io.BytesIO(self._pickle), self._apart)
        try:
            return UserObjects(unpickler.load(), *unpickler.load())
        except Exception as error:
            raise self._no_copy(self._name, None, error) from error

    def wait(self, number: int) -> None:
        """Wait until *number* copies were made. Raise the error of one that failed.

        Called by one thread at a time.
        """
        while self._seen < number:
            failure = self._ends.get()
            self._seen += 1
            if failure is not None:
                raise failure

    def _no_copy(self, name: str, value: Any, error: Exception) -> TypeError:
        path = _path_to_what_fails(value)
        place = f"{name}{path}" if path else name
        why, open_in = "copy_dataset=True gives each worker thread its own", "at their first use"
        if self._iterable:
            why = "each worker thread needs its own copy of an iterable-style dataset"
            open_in = "in __iter__"
        return TypeError(
            f"{place} cannot be copied ({text_of(error)}), and {why}, with the functions that come "
            f"with it. Open files, connections and generators {open_in}, give what holds them a "
            "__getstate__ that leaves them out, or use worker_method='process'"
        )


Sources = list[UserObjects | Copier]
"""Each worker's user objects, or the ``Copier`` from which its thread makes them."""


def sources_of(loader: Any, count: int) -> Sources:
    """Return the sources of the user objects of *count* workers of the DataLoader *loader*.

    Map-style dataset: the loader's own objects or, with ``copy_dataset``, one ``Copier``.
    Iterable-style: deep copies, made here. Raise ``TypeError`` if an object cannot be copied,
    ``MemoryError`` as ``Copier`` does.
    """
    kind = loader._dataset_kind
    original = UserObjects(loader.dataset, loader.collate_fn, loader.worker_init_fn)
    if kind == DatasetKind.Map and not loader.copy_dataset:
        return [original] * count
    copier = Copier(original, kind, count)
    if kind == DatasetKind.Map:
        return [copier] * count
    return [copier.copy() for _ in range(count)]


def _nbytes_apart(apart: list[tuple[Any, bool]]) -> int:
    """Return the bytes of the memory behind the arrays and tensors of *apart* that are copied."""
    sizes = {}  # each memory once, however many views of it there are
    for value, shared in apart:
        if shared:
            continue
        if isinstance(value, np.ndarray):
            owner = _owner(value)
            sizes[id(owner)] = owner.nbytes
        elif value.layout is torch.strided and not value.is_nested:
            storage = value.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
    return sum(sizes.values())


def _path_to_what_fails(value: Any) -> str:
    """Return the attributes that lead from *value* to what cannot be pickled: ".inner.file"; empty
    if no attribute is to blame.
    """
    path = ""
    for _ in range(_DEPTH):
        for name, attribute in attributes_of(value).copy().items():
            try:
                _Pickler(io.BytesIO()).dump(attribute)
            except Exception:
                path, value = f"{path}.{name}", attribute
                break
        else:
            break
    return path


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
        return self.set_apart(value.value if kind is _Shared else value, shared)

    def set_apart(self, value: Any, shared: bool) -> int:
        """Add *value* to ``apart``; return its place there."""
        self.apart.append((value, shared))
        return len(self.apart) - 1

    def reducer_override(self, value: Any) -> Any:
        if is_a(value, _LOCKS):
            return type(value), ()
        if is_a(value, threading.local):  # with the values of the thread that pickles it
            return type(value), (), value.__dict__.copy()
        if type(value) is types.FunctionType:
            return _function, (_Shared(value), value.__closure__)
        if type(value) is types.CellType:
            try:
                return types.CellType, (), (value.cell_contents,), None, None, _fill
            except ValueError:  # nothing is in it yet
                return types.CellType, ()
        return NotImplemented


class _SharingPickler(_Pickler):
    """Pickler whose copies also share the objects *shared* with the original."""

    def __init__(self, file: io.BytesIO, shared: Iterable[Any]) -> None:
        super().__init__(file)
        self._shared = {id(value): value for value in shared}  # alive, so that no id is used twice

    def persistent_id(self, value: Any) -> int | None:
        if id(value) in self._shared:
            return self.set_apart(value, True)
        return super().persistent_id(value)


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


def _owner(array: np.ndarray) -> np.ndarray:
    """Return the array that *array* is a view of, or *array* itself."""
    owner = array
    while type(_base(owner)) is np.ndarray:
        owner = _base(owner)
    return owner


def _copied_array(array: np.ndarray, memo: dict[int, Any]) -> np.ndarray:
    """Return a copy of *array*. Views of one array become views of one copy."""
    owner = _owner(array)
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
