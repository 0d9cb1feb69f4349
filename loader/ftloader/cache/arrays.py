"""Decoders for samples that are arrays: the cache reads the file straight into the batch, or into a new array."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ftloader.batch.slots import empty_sample
from ftloader.cache.errors import CacheError


class RawArray:
    """Decoder (``decode=``) that returns each sample as one NumPy array. The sample's bytes are the array's values.

    Args:
        dtype: anything that ``numpy.dtype`` accepts.
        shape: the array's shape. None: one dimension, with all values that the sample's bytes hold.

    Any function of a sample's bytes can be a decoder. If a decoder has a method ``empty(nbytes)``, as this class has,
    the cache reads the file straight into the array that ``empty`` returns.
    """

    def __init__(self, dtype: Any = np.uint8, shape: tuple[int, ...] | None = None) -> None:
        self.dtype, self.shape = np.dtype(dtype), shape

    def empty(self, nbytes: int) -> np.ndarray:
        """Return an uninitialised array of *nbytes* bytes. Raise ``CacheError`` if this size does not fit the shape."""
        shape = (nbytes // max(1, self.dtype.itemsize),) if self.shape is None else self.shape
        if math.prod(shape) * self.dtype.itemsize != nbytes:
            raise CacheError(f"a sample of {nbytes} bytes is no array of {self.dtype} with the shape {shape}")
        return empty_sample(shape, self.dtype)

    def __call__(self, data: bytes) -> np.ndarray:
        array = self.empty(len(data))
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(data, np.uint8)
        return array


class RawArrays:
    """Decoder (``decode=``) for samples of several arrays, stored back to back. Returns a sample as a dict of arrays.

        decode=RawArrays({"label": RawArray(np.int64, ()), "image": RawArray(np.float32, (3, 512, 512))})

    Args:
        arrays: each array's name and decoder, in the order of the bytes. One of the decoders may have ``shape=None``:
            its array gets all bytes that are not for other arrays.
    """

    def __init__(self, arrays: Mapping[str, RawArray]) -> None:
        self.arrays = dict(arrays)
        self._sizes = {name: array.dtype.itemsize * math.prod(array.shape or ()) for name, array in arrays.items()}
        self._open = [name for name, array in arrays.items() if array.shape is None]
        if len(self._open) > 1:
            raise ValueError(f"only one array may have no shape, not {', '.join(self._open)}")
        self._sizes.update(dict.fromkeys(self._open, 0))

    def empty(self, nbytes: int) -> dict[str, np.ndarray]:
        """Return a dict of uninitialised arrays. Raise ``CacheError`` if they do not have *nbytes* bytes in all."""
        left = nbytes - sum(self._sizes.values())
        if left < 0 or (left and not self._open):
            raise CacheError(f"a sample of {nbytes} bytes: its arrays {', '.join(self.arrays)} have {nbytes - left}")
        sizes = {**self._sizes, **dict.fromkeys(self._open, left)}
        # A sample has one slot of the batch, which the first array gets: make it the largest.
        made = {
            name: self.arrays[name].empty(sizes[name]) for name in sorted(sizes, key=sizes.__getitem__, reverse=True)
        }
        return {name: made[name] for name in self.arrays}

    def __call__(self, data: bytes) -> dict[str, np.ndarray]:
        arrays, start, whole = self.empty(len(data)), 0, np.frombuffer(data, np.uint8)
        for array in arrays.values():
            array.reshape(-1).view(np.uint8)[:] = whole[start : start + array.nbytes]
            start += array.nbytes
        return arrays
