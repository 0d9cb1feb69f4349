"""A key of a sample as bytes that are the same everywhere.

``hash()`` differs from process to process (strings) and collides (``hash(-1) ==
hash(-2)``), ``repr()`` differs between ``1``, ``np.int64(1)`` and ``tensor(1)``, and
pickles differ between versions. Seeds need neither: equal keys must give equal bytes,
whatever type a sampler has them in, and distinct keys distinct bytes.

The encoding is a tag, a length and a content each, so that no two values share one
(``("ab", "c")`` and ``("a", "bc")``). It is part of what makes a run repeatable: changing
it changes the random numbers of every user.
"""

import dataclasses
import enum
import math
import operator
import pathlib
import struct
import uuid
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

_NAN = struct.pack(">d", math.nan)


def canonical_bytes(key: Any) -> bytes:
    """*key* as bytes, the same in every process, on every machine, in every version.

    Keys that compare equal give equal bytes: ``1``, ``True``, ``1.0``, ``np.uint8(1)``,
    ``torch.tensor(1)``; a namedtuple and its tuple; dictionaries and sets in any order.
    Keys that compare unequal give distinct bytes, so ``(1,)``, ``[1]``, ``"1"`` and ``b"1"``
    are four keys. All NaNs are one key.

    Supported are None, ints, floats, str, bytes, tuples, lists, sets, dictionaries, slices,
    ranges, enum members, paths, UUIDs, dataclass instances (their compared fields), numpy
    arrays and torch tensors of numbers or strings of any shape, anything with
    ``__index__``, and any nesting of these.

    Raises:
        TypeError: if *key* or a part of it is anything else.
    """
    kind = type(key)
    if kind is int:  # nearly always
        return _integer(key)
    encode = _ENCODERS.get(kind)
    if encode is not None:
        return encode(key)
    return _by_ancestry(key)


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + len(content).to_bytes(8, "big") + content


def _series(tag: bytes, items: Iterable[Any]) -> bytes:
    parts = [canonical_bytes(item) for item in items]
    return tag + len(parts).to_bytes(8, "big") + b"".join(parts)


def _integer(value: int) -> bytes:
    # The shortest two's complement: one form for each value of any size.
    length = value.bit_length() // 8 + 1
    return b"i" + length.to_bytes(8, "big") + value.to_bytes(length, "big", signed=True)


def _float(value: float) -> bytes:
    if value.is_integer():
        return _integer(int(value))  # 1.0 == 1 and -0.0 == 0
    return b"f" + (_NAN if math.isnan(value) else struct.pack(">d", value))


def _text(value: str) -> bytes:
    # File names that are not UTF-8 hold lone surrogates (os.fsdecode).
    return _field(b"s", value.encode("utf-8", "surrogatepass"))


def _unordered(tag: bytes, encoded: Iterable[bytes]) -> bytes:
    parts = sorted(encoded)
    return tag + len(parts).to_bytes(8, "big") + b"".join(parts)


def _set(value: Iterable[Any]) -> bytes:
    return _unordered(b"S", map(canonical_bytes, value))


def _dictionary(value: dict) -> bytes:
    items = (canonical_bytes(k) + canonical_bytes(v) for k, v in value.items())
    return _unordered(b"D", items)


def _range(value: range) -> bytes:
    # Ranges are equal if they have the same elements: range(0, 3, 2) == range(0, 4, 2).
    return _series(b"r", (len(value), *value[:1], *value[1:2]))


def _array(value: Any) -> bytes:
    # A NumPy array or a tensor; without dimensions it is just its element.
    elements = value.tolist()
    if not value.shape:
        return canonical_bytes(elements)
    flat = value.reshape(-1).tolist()
    return b"a" + _series(b"t", tuple(value.shape)) + _series(b"l", flat)


def _tensor(value: torch.Tensor) -> bytes:
    if value.layout is not torch.strided or value.is_complex() or value.is_quantized:
        raise _unsupported(value, f"a tensor of {value.dtype} ({value.layout})")
    return _array(value.detach())


def _numpy(value: np.ndarray | np.generic) -> bytes:
    # Dates would turn into plain numbers; long doubles and complex numbers have no
    # form here.
    if value.dtype.kind not in "biufSUO" or value.dtype.char == "g":
        raise _unsupported(value, f"NumPy's {value.dtype}")
    return _array(value)


def _class_name(kind: type) -> str:
    # In a spawned process the program's own module has another name.
    module = "__main__" if kind.__module__ == "__mp_main__" else kind.__module__
    return f"{module}.{kind.__qualname__}"


def _enum_member(value: enum.Enum) -> bytes:
    # A combination of flags may have no name.
    what = value.name if value.name is not None else value.value
    return _series(b"E", (_class_name(type(value)), what))


def _dataclass(value: Any) -> bytes:
    compared = [getattr(value, f.name) for f in dataclasses.fields(value) if f.compare]
    return _series(b"C", (_class_name(type(value)), *compared))


def _path(value: pathlib.PurePath) -> bytes:
    if isinstance(value, pathlib.PureWindowsPath):
        return _field(b"w", _text(str(value).lower()))  # as its own == does
    return _field(b"p", _text(str(value)))


_ENCODERS = {
    type(None): lambda value: b"N",
    int: _integer,
    bool: lambda value: _integer(int(value)),
    float: _float,
    str: _text,
    bytes: lambda value: _field(b"b", value),
    bytearray: lambda value: _field(b"b", bytes(value)),
    tuple: lambda value: _series(b"t", value),
    list: lambda value: _series(b"l", value),
    set: _set,
    frozenset: _set,
    dict: _dictionary,
    slice: lambda value: _series(b"c", (value.start, value.stop, value.step)),
    range: _range,
    uuid.UUID: lambda value: _field(b"u", value.bytes),
    pathlib.PurePath: _path,
    torch.Tensor: _tensor,
    np.ndarray: _numpy,
    np.generic: _numpy,
}


def _by_ancestry(key: Any) -> bytes:
    """For everything that is not exactly of a type in ``_ENCODERS``."""
    if isinstance(key, enum.Enum) and not isinstance(key, (int, str, float, bytes, tuple)):
        return _enum_member(key)
    if dataclasses.is_dataclass(key) and not isinstance(key, type):
        return _dataclass(key)
    for ancestor in type(key).__mro__:
        encode = _ENCODERS.get(ancestor)
        if encode is not None:
            return encode(key)
    try:
        return _integer(operator.index(key))
    except TypeError:
        raise _unsupported(key, f"a {_class_name(type(key))}") from None


def _unsupported(key: Any, what: str) -> TypeError:
    return TypeError(
        f"{what} has no stable form to derive the random numbers of a sample from. Let the "
        "sampler yield ints, strings, tuples of them, or instances of a frozen dataclass"
    )
