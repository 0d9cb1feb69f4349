"""A key of a sample as bytes that are the same everywhere.

``hash()`` differs from process to process (strings) and collides (``hash(-1) == hash(-2)``), ``repr()`` differs between
``1``, ``np.int64(1)`` and ``tensor(1)``, and pickles differ between versions. Seeds need neither: equal keys must give
equal bytes, whatever type a sampler has them in, and distinct keys distinct bytes.

The encoding is a tag, a length and a content each, so that no two values share one (``("ab", "c")`` and ``("a",
"bc")``). It is part of what makes a run repeatable: changing it changes the random numbers of every user.
"""

import math
import operator
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


def canonical_bytes(key: Any) -> bytes:
    """*key* as bytes, the same in every process, on every machine, in every version.

    Keys that compare equal give equal bytes: ``1``, ``True``, ``1.0``, ``np.uint8(1)``, ``torch.tensor(1)``; a
    namedtuple and its tuple. Keys that compare unequal give distinct bytes, so ``(1,)``, ``[1]``, ``"1"`` and ``b"1"``
    are four keys. All NaNs are one key.

    Supported are None, ints, floats, str, bytes, slices, numpy arrays and torch tensors of numbers or strings of any
    shape, anything with ``__index__``, and tuples and lists of these.
    Raises ``TypeError`` if *key* or a part of it is anything else.
    """
    if type(key) is int:  # nearly always
        return _integer(key)
    if isinstance(key, str):
        # File names that are not UTF-8 hold lone surrogates (os.fsdecode).
        return _field(b"s", key.encode("utf-8", "surrogatepass"))
    if isinstance(key, (bytes, bytearray)):
        return _field(b"b", bytes(key))
    if isinstance(key, (tuple, list)):
        return _series(b"t" if isinstance(key, tuple) else b"l", key)
    if isinstance(key, slice):
        return _series(b"c", (key.start, key.stop, key.step))
    if isinstance(key, float):
        return _float(key)
    if key is None:
        return b"N"
    if isinstance(key, torch.Tensor):
        if key.layout is torch.strided and not key.is_complex() and not key.is_quantized:
            return _array(key.detach())
    elif isinstance(key, (np.ndarray, np.generic)):
        # Dates would turn into plain numbers; long doubles and complex numbers have no form here.
        if key.dtype.kind in "biufSUO" and key.dtype.char != "g":
            return _array(key)
    elif hasattr(key, "__index__"):
        return _integer(operator.index(key))
    raise TypeError(
        f"a sampler's {type(key).__module__}.{type(key).__qualname__} has no stable form to derive the random numbers "
        "of a sample from. Let the sampler yield ints, strings, or tuples of them"
    )


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + len(content).to_bytes(8, "big") + content


def _series(tag: bytes, items: Sequence[Any]) -> bytes:
    return tag + len(items).to_bytes(8, "big") + b"".join(map(canonical_bytes, items))


def _integer(value: int) -> bytes:
    # The shortest two's complement: one form for each value of any size.
    length = value.bit_length() // 8 + 1
    return _field(b"i", value.to_bytes(length, "big", signed=True))


def _float(value: float) -> bytes:
    if value.is_integer():
        return _integer(int(value))  # 1.0 == 1 and -0.0 == 0
    return b"f" + struct.pack(">d", math.nan if math.isnan(value) else value)


def _array(value: Any) -> bytes:
    # Without dimensions it is just its element.
    if not value.shape:
        return canonical_bytes(value.tolist())
    return b"a" + _series(b"t", tuple(value.shape)) + _series(b"l", value.reshape(-1).tolist())
