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
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

_ATOMS = (str, bytes, bool, int, complex, type(None))
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
            return _copied(value, functools.partial(_freeze, depth=depth + 1))
    except _UnreadableImageError:
        raise
    except Exception as error:
        if _is_image(type(value)):
            raise _UnreadableImageError from error
    return Frozen(type(value).__qualname__, ("opaque",))


def _is_image(kind: type) -> bool:
    """True if *kind* is PIL.Image.Image or derived from it."""
    return any(each.__module__ == "PIL.Image" for each in kind.__mro__)


def _copied(value: Any, part: Callable[[Any], Frozen]) -> Frozen:
    kind = type(value).__qualname__
    if isinstance(value, _ATOMS):
        return Frozen(kind, data=value)
    if isinstance(value, float):
        return Frozen(kind, data=struct.pack("d", value))
    if isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_quantized:
        flat = value.detach().cpu().contiguous().reshape(-1)
        if flat.is_conj() or flat.is_neg():
            flat = flat.resolve_conj().resolve_neg()
        return Frozen(kind, (str(value.dtype), tuple(value.shape)), flat.view(torch.uint8).numpy().tobytes())
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        return Frozen(kind, (value.dtype.str, value.shape), value.tobytes())
    if hasattr(value, "tobytes") and hasattr(value, "mode") and hasattr(value, "size"):  # PIL.Image.Image
        return Frozen(kind, (value.mode, tuple(value.size)), value.tobytes())
    if isinstance(value, np.ndarray):
        return Frozen(kind, (value.dtype.str, value.shape), parts=tuple(map(part, value.ravel())))
    if isinstance(value, (set, frozenset)):
        return Frozen(kind, (len(value),), parts=tuple(sorted(map(part, value), key=repr)))
    parts = parts_of(value)
    if parts is not None:
        return Frozen(kind, tuple(map(repr, parts)), parts=tuple(map(part, parts.values())))
    return Frozen(kind, ("pickled",), pickle.dumps(value))


def parts_of(value: Any) -> dict[Any, Any] | None:
    """Return the elements of a container by key, index or field name; None if *value* is no container."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (list, tuple)):
        names = getattr(value, "_fields", ())
        return dict(zip(names if len(names) == len(value) else range(len(value)), value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def difference(here: Frozen, reference: Frozen, path: str = "the sample") -> str | None:
    """Return in words how the copy *here* differs from the copy *reference*; None if they are equal."""
    if here == reference:
        return None
    if here.kind != reference.kind:
        return f"{path} is {_brief(here)} instead of {_brief(reference)}"
    if here.form != reference.form:
        return f"{path} is a {here.kind} of {_form(here)} instead of {_form(reference)}"
    if here.parts:
        keys = here.form if len(here.form) == len(here.parts) else range(len(here.parts))
        for key, mine, theirs in zip(keys, here.parts, reference.parts, strict=True):
            found = difference(mine, theirs, f"{path}[{key}]" if path != "the sample" else f"sample[{key}]")
            if found:
                return found
    return f"{path}: {_values(here, reference)}"


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


def _values(here: Frozen, reference: Frozen) -> str:
    if not isinstance(here.data, bytes) or here.form == ("pickled",) or here.kind in ("bytes", "float"):
        return f"{_atom(here)} instead of {_atom(reference)}"
    dtype = np.dtype("u1")  # of an image, whose mode "L" is a code of NumPy too
    with contextlib.suppress(IndexError, AttributeError, TypeError):  # NumPy has no bfloat16: byte by byte
        if here.form[0].startswith(("torch.", "<", ">", "|", "=")):
            dtype = np.dtype(here.form[0].removeprefix("torch."))
    mine, theirs = np.frombuffer(here.data, dtype), np.frombuffer(reference.data, dtype)
    if len(mine) != len(theirs):
        return f"{len(mine)} values instead of {len(theirs)}"
    different = np.flatnonzero((mine != theirs) & ~((mine != mine) & (theirs != theirs)))
    if not len(different):
        return "NaNs or zeros of other bits"
    first = int(different[0])
    place: int | str = first
    shape = here.form[1] if len(here.form) == 2 and np.prod(here.form[1]) == len(mine) else None
    if shape is not None and dtype != "u1":
        place = ", ".join(str(int(part)) for part in np.unravel_index(first, shape))
    return (
        f"{len(different)} of {len(mine)} values differ, the first at [{place}]: "
        f"{mine[first].item()} instead of {theirs[first].item()}"
    )


def _atom(value: Frozen) -> str:
    if value.kind == "float":
        number = struct.unpack("d", value.data)[0]
        return "nan" if math.isnan(number) else repr(number)
    return f"another {value.kind}" if value.form == ("pickled",) else repr(value.data)[:60]
