"""All that importing this package replaces in torch: ``patch_torch()``,
which the package calls once.

User code may have imported a function of torch already. So the function object stays and gets new
code, which runs with the globals of torch's module. A thread that runs the function at that moment
finishes with the code that it started with. Tests compare ``REPLACED`` with what differs after the
import, and with the table in docs/loader.md, which says why.
"""

import sys
import types
import warnings
from typing import Any

import torch
from torch.utils.data import get_worker_info

from ftloader.compat import worker_map
from ftloader.compat.torch_private import collate, dataloader, signal_handling, worker
from ftloader.current import this_thread
from ftloader.diagnosis.call_site import Origin, origin_of, warn_user

REPLACED = (
    "torch.random.ftloader_this_thread",
    "torch.random.initial_seed",
    "torch.utils.data._utils.signal_handling._error_if_any_worker_fails",
    "torch.utils.data._utils.signal_handling._remove_worker_pids",
    "torch.utils.data._utils.signal_handling._set_worker_pids",
    "torch.utils.data._utils.worker.ftloader_thread_info",
    "torch.utils.data._utils.worker.get_worker_info",
    "torch.utils.data.dataloader.warnings",
)
"""All names in torch that have another value or other code after the import."""

# torch's collate_tensor_fn allocates the batch in shared memory if there is a worker info, since
# that meant "in another process". In a worker thread this is slow, uses up /dev/shm and marks the
# batch as shared. So this one caller, known by its code object, gets None.
_SHARED_MEMORY_CODE = collate.collate_tensor_fn.__code__


def patch_torch() -> None:
    """Replace code and names in torch, so that its functions answer for worker threads too."""
    worker.ftloader_thread_info = _info_of_this_thread
    get_worker_info.__code__ = _get_worker_info.__code__.replace(co_name="get_worker_info")
    torch.random.ftloader_this_thread = this_thread
    torch.random.initial_seed.__code__ = _initial_seed.__code__.replace(co_name="initial_seed")
    signal_handling._error_if_any_worker_fails = worker_map.error_if_any_worker_fails
    signal_handling._set_worker_pids = worker_map.set_worker_pids
    signal_handling._remove_worker_pids = worker_map.remove_later
    dataloader.warnings = types.SimpleNamespace(**{**vars(warnings), "warn": _warn})


def _info_of_this_thread() -> Any:
    info = this_thread.worker
    # Frame 0 is this function, 1 is get_worker_info, 2 is its caller.
    if info is not None and sys._getframe(2).f_code is _SHARED_MEMORY_CODE:
        return None
    return info


def _get_worker_info():
    # torch keeps the info of a worker process in a global, ``_worker_info``.
    return ftloader_thread_info() or _worker_info  # type: ignore[name-defined]  # noqa: F821


def _initial_seed() -> int:
    info = ftloader_this_thread.worker  # type: ignore[name-defined]  # noqa: F821
    return default_generator.initial_seed() if info is None else info.seed  # type: ignore[name-defined]  # noqa: F821


def _warn(
    message: str, category: type[Warning] | None = None, stacklevel: int = 1, **options: Any
) -> None:
    """Warn as ``warnings.warn`` does, but name the program's line
    where torch's warning would name this package's.
    """
    if origin_of(sys._getframe(stacklevel).f_code.co_filename) is Origin.ENGINE:
        warn_user(message, category or UserWarning)
    else:
        warnings.warn(message, category, stacklevel + 1, **options)
