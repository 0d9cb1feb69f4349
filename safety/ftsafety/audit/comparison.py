"""Immutable copies of samples, and their comparison.

A sample is copied as soon as it is loaded, since a dataset may overwrite it. Comparison is exact: types, shapes,
dtypes and bits (so a NaN equals itself).
"""

import contextlib
import dataclasses
import functools
import math
import pickle
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch

_ATOMS = (str, bytes, bool, int, complex, type(None))
_WHOLE = "the sample"
"""The path of the sample itself."""
_DEEPEST = 200
"""Levels of nested containers that are copied. What is nested deeper becomes opaque."""


@dataclasses.dataclass(frozen=True)
class Frozen:
    """Immutable copy of a value, for comparison."""

    kind: str
    """The type's name."""
    form: tuple = ()
    """Properties of the value: dtype and shape of an array, keys of a container, mode and size of an image."""
    data: Any = None
    """The value itself if its type is in `_ATOMS`, otherwise its bytes; None for a container."""
    parts: tuple["Frozen", ...] = ()

    @property
    def opaque(self) -> bool:
        """True if any part of the value could not be copied, so that only the type of this part is known."""
        return self.form == ("opaque",) or any(part.opaque for part in self.parts)


@dataclasses.dataclass(frozen=True)
class Raised(Frozen):
    """Copy of an exception that loading a sample raised, or that Python printed and ignored (in ``__del__``, ...)."""

    ignored: str = ""
    """The place of the exception if Python ignored it; an empty string if loading a sample raised it."""
    line: str = dataclasses.field(default="", compare=False)
    text: str = dataclasses.field(default="", compare=False)
    traceback: str = dataclasses.field(default="", compare=False)


class _UnreadableImageError(Exception):
    """An image cannot be decoded. Used only inside `freeze`, which raises the decoder's error instead."""


def freeze(value: Any) -> Frozen:
    """Return a deep copy of *value*. If a part cannot be copied, the copy has only the part's type.

    Copying decodes an image that Pillow has not decoded yet. Raises the decoder's error if that fails.
    """
    try:
        return _freeze(value, 0)
    except _UnreadableImageError as unreadable:
        raise unreadable.__cause__ or unreadable from None


def _freeze(value: Any, depth: int) -> Frozen:
    try:
        if depth < _DEEPEST:  # a list may hold itself
            freeze_part = functools.partial(_freeze, depth=depth + 1)
            return _copy_atom_or_array(value) or _copy_container(value, freeze_part)
    except _UnreadableImageError:
        raise
    except Exception as error:
        if _is_image(type(value)):
            raise _UnreadableImageError from error
    return Frozen(type(value).__qualname__, ("opaque",))


def _is_image(kind: type) -> bool:
    """True if *kind* is PIL.Image.Image or derived from it."""
    return any(cls.__module__ == "PIL.Image" for cls in kind.__mro__)


def _copy_atom_or_array(value: Any) -> Frozen | None:
    kind = type(value).__qualname__
    if isinstance(value, _ATOMS):
        return Frozen(kind, data=value)
    if isinstance(value, float):
        return Frozen(kind, data=struct.pack("d", value))
    if isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_quantized:
        return Frozen(kind, (str(value.dtype), tuple(value.shape)), _tensor_bytes(value))
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        return Frozen(kind, (value.dtype.str, value.shape), value.tobytes())
    if hasattr(value, "tobytes") and hasattr(value, "mode") and hasattr(value, "size"):
        # PIL.Image.Image
        return Frozen(kind, (value.mode, tuple(value.size)), value.tobytes())
    return None


