"""Decoders that read a sample straight into an array: where the loader makes one, into its slot of the batch."""

import math
from typing import Any

import numpy as np

from ftloader.cache.errors import CacheError
from ftloader.slots import empty_sample


class RawArray:
    """For ``decode=``: a sample is the memory of an array of *dtype*.

    Args:
        dtype: anything that ``numpy.dtype`` takes.
        shape: None: one dimension, as long as the sample has it.

    Any callable of the sample's bytes is a decoder. One that has ``empty(nbytes)`` too, as this has, is asked for an
    array, which is filled from the file without a copy in between.
    """

    def __init__(self, dtype: Any = np.uint8, shape: tuple[int, ...] | None = None) -> None:
        self.dtype, self.shape = np.dtype(dtype), shape

    def empty(self, nbytes: int) -> np.ndarray:
        shape = (nbytes // max(1, self.dtype.itemsize),) if self.shape is None else self.shape
        if math.prod(shape) * self.dtype.itemsize != nbytes:
            raise CacheError(f"a sample of {nbytes} bytes is no array of {self.dtype} with the shape {shape}")
        return empty_sample(shape, self.dtype)

    def __call__(self, data: bytes) -> np.ndarray:
        array = self.empty(len(data))
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(data, np.uint8)
        return array
