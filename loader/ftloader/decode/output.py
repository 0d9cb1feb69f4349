"""Output arrays for pixels: new arrays, arrays of the caller, or results of the caller's function."""

from collections.abc import Callable
from typing import Any

import numpy as np

# The out argument on the CPU. A function is called like numpy.empty: (shape, dtype).
type Out = np.ndarray | Callable[[tuple[int, ...], Any], np.ndarray] | None


def check_type(out: Any) -> None:
    """Raise ``TypeError`` or ``ValueError`` if no image can be written to *out*."""
    if out is None or callable(out):
        return
    if not isinstance(out, np.ndarray):
        raise TypeError(
            "out must be a numpy.ndarray or a function that gives one on the CPU, not "
            f"{type(out).__name__} (a tensor's .numpy() shares its memory)"
        )
    if not out.flags.writeable:
        raise ValueError("out is read-only")


def put(pixels: np.ndarray, out: Out) -> np.ndarray:
    """Return *pixels*; or, if *out* is given, the output array after copying *pixels* to it."""
    if out is None:
        return pixels
    array = array_for(out, pixels.shape, pixels.dtype.type)
    array[...] = pixels
    return array


def array_for(out: Out, shape: tuple[int, ...], dtype: Any = np.uint8) -> np.ndarray:
    """Return the output array for an image of *shape* and *dtype*. Raise ``ValueError`` if *out* does not fit."""
    if out is None:
        return np.empty(shape, dtype)
    array = out(shape, dtype) if callable(out) else out
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(
            f"out has shape {array.shape} and dtype {array.dtype}, the image has shape {shape} "
            f"and dtype {np.dtype(dtype)}; images of varying size need out=None or a function"
        )
    return array
