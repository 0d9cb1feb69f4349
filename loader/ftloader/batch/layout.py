"""The structure of samples, so that their arrays can be written into a batch one by one.

A layout is the nesting of dicts, lists and (named) tuples of one sample, with its leaves in a fixed
order. A large array or tensor has a slot in the batch's memory. All other leaves (numbers, strings,
small arrays) are collected in columns and go through torch's ``default_collate``. A sample without
any slot has no layout: torch collates its batch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch

from ftloader.compat.torch_private import collate as _torch_collate
from ftloader.compat.torch_private import collation_name

SMALLEST_SLOT = 128 << 10
"""Smallest size in bytes of an array that has a slot.

With a slot, the next sample reuses this sample's memory, which is in the CPU's caches, and page
faults are saved. Without slots, stacking all samples at once saves work for each value. Measured in
docs/results/2026-11-25-slots.md."""

_TORCHS_COLLATE_FUNCTIONS = {
    torch.Tensor: "collate_tensor_fn",
    np.ndarray: "collate_numpy_array_fn",
    (np.bool_, np.number, np.object_): "collate_numpy_scalar_fn",
    float: "collate_float_fn",
    int: "collate_int_fn",
    str: "collate_str_fn",
    bytes: "collate_str_fn",
}


def is_torchs_collation(collate_fn: Callable[[Any], Any]) -> bool:
    """Return True if *collate_fn* is torch's ``default_collate``,
    and the program has not changed torch's collation.
    """
    registered = _torch_collate.default_collate_fn_map
    return (
        collation_name(collate_fn) == "default_collate"
        and collation_name(_torch_collate.collate) == "collate"
        and {key: collation_name(function) for key, function in registered.items()}
        == _TORCHS_COLLATE_FUNCTIONS
    )


class _Leaf:
    __slots__ = ()

    def flatten(self, value: Any, leaves: list) -> bool:
        leaves.append(value)
        return True

    def nest(self, leaves: Iterator, batched: bool) -> Any:
        return next(leaves)


@dataclass(frozen=True, slots=True)
class Slot(_Leaf):
    """Leaf that is copied straight into the batch's memory:
    a large array or tensor of one shape and dtype.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    numpy_dtype: np.dtype | None  # None for tensors
    nbytes: int

    def flatten(self, value: Any, leaves: list) -> bool:
        """Append *value* to *leaves*. Return True if its type, shape and strides are those expected
        of this leaf.
        """
        leaves.append(value)
        if self.numpy_dtype is not None:
            return (
                type(value) is np.ndarray
                and value.dtype == self.numpy_dtype
                and value.shape == self.shape
                # torch.as_tensor refuses other strides.
                and (
                    value.flags.c_contiguous
                    or all(s >= 0 and s % value.itemsize == 0 for s in value.strides)
                )
                and not _is_channels_last(value.ndim, value.flags.c_contiguous)
            )
        return (
            type(value) is torch.Tensor
            and value.dtype is self.dtype
            and _is_plain(value)
            and value.shape == self.shape
        )


@dataclass(frozen=True, slots=True)
class Column(_Leaf):
    """Leaf without a slot: a list collects its values from all samples,
    and torch collates the list.
    """

    # tuple for elements of tuples and lists, else list, as in torch;
    # the difference shows for strings
    container: type


@dataclass(frozen=True, slots=True)
class _Container:
    type: type[Any]
    # of a dict; the order counts too: the batch takes it from its first sample
    keys: tuple[Any, ...]
    children: tuple["_Node", ...]

    def flatten(self, value: Any, leaves: list) -> bool:
        if type(value) is not self.type or len(value) != len(self.children):
            return False
        if self.type is dict:
            if tuple(value) != self.keys:
                return False
            value = value.values()
        return all(c.flatten(v, leaves) for c, v in zip(self.children, value))

    def nest(self, leaves: Iterator, batched: bool) -> Any:
        values = [c.nest(leaves, batched) for c in self.children]
        if self.type is dict:
            return dict(zip(self.keys, values))
        if self.type is list or (self.type is tuple and batched):  # torch makes lists of both
            return values
        if batched:
            return self.type(*values)
        # Not the type's own __new__ for a sample: it has run once already,
        # and may change the values.
        return tuple.__new__(self.type, values)


