"""Copies in depth of an iterable-style dataset, one for each worker thread.

A worker process has a copy of everything, by the fork or by ``pickle``, so code shards, counts and reads in the
members of its dataset without thinking of other workers. A copy is made here as ``pickle`` makes one
(``__reduce_ex__``, ``__getstate__``), with these exceptions:

- functions, classes and modules are the originals, whether or not they can be found by their name;
- so is memory that no worker can change: arrays that are read-only down to the one that owns the memory;
- so is what worker processes share too: NumPy's memory maps, tensors in shared memory (``share_memory_()``),
  the events, locks, queues and values of ``multiprocessing``;
- a lock becomes a new one, which nobody holds.
"""

import copy
import io
import pickle
import threading
import types
from typing import Any

import numpy as np
import torch

_PLAIN = frozenset({str, int, float, bool, type(None), list, dict, tuple, bytes})
_SHARED_BY_PROCESSES = ("multiprocessing.", "torch.multiprocessing.")
_LOCKS = (type(threading.Lock()), type(threading.RLock()))


class Original:
    """A dataset as it is now, ready to be copied any number of times.

    Raises:
        TypeError: if it holds what cannot be copied, such as an open file.
    """

    def __init__(self, dataset: Any) -> None:
        file = io.BytesIO()
        pickler = _Pickler(file)
        try:
            pickler.dump(dataset)
        except Exception as error:
            raise TypeError(
                f"{type(dataset).__name__} cannot be copied ({type(error).__name__}: {error}), and each worker thread "
                "needs its own copy of an iterable-style dataset. Open files, connections and generators in "
                "__iter__, give what holds them a __getstate__ that leaves them out, or use worker_method='process'"
            ) from error
        self._pickled, self._apart = file.getvalue(), pickler.apart

    def copy(self) -> Any:
        """A new copy. Raises what the dataset's own ``__setstate__`` and constructors raise."""
        return _Unpickler(io.BytesIO(self._pickled), self._apart).load()


class _Pickler(pickle.Pickler):
    """Sets apart what does not go through pickle; used once, by one thread."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.apart: list[tuple[Any, bool]] = []
        """Objects, and whether the copy has the original."""

    def persistent_id(self, value: Any) -> int | None:
        if type(value) in _PLAIN:
            return None
        if isinstance(value, (type, types.FunctionType, types.ModuleType)):
            shared = True
        elif type(value).__module__.startswith(_SHARED_BY_PROCESSES):
            shared = True
        elif isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                return None
            shared = isinstance(value, np.memmap) or _is_read_only(value)
        elif isinstance(value, torch.Tensor):
            shared = value.is_shared()
        else:
            return None
        self.apart.append((value, shared))
        return len(self.apart) - 1

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, _LOCKS):
            return type(value), ()
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    """Makes one copy."""

    def __init__(self, file: io.BytesIO, apart: list[tuple[Any, bool]]) -> None:
        super().__init__(file)
        self._apart = apart
        self._copied: dict[int, Any] = {}  # deepcopy's memo: tensors on one storage stay so

    def persistent_load(self, number: int) -> Any:
        value, shared = self._apart[number]
        return value if shared else copy.deepcopy(value, self._copied)


def _is_read_only(array: np.ndarray) -> bool:
    """Whether nobody can write to the array's memory through it or what it is a view of."""
    value: Any = array
    while isinstance(value, np.ndarray):
        if isinstance(value, np.memmap):
            return True  # mapped, so processes would share it
        if value.flags.writeable:
            return False
        value = value.base
    return value is None or isinstance(value, bytes)
