"""Which calls of torch's functions draw from a default generator.

Derived from what torch says itself: random operations carry the tag
``nondeterministic_seeded`` (aten/src/ATen/native/tags.yaml), their schemas say what their
arguments mean, and functions that torch has in Python name the operations that they call.
So later versions of torch are covered as far as its authors tag their operations.
"""

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch._ops import OpOverload, OpOverloadPacket

_TAG: Final = torch.Tag.nondeterministic_seeded
# Tagged in torch, but it draws nothing.
_NOT_RANDOM: Final = frozenset({"_nested_tensor_softmax_with_shape"})
# Arguments without which nothing is drawn.
_FLAGS: Final = ("train", "training")
_PROBABILITIES: Final = ("dropout", "dropout_p", "p")
# In Python functions: what would have been drawn, if the caller has it.
_GIVEN: Final = "_random_samples"

_Arguments = dict[str, Any]
_Binding = Callable[[Sequence[Any], Mapping[str, Any]], _Arguments | None]


def draws_from_default_generator(
    function: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> bool:
    """Whether ``function(*args, **kwargs)`` draws from the default generator of a device.

    *function* is what a ``TorchFunctionMode`` is given: a function of torch, a method of
    ``torch.Tensor``, or an operation (``torch.ops.aten.rand.default``); the answer is False
    for everything else. Passing a default generator explicitly is drawing from it. Dropout
    outside training, or with probability 0, draws nothing.
    """
    kwargs = kwargs or {}
    try:
        bindings = _bindings[function]
    except KeyError:
        bindings = _bindings[function] = _make_bindings(function)
    except TypeError:  # not hashable, so not one of torch's
        return False
    if not bindings:
        return False
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Generator):
            return _is_default(value)
    for bind in bindings:
        arguments = bind(args, kwargs)
        if arguments is not None:
            return _switched_on(arguments)
    return True


def function_name(function: Any) -> str:
    """The name that users know: ``torch.rand``, ``torch.Tensor.uniform_``."""
    if isinstance(function, (OpOverload, OpOverloadPacket)):
        return f"torch.ops.{function}"
    if type(function) is types.FunctionType:
        return f"{function.__module__}.{function.__qualname__}"
    owner = "torch.Tensor" if type(function) is types.MethodDescriptorType else "torch"
    return f"{owner}.{function.__name__}"


# Bindings by function; empty for functions that never draw. Two threads may add the same
# function at once: they store equal values. It grows as far as torch has functions.
_bindings: dict[Any, tuple[_Binding, ...]] = {}


def _make_bindings(function: Any) -> tuple[_Binding, ...]:
    if isinstance(function, OpOverload):
        schemas = [function._schema] if _TAG in function.tags else []
    elif isinstance(function, OpOverloadPacket):
        overloads = [getattr(function, name) for name in function.overloads()]
        schemas = [overload._schema for overload in overloads if _TAG in overload.tags]
    elif type(function) is types.FunctionType:
        of_torch = (function.__module__ or "").partition(".")[0] == "torch"
        if of_torch and _names_random(function):
            return (functools.partial(_bind_python, inspect.signature(function)),)
        return ()
    elif type(function) in (types.BuiltinFunctionType, types.MethodDescriptorType):
        schemas = _random_operations().get(function.__name__, [])
    else:
        return ()
    return tuple(functools.partial(_bind_schema, _switches(schema)) for schema in schemas)


@functools.cache
def _random_operations() -> dict[str, list[Any]]:
    """The schemas of the overloads of each random operation of torch, by its name."""
    operations: dict[str, list[Any]] = {}
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace != "aten" or name in _NOT_RANDOM:
            continue
        found = torch._C._get_operation_overload(schema.name, schema.overload_name)
        if found is not None and _TAG in found[2]:
            operations.setdefault(name, []).append(schema)
    return operations


class _Switch(NamedTuple):
    """An argument without which nothing is drawn."""

    position: int
    name: str
    default: Any


def _switches(schema: Any) -> tuple[_Switch, ...]:
    # The p of bernoulli() is another thing.
    names = _FLAGS + (_PROBABILITIES if "dropout" in schema.name else _PROBABILITIES[:2])
    return tuple(
        _Switch(position, argument.name, argument.default_value)
        for position, argument in enumerate(schema.arguments)
        if argument.name in names
    )


def _bind_schema(switches: tuple[_Switch, ...], args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Arguments | None:
    """The values of the switches; None if *args* are for another overload."""
    arguments = {}
    for position, name, default in switches:
        if position < len(args):
            value = args[position]
            if isinstance(value, bool) is not (name in _FLAGS):
                return None
            arguments[name] = value
        else:
            arguments[name] = kwargs.get(name, default)
    return arguments


def _bind_python(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Arguments | None:
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # the call is about to fail
        return None
    bound.apply_defaults()
    values = bound.arguments | bound.arguments.get("kwargs", {})
    arguments = {name: values[name] for name in _FLAGS if name in values}
    for name in _PROBABILITIES:
        if isinstance(values.get(name), (int, float)):
            arguments[name] = values[name]
    if values.get(_GIVEN) is not None:
        arguments[_GIVEN] = False
    return arguments


def _switched_on(arguments: _Arguments) -> bool:
    # A flag that is None means True.
    return all(value is None or bool(value) for value in arguments.values())


def _names_random(function: types.FunctionType, depth: int = 3) -> bool:
    """Whether a function of torch names a random operation, itself or in functions of
    torch that it names or (as a dispatcher of several) encloses."""
    names = _names(function.__code__)
    if not _random_operations().keys().isdisjoint(names):
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
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names


def _is_default(generator: torch.Generator) -> bool:
    if generator is torch.default_generator:
        return True
    # The tuple is filled when the first device is used.
    return any(generator is default for default in torch.cuda.default_generators)