def _tensor_bytes(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    if flat.is_conj() or flat.is_neg():
        flat = flat.resolve_conj().resolve_neg()
    return flat.view(torch.uint8).numpy().tobytes()


def _copy_container(value: Any, freeze_part: Callable[[Any], Frozen]) -> Frozen:
    """Return a copy of a container and its elements; of an object of unknown type, its pickled form."""
    kind = type(value).__qualname__
    if isinstance(value, np.ndarray):
        elements = tuple(map(freeze_part, value.ravel()))
        return Frozen(kind, (value.dtype.str, value.shape), parts=elements)
    if isinstance(value, (set, frozenset)):
        elements = tuple(sorted(map(freeze_part, value), key=repr))
        return Frozen(kind, (len(value),), parts=elements)
    parts = parts_of(value)
    if parts is None:
        return Frozen(kind, ("pickled",), pickle.dumps(value))
    elements = tuple(map(freeze_part, parts.values()))
    return Frozen(kind, tuple(map(repr, parts)), parts=elements)


def parts_of(value: Any) -> dict[Any, Any] | None:
    """Return the elements of a container by key, index or field name; None if *value* is no container."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (list, tuple)):
        names = getattr(value, "_fields", ())
        if len(names) != len(value):
            names = range(len(value))
        return dict(zip(names, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def difference(copy: Frozen, reference: Frozen, path: str = _WHOLE) -> str | None:
    """Return in words how *copy* differs from the copy *reference*; None if they are equal."""
    if copy == reference:
        return None
    if copy.kind != reference.kind:
        return f"{path} is {_brief(copy)} instead of {_brief(reference)}"
    if copy.form != reference.form:
        return f"{path} is a {copy.kind} of {_form(copy)} instead of {_form(reference)}"
    return _difference_of_parts(copy, reference, path) or f"{path}: {_values(copy, reference)}"


def _difference_of_parts(copy: Frozen, reference: Frozen, path: str) -> str | None:
    keys: Iterable[Any] = copy.form
    if len(copy.form) != len(copy.parts):
        keys = range(len(copy.parts))
    if path == _WHOLE:
        path = "sample"
    for key, part, reference_part in zip(keys, copy.parts, reference.parts, strict=True):
        how = difference(part, reference_part, f"{path}[{key}]")
        if how:
            return how
    return None


def structure(value: Frozen) -> Frozen:
    """Return the types, shapes and keys in *value*, for comparing samples whose data differ at each load."""
    if isinstance(value, Raised):
        return value
    form = () if value.form == ("pickled",) else value.form
    return Frozen(value.kind, form, parts=tuple(structure(part) for part in value.parts))


def _form(value: Frozen) -> str:
    if value.parts or not value.form:
        return f"{len(value.parts)} parts ({', '.join(map(str, value.form[:6]))})"
    return " ".join(map(str, value.form))


def _brief(value: Frozen) -> str:
    if isinstance(value, Raised):
        return f"an exception ({value.text})"
    if value.parts or isinstance(value.data, bytes):
        return f"a {value.kind}"
    return repr(value.data)[:60]


def _values(copy: Frozen, reference: Frozen) -> str:
    """Return in words how the values of two copies of one form differ."""
    are_atoms = copy.form == ("pickled",) or copy.kind in ("bytes", "float")
    if are_atoms or not isinstance(copy.data, bytes):
        return f"{_atom(copy)} instead of {_atom(reference)}"
    dtype = _dtype(copy)
    values = np.frombuffer(copy.data, dtype)
    expected = np.frombuffer(reference.data, dtype)
    if len(values) != len(expected):
        return f"{len(values)} values instead of {len(expected)}"
    both_nan = (values != values) & (expected != expected)
    different = np.flatnonzero((values != expected) & ~both_nan)
    if not len(different):
        return "NaNs or zeros of other bits"
    first = int(different[0])
    place: int | str = first
    if dtype != "u1" and len(copy.form) == 2 and np.prod(copy.form[1]) == len(values):
        indices = np.unravel_index(first, copy.form[1])
        place = ", ".join(str(int(index)) for index in indices)
    return (
        f"{len(different)} of {len(values)} values differ, the first at [{place}]: "
        f"{values[first].item()} instead of {expected[first].item()}"
    )


def _dtype(copy: Frozen) -> np.dtype:
    """Return the type of the values in an array's copy; one byte where NumPy has no such type, or for an image."""
    with contextlib.suppress(IndexError, AttributeError, TypeError):  # NumPy has no bfloat16
        # The mode "L" of an image is a code of NumPy too.
        if copy.form[0].startswith(("torch.", "<", ">", "|", "=")):
            return np.dtype(copy.form[0].removeprefix("torch."))
    return np.dtype("u1")


def _atom(copy: Frozen) -> str:
    if copy.kind == "float":
        number = struct.unpack("d", copy.data)[0]
        return "nan" if math.isnan(number) else repr(number)
    if copy.form == ("pickled",):
        return f"another {copy.kind}"
    return repr(copy.data)[:60]
