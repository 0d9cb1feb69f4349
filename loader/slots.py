"""The memory of one batch, into which several workers write their samples."""

import threading
from math import prod
from typing import Any

import numpy as np
import torch
from torch.utils.data import default_collate
from torch.utils.data._utils.pin_memory import pin_memory

from loader.buffers import BufferPool
from loader.layout import Layout, Slot


class _Memory:
    """A storage as NumPy sees it. Not through ``tensor.numpy()``, which would mark the
    storage as not resizable for all time."""

    __slots__ = ("__array_interface__", "storage")

    def __init__(self, storage: torch.UntypedStorage, shape: tuple, dtype: np.dtype) -> None:
        self.storage = storage  # arrays refer to this object, and so keep the memory
        self.__array_interface__ = {
            "data": (storage.data_ptr(), False),
            "shape": shape,
            "typestr": dtype.str,
            "version": 3,
        }


class _Array:
    """One leaf's slots: *size* arrays of the leaf's shape, one behind the other."""

    __slots__ = ("_address", "_shape", "_slot", "_storage", "_strides", "_view")

    def __init__(self, slot: Slot, size: int, pool: BufferPool) -> None:
        self._slot = slot
        self._shape = (size, *slot.shape)
        self._strides = tuple(prod(self._shape[axis + 1 :]) for axis in range(len(self._shape)))
        self._storage = pool.take(size * slot.nbytes)
        self._address = self._storage.data_ptr()
        # A view of its own for the workers; the consumer gets another tensor.
        self._view: Any = (
            self.tensor()
            if slot.numpy_dtype is None
            else np.asarray(_Memory(self._storage, self._shape, slot.numpy_dtype))
        )

    def write(self, position: int, value: Any) -> None:
        if self._slot.numpy_dtype is None:
            self._view[position].copy_(value)
        elif not (_may_be_a_slot(value) and self._is_at(value, position)):
            self._view[position] = value

    def empty(self, position: int) -> np.ndarray:
        return self._view[position]

    def takes(self, shape: tuple[int, ...], dtype: np.dtype) -> bool:
        return self._slot.numpy_dtype == dtype and self._slot.shape == shape

    def copy(self, position: int) -> Any:
        """The sample's value, in memory of its own."""
        value = self._view[position]
        return value.clone() if self._slot.numpy_dtype is None else value.copy()

    def tensor(self) -> torch.Tensor:
        """A new tensor on all slots, of shape (size, *slot.shape)."""
        tensor = torch.empty(0, dtype=self._slot.dtype)
        return tensor.set_(self._storage, 0, self._shape, self._strides)

    def _is_at(self, value: np.ndarray, position: int) -> bool:
        """Whether *value* was written in place already (see ``empty_sample``)."""
        there = self._address + position * self._slot.nbytes
        return value.__array_interface__["data"][0] == there and value.flags.c_contiguous


def _may_be_a_slot(value: np.ndarray) -> bool:
    """Tells nearly all other arrays apart at once."""
    return type(value.base) is np.ndarray


class Slots:
    """The slots and columns of one batch of *size* samples.

    Each position is written by the one worker that claimed it, and read when all have
    finished; hence no lock. The batch's tensors are made by the thread that is to own
    them, in ``batch()``: without the GIL an object is freed at once only in the thread
    that created it.
    """

    __slots__ = ("_arrays", "_collated", "_columns", "_pin_device", "layout")

    def __init__(self, layout: Layout, size: int, pool: BufferPool, pin_device: str | None) -> None:
        self.layout = layout
        self._pin_device = pin_device
        self._arrays: list[_Array | None] = []
        self._columns: list[list | None] = []
        for leaf in layout.leaves:
            slot = isinstance(leaf, Slot)
            self._arrays.append(_Array(leaf, size, pool) if slot else None)
            self._columns.append(None if slot else [None] * size)
        self._collated: list = []

    def write(self, position: int, sample: Any) -> bool:
        """Copies *sample* to *position*; False, with nothing written that counts, if it has
        another layout."""
        values = self.layout.flatten(sample)
        if values is None:
            return False
        for array, column, value in zip(self._arrays, self._columns, values):
            if array is not None:
                array.write(position, value)
            else:
                column[position] = value
        return True

    def sample(self, position: int) -> Any:
        """The sample that was written to *position*, its arrays copied."""
        return self.layout.sample(
            [
                column[position] if array is None else array.copy(position)
                for array, column in zip(self._arrays, self._columns)
            ]
        )

    def collate_columns(self) -> None:
        """What is not in slots, by torch's ``default_collate``. Raises what that raises."""
        for leaf, column in zip(self.layout.leaves, self._columns):
            data = None
            if column is not None:
                data = default_collate(tuple(column) if leaf.container is tuple else column)
                if self._pin_device is not None:
                    data = pin_memory(data, self._pin_device)
            self._collated.append(data)

    def batch(self) -> Any:
        """The batch: new tensors on the slots, and the collated columns."""
        return self.layout.batch(
            [
                collated if array is None else array.tensor()
                for array, collated in zip(self._arrays, self._collated)
            ]
        )

    def array_at(self, position: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
        """The first slot at *position* that takes such an array; None if there is none."""
        for array in self._arrays:
            if array is not None and array.takes(shape, dtype):
                return array.empty(position)
        return None


class _Place(threading.local):
    """Where the sample that this thread is loading will be written; hence no lock."""

    slots: Slots | None = None
    position = 0


place = _Place()


def empty_sample(shape: tuple[int, ...], dtype: Any = np.uint8) -> np.ndarray:
    """An uninitialised array for the sample being loaded, if possible in its batch's memory.

    A dataset (or decoder) that fills this array and returns it saves the copy into the
    batch. In a worker thread it is the sample's slot of the batch where samples of this
    shape and type are expected there; anywhere else (worker processes, outside loaders,
    the first samples) it is an array like ``numpy.empty``'s. Ask once per sample, return
    the array or a whole one made from it, and do not keep it: it belongs to the batch.

    Args:
        shape: of the sample, without the batch's dimension.
        dtype: anything that ``numpy.dtype`` takes.
    """
    slots = place.slots
    if slots is not None:
        place.slots = None  # a second array of the same sample must be another one
        array = slots.array_at(place.position, tuple(shape), np.dtype(dtype))
        if array is not None:
            return array
    return np.empty(shape, dtype)
