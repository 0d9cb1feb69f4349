"""Makes torch's ``get_worker_info()`` work in worker threads.

torch keeps the worker's info in a global of the process. User code may have imported the function already. So the
function object stays, and its new ``__code__`` returns the current thread's info or, if there is none, the global.
"""

import sys
from typing import Any

import torch
from torch.utils.data import get_worker_info

from ftloader.compat.torch_private import WorkerInfo
from ftloader.compat.torch_private import collate as _torch_collate
from ftloader.compat.torch_private import worker as _torch_worker
from ftloader.current import NO_SAMPLE, acting_as, this_thread
from ftloader.rng.sample import sample_rng

__all__ = ["WorkerInfo", "acting_as", "describe_worker", "get_worker_info"]


class _Generators:
    """Value of ``WorkerInfo.rng`` in worker threads: the generators of the sample that the thread is loading."""

    @property
    def torch_generator(self) -> torch.Generator | None:
        return sample_rng().torch if this_thread.sample.key is not NO_SAMPLE else None


def describe_worker(number: int, num_workers: int, seed: int, dataset: Any) -> WorkerInfo:
    """Return a worker thread's ``WorkerInfo``, which torch's ``thread_safe_generator`` can use, where torch has one."""
    more = {"worker_method": "thread", "rng": _Generators()} if hasattr(torch.random, "thread_safe_generator") else {}
    return WorkerInfo(id=number, num_workers=num_workers, seed=seed, dataset=dataset, **more)


# torch's collate_tensor_fn allocates the batch in shared memory if there is a worker info, since that meant "in another
# process". In a worker thread this is slow, uses up /dev/shm and marks the batch as shared. So this one caller, known
# by its code object, gets None.
_SHARED_MEMORY_CODE = _torch_collate.collate_tensor_fn.__code__


def _current_thread_info() -> WorkerInfo | None:
    info = this_thread.worker
    # Frame 0 is this function, 1 is get_worker_info, 2 is its caller.
    if info is not None and sys._getframe(2).f_code is _SHARED_MEMORY_CODE:
        return None
    return info


def _get_worker_info():
    # This code runs as torch's get_worker_info, with the globals of torch's module.
    return _loader_thread_info() or _worker_info  # type: ignore[name-defined]  # noqa: F821


# __code__ is assigned once, while this module is imported. A thread that runs get_worker_info at that moment finishes
# with the code that it started with.
_torch_worker._loader_thread_info = _current_thread_info
get_worker_info.__code__ = _get_worker_info.__code__.replace(co_name="get_worker_info")
