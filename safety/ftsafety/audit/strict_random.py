"""Strict mode: reports draws from the global random generators in worker threads.

The global generators (``random``, ``numpy.random``, torch's default generators) are one per process. When worker
threads draw from them, which sample gets which number depends on who comes first. ``DataLoader(strict_rng=True)``
reports each place where that happens, by two means that see a draw however the user's code holds the function:

- ``sys.monitoring`` (PEP 669) reports every call made by Python code, with the function called: a method bound to a
  global generator of ``random`` or NumPy is recognised also after ``from random import random``. It is on or off for
  all threads of the process, and on only while a worker of a strict loader lives.
- a ``TorchFunctionMode``, which belongs to a thread, sees the calls of torch's functions with their arguments, hence
  also whether a generator was passed (``torch_operations``). (A ``TorchDispatchMode`` would see what TorchScript calls
  too, but sets flags of the whole process, and fails in torch 2.10 where two threads first use it at once.)

Comparing states (``global_generators.WorkerDraws``) cannot say which line drew while other threads draw too. Not seen:
calls that other C code makes of C functions that it was given, as in ``sorted(names, key=random.random)``, what
TorchScript draws, and threads that a dataset starts itself.
"""

import contextlib
import functools
import itertools
import os
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from torch.overrides import TorchFunctionMode

from ftloader import fork
from ftloader.rng.generators import PROGRAMS
from ftloader.rng.sample import GlobalRandomWarning
from ftsafety.audit import torch_operations
from ftsafety.audit.call_site import CallSite, find_call_site

_CALL: Final = sys.monitoring.events.CALL


class Generator(NamedTuple):
    """A global generator."""

    description: str
    attribute: str  # of SampleRNG
    prefix: str  # of its functions' names


class Draw(NamedTuple):
    """A call that draws from a global generator, or seeds it."""

    generator: Generator
    name: str
    """Of the function that was called, as users know it."""
    seeds: bool
    site: CallSite


class Watch:
    """What one strict loader has reported so far. Workers share it.

    Copies and pickles are new watches, which have reported nothing: a worker process reports for itself.
    """

    def __init__(self) -> None:
        # Guards _reported; reentrant, since a finalizer that strikes inside may draw as well.
        self._lock = fork.rlock()
        self._reported: set[tuple] = set()

    def __reduce__(self) -> tuple:
        return Watch, ()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Within the block draws of this thread from global generators are reported, once per call site, as
        ``GlobalRandomWarning``. Other threads are not affected.

        Meant to be entered once in the life of a worker, since the first entry and the last exit in a process switch
        monitoring on and off, which stops all threads for a moment.

        Raises:
            RuntimeError: if all of ``sys.monitoring``'s tool ids are in use.
        """
        with _monitoring(), _TorchDraws():
            outer = _current.watch, _current.process
            _current.watch, _current.process = self, os.getpid()
            try:
                yield
            finally:
                _current.watch, _current.process = outer

    def report(self, draw: Draw) -> None:
        """Warns of *draw*, unless its call site was reported before."""
        site = draw.site
        # One line may call several functions, one function draw several times.
        key = (site.filename, site.lineno, site.drawn_at, site.called or draw.name)
        with self._lock:
            if key in self._reported:
                return
            self._reported.add(key)
        through = f", drawn at {site.drawn_at}" if site.drawn_at else ""
        what = "seeds" if draw.seeds else "draws from"
        try:
            warnings.warn_explicit(
                f"{draw.name}() {what} {draw.generator.description} in a worker of a DataLoader"
                f"{through}. Which sample gets which number then depends on the order in which "
                "workers run. Use the sample's own generator instead: "
                f"ftloader.sample_rng().{draw.generator.attribute}",
                GlobalRandomWarning,
                site.filename,
                site.lineno,
                module=site.module,
                registry=site.registry,
            )
        except GlobalRandomWarning:  # a filter turns it into an error: once is not enough
            with self._lock:
                self._reported.discard(key)
            raise


class _PerThread(threading.local):
    """Each thread sees and sets its own; hence no lock."""

    watch: Watch | None = None
    process: int = 0
    """In which there is this watch: not in a child that is forked in the block."""


_current = _PerThread()


def _watch() -> Watch | None:
    """That of the calling thread."""
    watch = _current.watch
    return watch if watch is not None and _current.process == os.getpid() else None


_PYTHON: Final = Generator("the global generator of the module random", "python", "random.")
_NUMPY: Final = Generator("NumPy's global generator", "numpy", "numpy.random.")
_TORCH: Final = Generator("torch's default generator", "torch", "torch.default_generator.")
_INSTANCES: Final = tuple(zip(PROGRAMS.values(), (_PYTHON, _NUMPY, _TORCH), strict=True))

# Names of their methods that set the state, and of those that only read it; others draw.
_SEEDING: Final = frozenset({"seed", "manual_seed", "setstate", "set_state", "__setstate__", "set_offset"})
_READING: Final = frozenset(
    {"getstate", "get_state", "__getstate__", "__reduce__", "initial_seed", "clone_state", "get_offset"}
)


_CythonFunction: Final = type(np.random.seed)
# Functions of NumPy's own that call a method of the global instance.
_NUMPY_FUNCTIONS: Final = (np.random.seed, np.random.sample, np.random.ranf)
# They call what they are given as their first argument later, from C.
_CALL_LATER: Final = frozenset(map(id, (map, iter, itertools.starmap)))


def _generator_of(function: Any, argument: Any) -> Generator | None:
    """The global generator that *function*, called with *argument* as its first, is a method of.

    Only types whose attributes are known are asked for them: others are the user's, whose ``__getattr__`` may do
    anything.
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
    """``sys.monitoring``'s callback, in every thread. While it runs, no event is reported."""
    watch = _watch()
    if watch is None:
        return
    if id(function) in _CALL_LATER:
        function = argument
    while type(function) is functools.partial:
        function = function.func
    generator = _generator_of(function, argument)
    if generator is not None and (name := function.__name__) not in _READING:
        site = find_call_site(sys._getframe(1))
        # The caller may be part of the library, and better known by its own name.
        watch.report(Draw(generator, site.called or generator.prefix + name, name in _SEEDING, site))


