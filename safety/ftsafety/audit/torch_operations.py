"""Calls of torch's functions that draw from a default generator.

A call draws if it changes the state of a default generator. Another thread may change that state at the same time, so
states are compared only around calls that may draw:

- operations that torch tags as random (``nondeterministic_seeded``, aten/src/ATen/native/tags.yaml);
- torch's Python functions that name such an operation.

Later versions of torch are covered as far as its authors tag their operations.
"""

import functools
import types
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import torch

from ftloader.compat.torch_private import all_schemas, operation_overload

_TAG: Final = torch.Tag.nondeterministic_seeded


def call(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, bool]:
    """Return the result of ``function(*args, **kwargs)``, and True if the call drew from a default generator.

    *function* is what a ``TorchFunctionMode`` is given: a function of torch, a method of ``torch.Tensor``, or an
    operation (``torch.ops.aten.rand``). A function that draws in some calls only (dropout, in training) is treated as
    having drawn if another thread draws at the same time.
    """
    if not may_draw(function, args, kwargs):
        return function(*args, **kwargs), False
    before = _states()
    result = function(*args, **kwargs)
    return result, _states() != before


def may_draw(function: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> bool:
    """True if the call may draw from a default generator; False if its arguments have another generator."""
    if not isinstance(function, Hashable) or not _is_random(function):
        return False
    given = [value for value in (*args, *(kwargs or {}).values()) if isinstance(value, torch.Generator)]
    return not given or any(value is default for value in given for default in _defaults())


def function_name(function: Any) -> str:
    """Return the name that users know: ``torch.rand``, ``torch.Tensor.uniform_``."""
    if type(function).__module__ == "torch._ops":
        return f"torch.ops.{function}"
    if type(function) is types.FunctionType:
        return f"{function.__module__}.{function.__qualname__}"
    owner = "torch.Tensor" if type(function) is types.MethodDescriptorType else "torch"
    return f"{owner}.{function.__name__}"


def _defaults() -> tuple[torch.Generator, ...]:
    # CUDA's are there once the first device is used.
    return torch.default_generator, *torch.cuda.default_generators


def _states() -> list[bytes]:
    return [generator.get_state().numpy().tobytes() for generator in _defaults()]


@functools.cache  # as large as torch has functions
def _is_random(function: Any) -> bool:
    """True if *function*, of torch, draws in some of its calls."""
    if type(function) is types.FunctionType:
        return (function.__module__ or "").partition(".")[0] == "torch" and _names_random(function)
    if type(function).__module__ == "torch._ops":  # asked itself, since its library may come after the names below
        names = function.overloads() if hasattr(function, "overloads") else ()
        overloads = [getattr(function, name) for name in names] or [function]
        return any(_TAG in getattr(overload, "tags", ()) for overload in overloads)
    return getattr(function, "__name__", "") in _random_operations()


@functools.cache
def _random_operations() -> frozenset[str]:
    """Return the names of torch's random operations."""
    names = set()
    for schema in all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace == "aten":
            found = operation_overload(schema.name, schema.overload_name)
            if found is not None and _TAG in found[2]:
                names.add(name)
    return frozenset(names)


def _names_random(function: types.FunctionType, depth: int = 3) -> bool:
    """True if a Python function of torch names a random operation.

    The functions of torch that it names, or holds in its closure (dispatchers do), are searched too.
    """
    names = _names(function.__code__)
    if not _random_operations().isdisjoint(names):
        return True
    if not depth:
        return False
    variables = function.__globals__
    helpers = [variables.get(name) for name in names]
    helpers += [cell.cell_contents for cell in function.__closure__ or ()]
    return any(
        _names_random(helper, depth - 1)
        for helper in helpers
        if type(helper) is types.FunctionType and helper.__module__.startswith("torch.")
    )


def _names(code: types.CodeType) -> set[str]:
    return set(code.co_names).union(*(_names(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)))
