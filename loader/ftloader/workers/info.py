"""Makes the ``WorkerInfo`` of worker threads, which ``compat.patch``
lets torch's ``get_worker_info()`` return.
"""

from typing import Any

import torch
from torch.utils.data import get_worker_info

from ftloader.compat.torch_private import WorkerInfo
from ftloader.current import NO_SAMPLE, acting_as, this_thread
from ftloader.rng.sample import sample_rng

__all__ = ["WorkerInfo", "acting_as", "describe_worker", "get_worker_info"]


class _Generators:
    """Value of ``WorkerInfo.rng`` in worker threads:
    the generators of the sample that the thread is loading.
    """

    @property
    def torch_generator(self) -> torch.Generator | None:
        if this_thread.sample.key is NO_SAMPLE:
            return None
        return sample_rng().torch


def describe_worker(number: int, num_workers: int, seed: int, dataset: Any) -> WorkerInfo:
    """Return a worker thread's ``WorkerInfo``, which torch's ``thread_safe_generator`` can use,
    where torch has one.
    """
    more: dict[str, Any] = {}
    if hasattr(torch.random, "thread_safe_generator"):
        more = {"worker_method": "thread", "rng": _Generators()}
    return WorkerInfo(id=number, num_workers=num_workers, seed=seed, dataset=dataset, **more)