class _TorchDraws(TorchFunctionMode):
    """Reports calls that draw from a default generator; changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result, drew = torch_operations.call(func, args, kwargs or {})
        watch = _watch()
        if drew and watch is not None:
            site = find_call_site(sys._getframe(1))
            watch.report(Draw(_TORCH, torch_operations.function_name(func), False, site))
        return result


# Guards the two below, and switching on and off.
_tool_lock = fork.lock()
_watchers = 0
_tool_id = 0
_IDS: Final = (3, 4, 5, 2, 1, 0)  # those without a customary owner first


@contextlib.contextmanager
def _monitoring() -> Iterator[None]:
    """A block in which calls are monitored."""
    global _watchers, _tool_id
    process = os.getpid()
    with _tool_lock:
        if not _watchers:
            _tool_id = _switched_on()
        _watchers += 1
    try:
        yield
    finally:
        if os.getpid() == process:  # else in a child forked within the block
            with _tool_lock:
                _watchers -= 1
                if not _watchers:
                    _switch_off()


def _switched_on() -> int:
    for tool_id in _IDS:
        with contextlib.suppress(ValueError):  # in use
            sys.monitoring.use_tool_id(tool_id, "ftsafety.audit.strict_random")
            sys.monitoring.register_callback(tool_id, _CALL, _on_call)
            sys.monitoring.set_events(tool_id, _CALL)
            return tool_id
    holders = ", ".join(str(sys.monitoring.get_tool(tool_id)) for tool_id in _IDS)
    raise RuntimeError(
        "strict_rng=True needs one of sys.monitoring's tool ids, but all are in use "
        f"({holders}). Stop one of these tools, or leave strict_rng out"
    )


def _switch_off() -> None:
    # Another thread may be about to run the callback, which finds that its thread is not watched.
    sys.monitoring.set_events(_tool_id, 0)
    sys.monitoring.register_callback(_tool_id, _CALL, None)
    sys.monitoring.free_tool_id(_tool_id)


def _begin_anew_in_child() -> None:
    # The child is not the worker that forked it, and the other workers are not there.
    global _watchers
    if _watchers:
        _watchers = 0
        _switch_off()


fork.call_in_child(_begin_anew_in_child)
