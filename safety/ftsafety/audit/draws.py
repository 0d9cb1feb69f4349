"""Draws from the program's global random generators, by one thread, however its code holds the function.

``sys.monitoring`` (PEP 669) reports every call made by Python code, with the function called: a method bound to a
global generator of ``random`` or NumPy is recognised also after ``from random import random``. A ``TorchFunctionMode``,
which belongs to a thread, sees the calls of torch's functions with their arguments (``torch_operations``). (A
``TorchDispatchMode`` would see what TorchScript calls too, but fails in torch 2.10 where two threads first use it at
once.)

Not seen: calls that other C code makes of C functions that it was given, as in ``sorted(names, key=random.random)``,
what TorchScript draws, and threads that a dataset starts itself.
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
from torch.overrides import TorchFunctionMode

from ftloader.rng.generators import PROGRAMS
from ftsafety.audit import torch_operations
from ftsafety.audit.call_site import find_call_site
from ftsafety.audit.monitoring import monitoring
from ftsafety.audit.report import Line


class Draw(NamedTuple):
    """A place that draws from a global random generator, or seeds it."""

    line: Line
    name: str
    """The function that was called, by the name that users know."""
    generator: str


class _PerThread(threading.local):
    """The draws recorded for each thread; hence no lock."""

    found: set[Draw] | None = None


_this_thread = _PerThread()


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """Context manager: calls are monitored in all threads, and recorded for threads in a block of ``recording``.

    Raises:
        RuntimeError: all of ``sys.monitoring``'s tool ids are in use.
    """
    call = sys.monitoring.events.CALL
    with monitoring({call: _on_call}) as tool:
        sys.monitoring.set_events(tool, call)
        yield


@contextlib.contextmanager
def recording(found: set[Draw]) -> Iterator[None]:
    """Context manager: draws of this thread are added to *found*."""
    _this_thread.found = found
    try:
        with _TorchDraws():
            yield
    finally:
        _this_thread.found = None


_PREFIXES: Final = {
    "the global generator of the module random": "random.",
    "NumPy's global generator": "numpy.random.",
    "torch's default generator": "torch.default_generator.",
}
"""The global generators, in words, and how the names of their functions begin."""
_, _NUMPY, _TORCH = _PREFIXES
_INSTANCES: Final = tuple(zip(PROGRAMS.values(), _PREFIXES, strict=True))

# Names of methods that only read a generator's state; others draw or set it.
_READING: Final = frozenset(
    {"getstate", "get_state", "__getstate__", "__reduce__", "initial_seed", "clone_state", "get_offset"}
)

_CythonFunction: Final = type(np.random.seed)
# Functions of NumPy's own that call a method of the global instance.
_NUMPY_FUNCTIONS: Final = (np.random.seed, np.random.sample, np.random.ranf)
# They call their first argument later, from C.
_CALL_LATER: Final = frozenset(map(id, (map, iter, itertools.starmap)))


def _generator_of(function: Any, argument: Any) -> str | None:
    """Return the global generator that *function*, called with *argument* first, is a method of.

    Attributes are read of known types only: the ``__getattr__`` of a user's type may do anything.
    """
    kind = type(function)
    if kind is types.BuiltinMethodType or kind is types.MethodType:
        owner = function.__self__
    elif (
        kind is types.MethodDescriptorType
        or (kind is types.FunctionType and function.__module__ == "random")  # self.random() inside random.Random
        or (kind is _CythonFunction and function.__qualname__.startswith("RandomState."))
    ):
        owner = argument
    elif kind is _CythonFunction and any(function is known for known in _NUMPY_FUNCTIONS):
        return _NUMPY
    else:
        return None
    return next((generator for instance, generator in _INSTANCES if owner is instance), None)


def _on_call(code: types.CodeType, offset: int, function: Any, argument: Any) -> None:
    """Record a draw: the callback of ``sys.monitoring``, in every thread. While it runs, no event is reported."""
    found = _this_thread.found
    if found is None:
        return
    if id(function) in _CALL_LATER:
        function = argument
    while type(function) is functools.partial:
        function = function.func
    generator = _generator_of(function, argument)
    if generator is not None and (name := function.__name__) not in _READING:
        line, called = find_call_site(sys._getframe(1))
        # The caller may be part of the library, and better known by its own name.
        found.add(Draw(line, called or _PREFIXES[generator] + name, generator))


class _TorchDraws(TorchFunctionMode):
    """Mode that records calls that draw from a default generator; it changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result, drew = torch_operations.call(func, args, kwargs or {})
        if drew and _this_thread.found is not None:
            line, _ = find_call_site(sys._getframe(1))
            _this_thread.found.add(Draw(line, torch_operations.function_name(func), _TORCH))
        return result
