"""Objects that the loading of a sample takes out of a shared container,
such as a queue, and puts back.
"""

import collections
import contextlib
import dis
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ftloader.diagnosis.lookups import is_a
from ftsafety.audit.reachable import ATOMS, walk

POOL = frozenset(
    {"pop", "popleft", "append", "appendleft", "get", "get_nowait", "put", "put_nowait"}
)
"""Methods that take an object out of a container, or put it back, in one atomic step."""
BUFFERS = (np.ndarray, torch.Tensor, bytearray, list, dict, set, collections.deque)


def assigned(frame: types.FrameType) -> tuple[types.FrameType, list[str]]:
    """Return (frame, names): the local variables that get the result
    of the call that *frame* is making.

    If *frame* only returns this result, the frame and its variables are those of a caller. The
    names are [] if no variable gets the result immediately.
    """
    names: list[str] = []
    number = 1
    for instruction in _following(frame):
        name = instruction.opname
        if name == "UNPACK_SEQUENCE":
            number = instruction.argval
        elif name.startswith("STORE_FAST"):
            names += _stored(instruction)[:number]
        elif name == "RETURN_VALUE" and not names and frame.f_back is not None:
            return assigned(frame.f_back)
        else:
            break
        if len(names) >= number:
            break
    return frame, names


def _following(frame: types.FrameType) -> Iterator[dis.Instruction]:
    """Yield the instructions after the one that *frame* executes."""
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset > frame.f_lasti and instruction.opname != "NOP":
            yield instruction


def _stored(instruction: dis.Instruction) -> list[str]:
    """Return the names of the local variables that a STORE_FAST instruction sets."""
    if not isinstance(instruction.argval, tuple):
        return [instruction.argval]
    if instruction.opname == "STORE_FAST_LOAD_FAST":
        return [instruction.argval[0]]
    return list(instruction.argval)


def is_part(buffer: Any, sample: Any) -> bool:
    """True if *sample* contains *buffer*, or an array that shares memory with *buffer*."""
    memory = _array(buffer)
    for node in walk(sample):
        if node.value is buffer:
            return True
        array = _array(node.value)
        if memory is not None and array is not None and np.may_share_memory(memory, array):
            return True
    return False


def _array(value: Any) -> np.ndarray | None:
    """Return the memory of an array, tensor or bytearray; None if *value* has none."""
    with contextlib.suppress(Exception):  # a tensor of another device or layout
        if is_a(value, torch.Tensor):
            return value.detach().numpy()
        if is_a(value, bytearray):
            return np.frombuffer(value, np.uint8)
    if is_a(value, np.ndarray):
        return value
    return None


def is_value(entry: Any) -> bool:
    """True if *entry* is a number, a string or a tuple of these: an object that unrelated code may
    use as well.
    """
    if is_a(entry, tuple):
        return all(map(is_value, entry))
    return is_a(entry, ATOMS)
