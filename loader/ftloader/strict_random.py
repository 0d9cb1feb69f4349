"""Strict mode: reports draws from the global random generators in worker threads.

The global generators (``random``, ``numpy.random``, torch's default generators) are one
per process. When worker threads draw from them, which sample gets which number depends on
who comes first. ``DataLoader(strict_rng=True)`` reports each place where that happens, by
two means that see a draw however the user's code holds the function:

- ``sys.monitoring`` (PEP 669) reports every call made by Python code, with the function
  called: a method bound to a global generator of ``random`` or NumPy is recognised also
  after ``from random import random``. Monitoring is on or off for all threads of the
  process; the callback returns at once in a thread that is not being watched. It is on
  only while a worker of a strict loader lives.
- a ``TorchFunctionMode``, which belongs to a thread, sees the calls of torch's functions
  with their arguments, hence also whether a generator was passed (``torch_operations``).
  (A ``TorchDispatchMode`` would see what TorchScript calls too, but its entry sets flags
  of the whole process that make ``torch.compile`` fall back to eager mode, and torch 2.10
  looks up an operation's Python object without a lock: of two threads that use one for
  the first time at once, one fails.)

Not seen: calls that other C code makes of C functions that it was given, as in
``sorted(names, key=random.random)``, what TorchScript draws, and threads that a dataset
starts itself.
"""

import contextlib
import functools
import itertools
import random
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from ftloader import fork_locks, torch_operations
from ftloader.call_site import CallSite, find_call_site
from ftloader.random import GlobalRandomWarning

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

    Copies and pickles are new watches, which have reported nothing: a worker process
    reports for itself.
    """

    def __init__(self) -> None:
        # Guards _reported; reentrant, since a finalizer that strikes inside may draw as well.
        self._lock = fork_locks.rlock()
        self._reported: set[tuple] = set()

    def __reduce__(self) -> tuple:
        return Watch, ()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Within the block draws of this thread from global generators are reported, once per
        call site, as ``GlobalRandomWarning``. Other threads are not affected.

        Meant to be entered once in the life of a worker, since the first entry and the last
        exit in a process switch monitoring on and off, which stops all threads for a moment.

        Raises:
            RuntimeError: if all of ``sys.monitoring``'s tool ids are in use.
        """
        tool = _tool
        tool.acquire()
        try:
            outer = _current.watch
            _current.watch = self
            try:
                with _TorchDraws():
                    yield
            finally:
                _current.watch = outer
        finally:
            tool.release()

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
    paused: Watch | None = None
    """The watch of a thread that is forking."""


_current = _PerThread()

_PYTHON: Final = Generator("the global generator of the module random", "python", "random.")
_NUMPY: Final = Generator("NumPy's global generator", "numpy", "numpy.random.")
_TORCH: Final = Generator("torch's default generator", "torch", "torch.default_generator.")
_INSTANCES: Final = ((random._inst, _PYTHON), (np.random.mtrand._rand, _NUMPY), (torch.default_generator, _TORCH))

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

    Only types whose attributes are known are asked for them: others are the user's, whose
    ``__getattr__`` may do anything.
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
    watch = _current.watch
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
        watch = _current.watch  # None in a child forked within the block
        if drew and watch is not None:
            site = find_call_site(sys._getframe(1))
            watch.report(Draw(_TORCH, torch_operations.function_name(func), False, site))
        return result


class _MonitoringTool:
    """Owner of our tool id: monitoring is on while somebody has acquired it."""

    _IDS = (3, 4, 5, 2, 1, 0)  # those without a customary owner first

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the two below, and switching on and off
        self._users = 0
        self._id: int | None = None

    def acquire(self) -> None:
        with self._lock:
            if not self._users:
                self._switch_on()
            self._users += 1

    def release(self) -> None:
        if self is not _tool:
            return  # in a child forked within the block
        with self._lock:
            self._users -= 1
            if not self._users:
                self.switch_off()

    def _switch_on(self) -> None:
        for tool_id in self._IDS:
            try:
                sys.monitoring.use_tool_id(tool_id, "ftloader.strict_random")
            except ValueError:
                continue  # in use
            self._id = tool_id
            sys.monitoring.register_callback(tool_id, _CALL, _on_call)
            sys.monitoring.set_events(tool_id, _CALL)
            return
        holders = ", ".join(str(sys.monitoring.get_tool(tool_id)) for tool_id in self._IDS)
        raise RuntimeError(
            "strict_rng=True needs one of sys.monitoring's tool ids, but all are in use "
            f"({holders}). Stop one of these tools, or leave strict_rng out"
        )

    def switch_off(self) -> None:
        # Another thread may be about to run the callback: it stays valid, as it is a
        # function of this module, and finds that its thread is not watched.
        tool_id, self._id = self._id, None
        if tool_id is None:
            return
        sys.monitoring.set_events(tool_id, 0)
        sys.monitoring.register_callback(tool_id, _CALL, None)
        sys.monitoring.free_tool_id(tool_id)


_tool = _MonitoringTool()


def _pause_before_fork() -> None:
    # The module random seeds its generator anew in the child, before it is our turn there.
    _current.paused, _current.watch = _current.watch, None


def _resume_in_parent() -> None:
    _current.watch, _current.paused = _current.paused, None


def _renew_in_child() -> None:
    # The child is not the worker that forked it, and the other workers are not there. One of
    # them may hold the lock.
    global _tool
    _current.paused = None
    _tool.switch_off()
    _tool = _MonitoringTool()


fork_locks.register(_pause_before_fork, _resume_in_parent, _renew_in_child)
