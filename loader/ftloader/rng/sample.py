"""Random generators of one sample: ``sample_rng()``.

``sample_rng()`` gives each sample its own generators, seeded from

    BLAKE2b(base seed of the loader's iterator, number of the epoch, key of the sample)

So augmentations are the same with 0, 1 or N workers, and with threads or processes. The key is what
the sampler yielded for the sample. For an iterable-style dataset, the key is (worker id, position
in the worker's share).
"""

import hashlib
import math
import operator
import random
import struct
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ftloader.current import NO_SAMPLE, this_thread
from ftloader.rng.generators import make_torch_generator


class SampleRNG:
    """Random generators of one sample, each made at its first use.

    The three generators are independent streams. Each continues its stream at the next use. Only
    one thread at a time may use a sample's generators; usually it is the thread that loads the
    sample.
    """

    def __init__(self, root: bytes) -> None:
        self._root = root

    @cached_property
    def numpy(self) -> np.random.Generator:
        """The sample's ``numpy.random.Generator``, which uses the algorithm PCG64."""
        return np.random.Generator(np.random.PCG64(self._number(b"numpy", 16)))

    @cached_property
    def torch(self) -> torch.Generator:
        """The sample's ``torch.Generator`` on the CPU,
        for the argument ``generator`` of torch's functions.
        """
        return make_torch_generator(self._digest(b"torch", 32))

    @cached_property
    def python(self) -> random.Random:
        """The sample's ``random.Random``. Its methods are the functions
        of the module ``random`` (``shuffle``, ...).
        """
        return random.Random(self._number(b"python", 16))

    @property
    def seed(self) -> int:
        """The sample's seed in [0, 2**63), the same at each use, for generators of other libraries
        or on a GPU.
        """
        return self._number(b"seed", 8) >> 1

    def __repr__(self) -> str:
        return f"<SampleRNG, seed {self.seed}>"

    def _digest(self, stream: bytes, size: int) -> bytes:
        return hashlib.blake2b(self._root, digest_size=size, person=stream).digest()

    def _number(self, stream: bytes, size: int) -> int:
        return int.from_bytes(self._digest(stream, size), "big")


def sample_rng() -> SampleRNG:
    """Return the random generators of the sample that this thread is loading.

    Call it in a dataset's ``__getitem__``, ``__iter__`` or transforms. All calls for one sample
    return the same object.

    Raises:
        RuntimeError: if this thread is not loading a sample for a ``ftloader.DataLoader``.
        TypeError: if the sampler yielded a key that has no stable form (see ``canonical_bytes``).
    """
    sample_state = this_thread.sample
    key = sample_state.locate()
    rng = sample_state.rng
    if rng is None:
        if key is NO_SAMPLE:
            raise RuntimeError(
                "sample_rng() was called in a thread that is not loading a sample. It answers in a "
                "dataset's __getitem__ and transforms while a ftloader.DataLoader loads the "
                "sample. In a thread that the dataset started itself, pass it the generators: call "
                "sample_rng() before, in the thread of the sample. To try a dataset without a "
                "loader, iterate ftloader.DataLoader(dataset, batch_size=None)"
            )
        origin = canonical_bytes((sample_state.epoch.base_seed, sample_state.epoch.number, key))
        rng = sample_state.rng = SampleRNG(
            hashlib.blake2b(origin, person=b"loader.sample").digest()
        )
    return rng


def canonical_bytes(key: Any) -> bytes:
    """Return *key* as bytes, the same in every process, on every machine,
    in every release of this package.

    Equal keys give equal bytes: ``1``, ``True``, ``1.0``, ``np.uint8(1)`` and ``torch.tensor(1)``;
    a namedtuple and the tuple of its items. Unequal keys give distinct bytes. All NaNs count as
    equal.

    A key is None, an int, float, str, bytes, slice, anything with ``__index__``, a NumPy array or
    torch tensor of numbers or strings, or a tuple or list of these. Raise ``TypeError`` for
    anything else.
    """
    # Not hash(), which differs between processes (strings) and collides (-1 and -2). Not repr(),
    # which differs between 1, np.int64(1) and tensor(1). Not pickle, which differs between
    # versions. The form is a tag, a length and a content for each value, so ("ab", "c") and ("a",
    # "bc") differ. Changing it changes every user's random numbers.
    if type(key) is int:  # nearly always
        return _integer(key)
    if isinstance(key, str):
        # File names that are not UTF-8 hold lone surrogates (os.fsdecode).
        return _field(b"s", key.encode("utf-8", "surrogatepass"))
    if isinstance(key, (bytes, bytearray)):
        return _field(b"b", bytes(key))
    if isinstance(key, tuple):
        return _series(b"t", key)
    if isinstance(key, list):
        return _series(b"l", key)
    if isinstance(key, slice):
        return _series(b"c", (key.start, key.stop, key.step))
    if isinstance(key, float):
        return _float(key)
    if key is None:
        return b"N"
    if isinstance(key, (torch.Tensor, np.ndarray, np.generic)):
        if _has_form(key):
            return _array(key)
    elif hasattr(key, "__index__"):
        return _integer(operator.index(key))
    raise TypeError(
        f"a sampler's {type(key).__module__}.{type(key).__qualname__} has no stable form to "
        f"derive the random numbers "
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
    if math.isnan(value):
        value = math.nan
    return b"f" + struct.pack(">d", value)


def _has_form(value: Any) -> bool:
    """Return True if the elements of *value*, an array or tensor, have a stable form."""
    if isinstance(value, torch.Tensor):
        return value.layout is torch.strided and not value.is_complex() and not value.is_quantized
    # Dates would turn into plain numbers; long doubles and complex numbers have no form here.
    return value.dtype.kind in "biufSUO" and value.dtype.char != "g"


def _array(value: Any) -> bytes:
    if isinstance(value, torch.Tensor):
        value = value.detach()
    # An array without dimensions equals its one element.
    if not value.shape:
        return canonical_bytes(value.tolist())
    return b"a" + _series(b"t", tuple(value.shape)) + _series(b"l", value.reshape(-1).tolist())