_Node = Slot | Column | _Container
"""Part of a layout. ``flatten`` appends the leaves of a value and returns False if the value has
another structure. ``nest`` is the inverse: it makes the sample from its leaves, or the batch as
torch nests it."""


class Layout:
    """The structure of a sample. Immutable; shared by all threads."""

    __slots__ = ("_root", "leaves", "nbytes", "slots")

    def __init__(self, sample: Any) -> None:
        self.leaves: list[Slot | Column] = []  # in the order of flatten()
        self._root = _describe(sample, list, self.leaves)
        sizes = [leaf.nbytes for leaf in self.leaves if isinstance(leaf, Slot)]
        self.slots = len(sizes)
        self.nbytes = sum(sizes)  # of a sample in slots

    @classmethod
    def of(cls, sample: Any) -> "Layout | None":
        """Return the layout of *sample*; None if it has no array
        or tensor that is large enough for a slot.
        """
        try:
            layout = cls(sample)
        except Exception:
            # RecursionError: a container in itself. Collation raises torch's own error
            return None
        if not layout.slots:
            return None
        return layout

    def flatten(self, sample: Any) -> list | None:
        """Return the values of the leaves of *sample*; None if *sample* has another layout."""
        leaves: list = []
        if not self._root.flatten(sample, leaves):
            return None
        return leaves

    def nest(self, leaves: list, batched: bool) -> Any:
        """Return *leaves* nested as in a sample or, if *batched*,
        as torch nests them in a batch of such samples.
        """
        return self._root.nest(iter(leaves), batched)


def _describe(value: Any, container: type, leaves: list[Slot | Column]) -> _Node:
    """Return the part of a layout that describes *value*, an element of *container*. Append its
    leaves to *leaves*.
    """
    kind, keys = type(value), ()
    if kind is dict:
        keys, value, container = tuple(value), value.values(), list
    elif kind is list or kind is tuple or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        container = tuple
    else:
        leaves.append(_slot(value) or Column(container))
        return leaves[-1]
    return _Container(kind, keys, tuple(_describe(child, container, leaves) for child in value))


def _slot(value: Any) -> Slot | None:
    if type(value) is np.ndarray:
        nbytes = value.nbytes
    elif type(value) is torch.Tensor and _is_plain(value):
        nbytes = prod(value.shape) * value.element_size()
    else:
        return None
    if nbytes < SMALLEST_SLOT:  # first: most values are small
        return None
    dtype = value.dtype
    numpy_dtype = None
    try:
        if isinstance(value, np.ndarray):
            numpy_dtype = value.dtype
            dtype = torch.from_numpy(np.empty(0, numpy_dtype)).dtype
    except (TypeError, ValueError):  # torch has no such type: strings, objects, foreign byte order
        return None
    slot = Slot(tuple(value.shape), dtype, numpy_dtype, nbytes)
    if not slot.flatten(value, []):
        return None
    return slot


# Newer torch has no named tensors (gone by 2.15).
_has_names = getattr(torch.Tensor, "has_names", lambda tensor: False)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Return True if copying the values of *tensor* loses nothing: a CPU tensor without gradient,
    names and so on.
    """
    return (
        tensor.is_cpu
        and tensor.layout is torch.strided
        and not tensor.is_nested  # which has no shape
        and not _is_channels_last(tensor.dim(), tensor.is_contiguous())
        and not tensor.requires_grad
        and not _has_names(tensor)
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
        and not tensor.is_inference()
    )


def _is_channels_last(dimensions: int, contiguous: bool) -> bool:
    """Return True if ``torch.stack`` may make the batch ``channels_last(_3d)``, a format that slots
    do not have.
    """
    return dimensions in (4, 5) and not contiguous
