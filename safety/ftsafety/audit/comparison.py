"""Immutable copies of samples, and their comparison.

A sample is copied as soon as it is loaded, since a dataset may overwrite it. Comparison is exact:
types, shapes, dtypes and bits (so a NaN equals itself).
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
    """Properties of the value: dtype and shape of an array,
    keys of a container, mode and size of an image.
    """
    data: Any = None
    """The value itself if its type is in `_ATOMS`, otherwise its bytes; None for a container."""
    parts: tuple["Frozen", ...] = ()

    @property
    def opaque(self) -> bool:
        """True if any part of the value could not be copied,
        so that only the type of this part is known.
        """
        return self.form == ("opaque",) or any(part.opaque for part in self.parts)


@dataclasses.dataclass(frozen=True)
class Raised(Frozen):
    """Copy of an exception that loading a sample raised,
    or that Python printed and ignored (in ``__del__``, ...).
    """

    ignored: str = ""
    """The place of the exception if Python ignored it;
    an empty string if loading a sample raised it.
    """
    line: str = dataclasses.field(default="", compare=False)
    text: str = dataclasses.field(default="", compare=False)
    traceback: str = dataclasses.field(default="", compare=False)


class _UnreadableImageError(Exception):
    """An image cannot be decoded. Used only inside `freeze`,
    which raises the decoder's error instead.
    """


def freeze(value: Any) -> Frozen:
    """Return a deep copy of *value*. If a part cannot be copied, the copy has only the part's type.

    Copying decodes an image that Pillow has not decoded yet.
    Raises the decoder's error if that fails.
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
    form: tuple
    if isinstance(value, _ATOMS):
        return Frozen(kind, data=value)
    if isinstance(value, float):
        return Frozen(kind, data=struct.pack("d", value))
    if isinstance(value, torch.Tensor) and _is_plain(value):
        form = str(value.dtype), tuple(value.shape)
        return Frozen(kind, form, _tensor_bytes(value))
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        form = value.dtype.str, value.shape
        return Frozen(kind, form, value.tobytes())
    # PIL.Image.Image.
    if all(hasattr(value, name) for name in ("tobytes", "mode", "size")):
        form = value.mode, tuple(value.size)
        return Frozen(kind, form, value.tobytes())
    return None


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_quantized


def _tensor_bytes(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().cpu()
    flat = flat.contiguous().reshape(-1)
    if flat.is_conj() or flat.is_neg():
        flat = flat.resolve_conj().resolve_neg()
    octets = flat.view(torch.uint8)
    return octets.numpy().tobytes()


def _copy_container(value: Any, freeze_part: Callable[[Any], Frozen]) -> Frozen:
    """Return a copy of a container and its elements;
    of an object of unknown type, its pickled form.
    """
    kind = type(value).__qualname__
    form: tuple
    elements: Iterable[Frozen]
    if isinstance(value, np.ndarray):
        form = value.dtype.str, value.shape
        elements = map(freeze_part, value.ravel())
    elif isinstance(value, (set, frozenset)):
        form = (len(value),)
        elements = sorted(map(freeze_part, value), key=repr)
    else:
        parts = parts_of(value)
        if parts is None:
            return Frozen(kind, ("pickled",), pickle.dumps(value))
        form = tuple(map(repr, parts))
        elements = map(freeze_part, parts.values())
    return Frozen(kind, form, parts=tuple(elements))


def parts_of(value: Any) -> dict[Any, Any] | None:
    """Return the elements of a container by key, index or field name;
    None if *value* is no container.
    """
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (list, tuple)):
        return dict(zip(_element_names(value), value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def _element_names(value: list | tuple) -> Iterable[Any]:
    """Return the field names of a named tuple, else indices."""
    names = getattr(value, "_fields", ())
    if len(names) != len(value):
        return range(len(value))
    return names


def difference(copy: Frozen, reference: Frozen, path: str = _WHOLE) -> str | None:
    """Return in words how *copy* differs from the copy *reference*; None if they are equal."""
    if copy == reference:
        return None
    if copy.kind != reference.kind:
        return f"{path} is {_brief(copy)} instead of {_brief(reference)}"
    if copy.form != reference.form:
        return f"{path} is a {copy.kind} of {_form(copy)} instead of {_form(reference)}"
    text = _difference_of_parts(copy, reference, path)
    return text or f"{path}: {_values(copy, reference)}"


def _difference_of_parts(copy: Frozen, reference: Frozen, path: str) -> str | None:
    keys: Iterable[Any] = copy.form
    if len(copy.form) != len(copy.parts):
        keys = range(len(copy.parts))
    if path == _WHOLE:
        path = "sample"
    pairs = zip(copy.parts, reference.parts, strict=True)
    for key, (part, reference_part) in zip(keys, pairs, strict=True):
        text = difference(part, reference_part, f"{path}[{key}]")
        if text:
            return text
    return None


def structure(value: Frozen) -> Frozen:
    """Return the types, shapes and keys in *value*,
    for comparing samples whose data differ at each load.
    """
    if isinstance(value, Raised):
        return value
    form = value.form
    if form == ("pickled",):
        form = ()
    parts = map(structure, value.parts)
    return Frozen(value.kind, form, parts=tuple(parts))


def _form(value: Frozen) -> str:
    if value.parts or not value.form:
        form = map(str, value.form[:6])
        listed = ", ".join(form)
        return f"{len(value.parts)} parts ({listed})"
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
    are_nan = (values != values) & (expected != expected)
    different = np.flatnonzero((values != expected) & ~are_nan)
    if not len(different):
        return "NaNs or zeros of other bits"
    first = int(different[0])
    place = str(first)
    if dtype != "u1":
        place = _place(first, copy.form, len(values))
    value = values[first].item()
    return (
        f"{len(different)} of {len(values)} values differ, the first at [{place}]: "
        f"{value} instead of {expected[first].item()}"
    )


def _place(number: int, form: tuple, size: int) -> str:
    """Return the indices of element *number* of an array
    with *size* elements and the form (dtype, shape).
    """
    if len(form) != 2 or np.prod(form[1]) != size:
        return str(number)
    indices = np.unravel_index(number, form[1])
    return ", ".join(map(str, indices))


def _dtype(copy: Frozen) -> np.dtype:
    """Return the type of the values in an array's copy; one byte where NumPy has no such type, or
    for an image.
    """
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
