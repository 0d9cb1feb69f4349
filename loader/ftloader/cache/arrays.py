"""Decoder for samples that are arrays: the cache reads the file straight into the batch,
or into a new array.
"""

import math
from typing import Any

import numpy as np

from ftloader.batch.slots import empty_sample
from ftloader.cache.errors import CacheError


class RawArray:
    """Decoder (``decode=``) that returns each sample as one NumPy array.
    The sample's bytes are the array's values.

    Args:
        dtype: anything that ``numpy.dtype`` accepts.
        shape: the array's shape. None: one dimension, with all values that the sample's bytes hold.

    Any function of a sample's bytes can be a decoder. If a decoder has a method ``empty(nbytes)``,
    as this class has, the cache reads the file straight into the array that ``empty`` returns.
    """

    def __init__(self, dtype: Any = np.uint8, shape: tuple[int, ...] | None = None) -> None:
        self.dtype, self.shape = np.dtype(dtype), shape

    def empty(self, nbytes: int) -> np.ndarray:
        """Return an uninitialised array of *nbytes* bytes. Raise ``CacheError`` if this size does
        not fit the shape.
        """
        shape = self.shape
        if shape is None:
            shape = (nbytes // max(1, self.dtype.itemsize),)
        if math.prod(shape) * self.dtype.itemsize != nbytes:
            raise CacheError(
                f"a sample of {nbytes} bytes is no array of {self.dtype} with the shape {shape}"
            )
        return empty_sample(shape, self.dtype)

    def __call__(self, data: bytes) -> np.ndarray:
        array = self.empty(len(data))
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(data, np.uint8)
        return array
