"""The memory of one batch, into which several workers write their samples."""

from collections.abc import Callable
from ctypes import memmove
from math import prod
from typing import Any

import numpy as np
import torch

from ftloader.batch.layout import Column, Layout, Slot
from ftloader.batch.memory import BufferPool
from ftloader.batch.size import nbytes_of
from ftloader.compat.torch_private import pinned
from ftloader.current import this_thread


class _Memory:
    """Wrapper of the memory at *address*, for ``numpy.asarray``.
    The resulting array keeps *owner* alive.
    """

    # Not tensor.numpy(), which would mark the storage forever.

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, address: int, shape: tuple, dtype: np.dtype, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "typestr": dtype.str,
            "version": 3,
        }


class _Array:
    """The slots of one leaf in one batch: *size* arrays of the leaf's shape, back to back.

    This object owns the memory until ``release()``. The memory is reused once nothing refers to it
    any more. So workers write through ``_view``, which does not count as a reference, or through
    tensors that they drop after one write.
    """

    __slots__ = ("__weakref__", "_address", "_buffer", "_shape", "_slot", "_strides", "_view")

    def __init__(
        self, slot: Slot, size: int, pool: BufferPool, per_batch: int, pinned: bool
    ) -> None:
        self._slot = slot
        self._shape = (size, *slot.shape)
        self._strides = tuple(prod(self._shape[axis + 1 :]) for axis in range(len(self._shape)))
        self._buffer = pool.take(size * slot.nbytes, self, per_batch, pinned)
        self._address = self._buffer.storage.data_ptr()
        self._view: np.ndarray | None = None
        if slot.numpy_dtype is not None:
            self._view = np.asarray(_Memory(self._address, self._shape, slot.numpy_dtype, None))

    def write(self, position: int, value: Any) -> None:
        if self._view is None:
            # Zeros may have no memory in torch: then the address is 0.
            if value.is_contiguous() and (address := value.data_ptr()):
                # Takes a third of the time of making a tensor on the slot and copying to that.
                memmove(self._address_of(position), address, self._slot.nbytes)
            else:
                self._tensor_at(position).copy_(value)
        elif not self._is_at(value, position):
            self._view[position] = value

    def separate(self, position: int, values: list, own: int) -> list:
        """Return *values*, with copies in place of those
        that writing ``values[own]`` to *position* would overwrite.
        """
        # empty_sample() gave the slot to the sample, so other values may be views of it.
        if self._is_at(values[own], position):
            return values  # nothing will be written
        begin = self._address_of(position)
        end = begin + self._slot.nbytes
        copies = list(values)
        for leaf, value in enumerate(values):
            if leaf == own or not _lies_in(value, begin, end):
                continue
            if isinstance(value, torch.Tensor):
                copies[leaf] = value.clone()
            else:
                copies[leaf] = value.copy(order="K")
        return copies

    def give(self, position: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
        """Return an array on the memory of the slot at *position*; None if the slot has another
        *shape* or *dtype*.
        """
        if self._slot.numpy_dtype != dtype or self._slot.shape != shape:
            return None
        return np.asarray(_Memory(self._address_of(position), shape, dtype, self._buffer.storage))

    def copy(self, position: int) -> Any:
        if self._view is None:
            return self._tensor_at(position).clone()
        return self._view[position].copy()

    def tensor(self) -> torch.Tensor:
        """Return a new tensor of shape (size, *slot.shape) on the memory of all slots."""
        return self._new_tensor(0, self._shape, self._strides)

    def release(self) -> None:
        """Give up the memory. No method may be called on this object afterwards."""
        self._buffer.release()

    def _tensor_at(self, position: int) -> torch.Tensor:
        return self._new_tensor(position * self._strides[0], self._slot.shape, self._strides[1:])

    def _new_tensor(self, offset: int, shape: tuple, strides: tuple) -> torch.Tensor:
        # On the CPU, even if the program has set another default device.
        return torch.empty(0, dtype=self._slot.dtype, device="cpu").set_(
            self._buffer.storage, offset, shape, strides
        )

    def _address_of(self, position: int) -> int:
        return self._address + position * self._slot.nbytes

    def _is_at(self, value: np.ndarray, position: int) -> bool:
        """Return True if *value* is the slot at *position* itself,
        which the dataset got from ``empty_sample``.
        """
        if value.base is None:  # it owns its memory, as nearly all do
            return False
        address = value.__array_interface__["data"][0]
        return address == self._address_of(position) and value.flags.c_contiguous


def _lies_in(value: Any, begin: int, end: int) -> bool:
    """Return True if the memory of *value* may overlap the addresses from *begin* to *end*."""
    if isinstance(value, np.ndarray):
        first, last = np.lib.array_utils.byte_bounds(value)
    elif (
        type(value) is torch.Tensor
        and value.is_cpu
        and value.layout is torch.strided
        and not value.is_nested
    ):
        storage = value.untyped_storage()
        first, last = storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    else:
        return False
    return first < end and begin < last


class Slots:
    """The slots and columns of one batch of *size* samples.

    No lock: only the worker that claimed a position writes there, and other threads read after all
    workers have finished. The consumer calls ``batch()``, so that its thread creates the tensors.
    Without the GIL, an object is freed without delay only in the thread that created it.
    """

    __slots__ = ("_collated", "_parts", "_pin_device", "_size", "layout")

    def __init__(self, layout: Layout, size: int, pool: BufferPool, pin_device: str | None) -> None:
        self.layout = layout
        self._size = size
        self._pin_device = pin_device
        # for each leaf an array of slots, or a column of values
        self._parts: list[_Array | list] = []
        for leaf in layout.leaves:
            if isinstance(leaf, Slot):
                array = _Array(leaf, size, pool, layout.slots, pin_device is not None)
                self._parts.append(array)
            else:
                self._parts.append([None] * size)
        self._collated: list = []  # columns; None in the place of an array

    def write(self, position: int, sample: Any) -> bool:
        """Copy *sample* to *position* and return True.
        If it has another layout, return False and copy nothing.
        """
        values = self.layout.flatten(sample)
        if values is None:
            return False
        if (leaf := this_thread.sample.given) is not None:
            values = self._parts[leaf].separate(position, values, leaf)  # type: ignore[union-attr]  # from give()
        for part, value in zip(self._parts, values):
            if isinstance(part, list):
                part[position] = value
            else:
                part.write(position, value)
        return True

    def sample(self, position: int) -> Any:
        """Return the sample that was written to *position*, with copies of its arrays."""
        values = []
        for part in self._parts:
            if isinstance(part, list):
                values.append(part[position])
            else:
                values.append(part.copy(position))
        return self.layout.nest(values, batched=False)

    def collate_columns(self, collate_fn: Callable[[Any], Any]) -> None:
        """Collate the values of each leaf that has no slots,
        with *collate_fn* (torch's ``default_collate``).
        """
        for leaf, column in zip(self.layout.leaves, self._parts):
            data = None
            if isinstance(leaf, Column):
                data = pinned(collate_fn(leaf.container(column)), self._pin_device)
            self._collated.append(data)

    @property
    def nbytes(self) -> int:
        """The size of the batch in bytes, once its columns are collated."""
        return self._size * self.layout.nbytes + nbytes_of(self._collated)

    def batch(self) -> Any:
        """Return the batch: new tensors on the slots, and the collated columns. Call once."""
        if torch.is_inference_mode_enabled():
            # ordinary tensors there too, like those that workers collate
            with torch.inference_mode(False):
                return self.batch()
        leaves = list(self._collated)
        for leaf, part in enumerate(self._parts):
            if isinstance(part, _Array):
                leaves[leaf] = part.tensor()
        self.release()
        return self.layout.nest(leaves, batched=True)

    def release(self) -> None:
        """Give up the memory. No method may be called on this object afterwards."""
        for part in self._parts:
            if isinstance(part, _Array):
                part.release()

    def give(
        self, position: int, shape: tuple[int, ...], dtype: np.dtype
    ) -> tuple[int, np.ndarray] | None:
        """Return (leaf number, slot at *position*) of the first leaf
        with this *shape* and *dtype*, or None.
        """
        for leaf, part in enumerate(self._parts):
            if (
                isinstance(part, _Array)
                and (given := part.give(position, shape, dtype)) is not None
            ):
                return leaf, given
        return None


def empty_sample(shape: tuple[int, ...], dtype: Any = np.uint8) -> np.ndarray:
    """Return an uninitialised array for the sample being loaded, if possible in its batch's memory.

    *shape* is the shape of one sample, without the batch dimension. In a worker thread the array is
    the sample's slot of the batch, if samples of this shape and type are expected. Otherwise it is
    ``numpy.empty(shape, dtype)``. If a dataset or decoder fills and returns the slot, the sample
    need not be copied into the batch. Call this once per sample. The dataset must return this
    array, or an array of the same shape that it makes from this one. It must not keep a reference
    to this array.
    """
    sample_state = this_thread.sample
    if sample_state.slots is not None:
        leaf = sample_state.slots.give(sample_state.position, tuple(shape), np.dtype(dtype))
        if leaf is not None:
            sample_state.slots = None  # a second array of the same sample must be another one
            sample_state.given, array = leaf
            return array
    return np.empty(shape, dtype)
