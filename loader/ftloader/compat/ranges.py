"""Named ranges of time in traces: of ``torch.profiler``, and of tools that capture NVTX, such as Nsight Systems.

torch records only ranges of the thread that started the profiler. With the experimental option ``profile_all_threads``,
torch records ranges of all threads.
"""

import os
import types
from typing import Any

import torch
from torch.cuda import nvtx

from ftloader.compat.torch_private import autograd_profiler as profiler

# Tools set the variable for the programs that they capture; torch without CUDA has no NVTX.
_NVTX = bool(os.environ.get("NVTX_INJECTION64_PATH")) and torch.backends.cuda.is_built()
_unfinished: list[Any] = []  # keeps ranges from being ended while a profiler runs, see Range.end
# Stands for the profiler's latest run. The thread that starts a run replaces it: torch has no public name for the run,
# nor a function to call at its start (_profiler_enabled() and _is_profiler_enabled only say that there is one).
_session = object()


def _start(torchs: Any = profiler._run_on_profiler_start) -> None:
    global _session
    _session = object()
    if not profiler._is_profiler_enabled:
        _unfinished.clear()  # no session runs, so their destructors write nothing
    torchs()


profiler._run_on_profiler_start = _start


class Range:
    """Range in a trace, called *name*, in the calling thread. It lasts until this thread calls ``end()``."""

    __slots__ = ("_recorded", "_session")

    def __init__(self, name: str) -> None:
        self._session = _session
        self._recorded = profiler.record_function(name)
        self._recorded.__enter__()
        if _NVTX:
            nvtx.range_push(name)

    def end(self) -> None:
        if _NVTX:
            nvtx.range_pop()
        if self._session is _session:
            self._recorded.__exit__(None, None, None)
        else:
            # The end of a range, also by its destructor, would be written to the memory of the session in which the
            # range began. torch 2.10 has freed that by now (pytorch/pytorch #188172).
            _unfinished.append(self._recorded)


# Each of these begins a range, or returns None where nothing captures ranges. No context managers: with nothing to do
# each would take two calls more. No object that does nothing: all threads would write to its reference count.


def loading(dataset: Any) -> Range | None:
    """Begin and return a range for loading samples from *dataset*. Return None if nothing captures ranges."""
    if not (_NVTX or profiler._is_profiler_enabled):
        return None
    return Range(f"ftloader.dataset#{type(dataset).__name__}")


def collating(collate_fn: Any) -> Range | None:
    """Begin and return a range for making a batch with *collate_fn*. Return None if nothing captures ranges."""
    if not (_NVTX or profiler._is_profiler_enabled):
        return None
    named = collate_fn if type(collate_fn) is types.FunctionType else type(collate_fn)
    return Range(f"ftloader.collate#{named.__name__}")


def waiting() -> Range | None:
    """Begin and return a range for a worker thread's wait for work. Return None if nothing captures ranges."""
    return Range("ftloader.wait") if _NVTX or profiler._is_profiler_enabled else None
