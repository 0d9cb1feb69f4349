"""Detection of calls of torch functions that draw from a default generator.

A call draws if it changes the state of a default generator. Another thread may change that state at the same time. So
states are compared only around two kinds of calls: operations that torch tags as random (``nondeterministic_seeded``,
aten/src/ATen/native/tags.yaml), and Python functions of torch, which have no tags.
"""

import functools
import types
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import torch

_TAG: Final = torch.Tag.nondeterministic_seeded


def call(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, bool]:
    """Call the torch function *function*; return (its result, True if the call drew from a default generator)."""
    if not may_draw(function, args, kwargs):
        return function(*args, **kwargs), False
    before = _states()
    result = function(*args, **kwargs)
    return result, _states() != before


def may_draw(function: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> bool:
    """True if the call may draw from a default generator. A call that is given only other generators cannot."""
    if not isinstance(function, Hashable) or not _is_random(function):
        return False
    given = [value for value in (*args, *(kwargs or {}).values()) if isinstance(value, torch.Generator)]
    return not given or any(value is default for value in given for default in _defaults())


def function_name(function: Any) -> str:
    """Return the function's public name: ``torch.rand``, ``torch.Tensor.uniform_``."""
    if type(function).__module__ == "torch._ops":
        return f"torch.ops.{function}"
    if type(function) is types.FunctionType:
        return f"{function.__module__}.{function.__qualname__}"
    owner = "torch.Tensor" if type(function) is types.MethodDescriptorType else "torch"
    return f"{owner}.{function.__name__}"


def _defaults() -> tuple[torch.Generator, ...]:
    # CUDA's generators exist once the first device is used.
    return torch.default_generator, *torch.cuda.default_generators


def _states() -> list[bytes]:
    return [generator.get_state().numpy().tobytes() for generator in _defaults()]


@functools.cache  # bounded: torch has a fixed number of functions
def _is_random(function: Any) -> bool:
    """True if *function* is a Python function of torch, or an operation with an overload that is tagged as random."""
    if type(function) is types.FunctionType:
        return (function.__module__ or "").partition(".")[0] == "torch"
    if type(function).__module__ != "torch._ops":  # torch.rand and Tensor.uniform_ have their operation's name
        function = getattr(torch.ops.aten, getattr(function, "__name__", ""), function)
    names = function.overloads() if hasattr(function, "overloads") else ()
    overloads = [getattr(function, name) for name in names] or [function]
    return any(_TAG in getattr(overload, "tags", ()) for overload in overloads)
