"""Objects that the loading of a sample takes out of a shared container, such as a queue, and puts back."""

import collections
import contextlib
import dis
import types
from typing import Any

import numpy as np
import torch

from ftloader.diagnosis.lookups import is_a
from ftsafety.audit.reachable import ATOMS, walk

POOL = frozenset({"pop", "popleft", "append", "appendleft", "get", "get_nowait", "put", "put_nowait"})
"""Methods that take an object out of a container, or put it back, in one atomic step."""
BUFFERS = (np.ndarray, torch.Tensor, bytearray, list, dict, set, collections.deque)


def assigned(frame: types.FrameType) -> tuple[types.FrameType, list[str]]:
    """Return (frame, names): the local variables that get the result of the call that *frame* is making.

    If *frame* only returns this result, the frame and its variables are those of a caller. The names are [] if no
    variable gets the result immediately.
    """
    names: list[str] = []
    left = 1
    for each in dis.get_instructions(frame.f_code):
        if each.offset <= frame.f_lasti or each.opname == "NOP":
            continue
        if each.opname == "UNPACK_SEQUENCE":
            left = each.argval
        elif each.opname.startswith("STORE_FAST"):
            stored = each.argval if isinstance(each.argval, tuple) else (each.argval,)
            names += stored[:left] if each.opname != "STORE_FAST_LOAD_FAST" else stored[:1]
        elif each.opname == "RETURN_VALUE" and not names and frame.f_back is not None:
            return assigned(frame.f_back)
        else:
            break
        if len(names) >= left:
            break
    return frame, names


def is_part(buffer: Any, sample: Any) -> bool:
    """True if *sample* contains *buffer*, or an array that shares memory with *buffer*."""
    values = [node.value for node in walk(sample)]
    memory = _array(buffer)
    arrays = [array for array in map(_array, values) if array is not None]
    return any(value is buffer for value in values) or (
        memory is not None and any(np.may_share_memory(memory, array) for array in arrays)
    )


def _array(value: Any) -> np.ndarray | None:
    with contextlib.suppress(Exception):  # a tensor of another device or layout
        if is_a(value, (torch.Tensor, bytearray)):
            return value.detach().numpy() if is_a(value, torch.Tensor) else np.frombuffer(value, np.uint8)
    return value if is_a(value, np.ndarray) else None


def is_value(entry: Any) -> bool:
    """True if *entry* is a number, a string or a tuple of these: an object that unrelated code may use as well."""
    return all(map(is_value, entry)) if is_a(entry, tuple) else is_a(entry, ATOMS)
