"""Detection of draws: calls that take numbers from the global random generators of ``random``,
NumPy or torch.

``sys.monitoring`` (PEP 669) reports each call from Python code, with the function object. So a
method of a global generator is recognised under any name, also after ``from random import random``.
For torch, a ``TorchFunctionMode``, which is active in one thread, compares the default generators'
states around each call. A ``TorchDispatchMode`` would see TorchScript's calls too, but fails in
torch 2.10 if two threads first use it at the same time.

Only calls in threads that are inside ``recording_draws`` are recorded. Draws by these kinds of code
are not detected:

- C code that calls a C function, as in ``sorted(names, key=random.random)``;
- TorchScript;
- threads that the dataset starts.
"""

import contextlib
import functools
import itertools
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from ftloader.diagnosis.call_site import Origin, origin_of
from ftloader.rng.generators import PROGRAMS
from ftsafety.audit.monitoring import monitoring
from ftsafety.audit.report import SourceLine


class Draw(NamedTuple):
    """Line that draws from a global random generator, or seeds it."""

    line: SourceLine
    name: str
    """The public name of the called function, such as "random.random"."""
    generator: str


_this_thread = threading.local()
"""Its attribute ``draws`` is the set of the current thread's draws. No threads share a set, so
there is no lock.
"""


@contextlib.contextmanager
def reporting_calls() -> Iterator[None]:
    """Context manager: have Python report the function calls of all threads,
    so that draws can be noticed.

    The draws of a thread are recorded only while the thread is inside ``recording_draws``.
    """
    call = sys.monitoring.events.CALL
    with monitoring({call: _on_call}) as tool:
        sys.monitoring.set_events(tool, call)
        yield


@contextlib.contextmanager
def recording_draws(draws: set[Draw]) -> Iterator[None]:
    """Context manager: add this thread's draws to *draws*. Needs ``reporting_calls`` around it."""
    _this_thread.draws = draws
    try:
        with _TorchDraws():
            yield
    finally:
        _this_thread.draws = None


_PREFIXES: Final = {
    "the global generator of the module random": "random.",
    "NumPy's global generator": "numpy.random.",
    "torch's default generator": "torch.default_generator.",
}
"""The global generators, in words, and the prefixes of their functions' names."""
_, _NUMPY, _TORCH = _PREFIXES
_INSTANCES: Final = tuple(zip(PROGRAMS.values(), _PREFIXES, strict=True))

# Names of methods that only read a generator's state; others draw or set it.
_READING: Final = frozenset(
    {
        "getstate",
        "get_state",
        "__getstate__",
        "__reduce__",
        "initial_seed",
        "clone_state",
        "get_offset",
    }
)

_CythonFunction: Final = type(np.random.seed)
# Functions of NumPy's own that call a method of the global instance.
_NUMPY_FUNCTIONS: Final = frozenset(map(id, (np.random.seed, np.random.sample, np.random.ranf)))
# Functions that call their first argument later, from C.
_CALL_LATER: Final = frozenset(map(id, (map, iter, itertools.starmap)))


def _generator_of(function: Any, argument: Any) -> str | None:
    """Return the name of the global generator from which the call *function*(*argument*, ...)
    draws, or None.
    """
    if type(function) is _CythonFunction and id(function) in _NUMPY_FUNCTIONS:
        return _NUMPY
    owner = _owner(function, argument)
    for instance, generator in _INSTANCES:
        if owner is instance:
            return generator
    return None


def _owner(function: Any, argument: Any) -> Any:
    """Return the object whose method *function* is; None if it is no method of a generator."""
    # Attributes are read of known types only: the __getattr__ of a user's type may do anything.
    kind = type(function)
    if kind is types.BuiltinMethodType or kind is types.MethodType:
        return function.__self__
    if kind is types.MethodDescriptorType:
        return argument
    if kind is types.FunctionType:
        # self.random() inside random.Random.
        return argument if function.__module__ == "random" else None
    if kind is _CythonFunction and function.__qualname__.startswith("RandomState."):
        return argument
    return None


def _on_call(code: types.CodeType, offset: int, function: Any, argument: Any) -> None:
    """Record the call if it is a draw. Callback of ``sys.monitoring``,
    which reports no events during callbacks.
    """
    draws = getattr(_this_thread, "draws", None)
    if draws is None:
        return
    function = _called_function(function, argument)
    generator = _generator_of(function, argument)
    if generator is None or function.__name__ in _READING:
        return
    line, library_function = find_call_site(sys._getframe(1))
    # If a function of the library made the call, its name is better known.
    name = library_function or _PREFIXES[generator] + function.__name__
    draws.add(Draw(line, name, generator))


def _called_function(function: Any, argument: Any) -> Any:
    """Return the function that the call *function*(*argument*, ...) leads to."""
    if id(function) in _CALL_LATER:
        function = argument
    while type(function) is functools.partial:
        function = function.func
    return function


class _TorchDraws(TorchFunctionMode):
    """Mode that records calls of torch functions that draw from a default generator.
    The calls run unchanged.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        before = _torch_states()
        result = func(*args, **(kwargs or {}))
        if _torch_states() != before:
            line, _ = find_call_site(sys._getframe(1))
            _this_thread.draws.add(Draw(line, _name_in_torch(func), _TORCH))
        return result


def _torch_states() -> list[bytes]:
    # CUDA's generators exist once the first device is used.
    generators = torch.default_generator, *torch.cuda.default_generators
    return [generator.get_state().numpy().tobytes() for generator in generators]


def _name_in_torch(function: Any) -> str:
    """Return the function's public name: ``torch.rand``, ``torch.Tensor.uniform_``."""
    if type(function).__module__ == "torch._ops":
        return f"torch.ops.{function}"
    if type(function) is types.FunctionType:
        return f"{function.__module__}.{function.__qualname__}"
    owner = "torch.Tensor" if type(function) is types.MethodDescriptorType else "torch"
    return f"{owner}.{function.__name__}"


def find_call_site(frame: types.FrameType) -> tuple[SourceLine, str | None]:
    """Return the line of user code that led to the draw in *frame*, and the library function that
    this line called.

    Sometimes no user code led to the draw: ftloader called an installed package, which drew. Then
    the line is in this package. The function is None if the line calls the generator directly.
    """
    called = None
    outside: types.FrameType | None = None  # the first frame outside of random, NumPy and torch
    current: types.FrameType | None = frame
    while current is not None:
        origin = origin_of(current.f_code.co_filename)
        if origin is Origin.USER:
            return _line_of(current), called
        if outside is not None:
            if origin is Origin.ENGINE:
                break
        elif origin is Origin.GENERATOR:
            called = _function_name(current) or called
        elif origin is Origin.INSTALLED:
            outside = current
        current = current.f_back
    return _line_of(outside or frame), called


def _line_of(frame: types.FrameType) -> SourceLine:
    return SourceLine(frame.f_code.co_filename, frame.f_lineno)


def _function_name(frame: types.FrameType) -> str | None:
    module = frame.f_globals.get("__name__", "")
    if module.startswith(("torch._compile", "torch._dynamo")):
        return None  # importing torch._dynamo wraps torch.manual_seed
    # random.randint is a method of a hidden instance of random.Random.
    name = frame.f_code.co_qualname.removeprefix("Random.")
    return f"{module}.{name}"
