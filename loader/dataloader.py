"""The public class: torch's ``DataLoader`` with a choice of worker method."""

import inspect
import os
import sys
import warnings
from typing import Any, Literal, get_args

import torch.utils.data
from torch.utils.data import IterDataPipe, MapDataPipe
from torch.utils.data.dataloader import _BaseDataLoaderIter

from loader.thread_iterator import ThreadDataLoaderIter

WorkerMethod = Literal["auto", "thread", "process"]
_CHOICES = get_args(WorkerMethod)
_DATA_PIPES = (IterDataPipe, MapDataPipe)


class DataLoader(torch.utils.data.DataLoader):
    """``torch.utils.data.DataLoader`` with workers that may be threads.

    Takes every argument of torch's class, with the same meaning, and one more:

    Args:
        worker_method: what a worker is when ``num_workers > 0``.

            - ``"thread"``: a thread of this process. Batches are handed over without a
              copy, the dataset is shared, and nothing needs to be picklable.
            - ``"process"``: torch's own worker processes, unchanged.
            - ``"auto"`` (default): threads if the GIL is off when the iterator is made,
              else processes; processes also if ``multiprocessing_context`` is given, and
              for data pipes.

    With threads, ``multiprocessing_context`` must be None, ``prefetch_factor`` at least
    1, and the following differs from processes:

    - A map-style dataset is one object for all workers, so its ``__getitem__`` runs in
      several threads at once and must be thread-safe (PEP 703 describes what the
      interpreter guarantees without the GIL). An iterable-style dataset is shallow-copied
      for each worker.
    - ``get_worker_info()``, torch's own function included, answers per worker thread;
      threads that a dataset starts by itself see None.
    - ``random``, ``numpy.random`` and torch's default generator are shared by all threads
      and are not seeded by the workers; seed a generator of your own with
      ``get_worker_info().seed``.
    - An exception of a worker is raised as the same object, with the worker's traceback
      and a note that names worker, batch and samples. ``StopIteration`` becomes
      ``RuntimeError``. The epoch can be continued after it.

    Raises:
        ValueError: for an unknown ``worker_method``, for ``multiprocessing_context`` or a
            data pipe together with ``worker_method="thread"``, and as torch's class does.

    See pytorch/pytorch#161044 for torch's own, unmerged, thread workers.
    """

    worker_method: WorkerMethod

    def __init__(
        self, dataset, *args: Any, worker_method: WorkerMethod = "auto", **kwargs: Any
    ) -> None:
        # Before torch's own arguments, whose checks depend on it.
        self.worker_method = worker_method
        super().__init__(dataset, *args, **kwargs)

    def __setattr__(self, attr: str, val: Any) -> None:
        # Here rather than in properties: torch's class guards attributes this way too,
        # and worker_method stays visible in vars(), where tools look for arguments.
        if attr == "worker_method":
            if val not in _CHOICES:
                raise ValueError(
                    f"worker_method must be one of {', '.join(map(repr, _CHOICES))}, got {val!r}"
                )
        if attr in ("worker_method", "multiprocessing_context", "dataset"):
            # As the three would be; the constructor sets them one after the other.
            _check_for_threads(
                **{
                    name: val if name == attr else getattr(self, name, None)
                    for name in ("worker_method", "multiprocessing_context", "dataset")
                }
            )
        super().__setattr__(attr, val)

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0 or self._resolve_worker_method() == "process":
            return super()._get_iterator()
        self.check_worker_number_rationality()
        return ThreadDataLoaderIter(self)

    def _resolve_worker_method(self) -> Literal["thread", "process"]:
        if self.worker_method != "auto":
            return self.worker_method
        if self.multiprocessing_context is not None or isinstance(self.dataset, _DATA_PIPES):
            return "process"
        if sys._is_gil_enabled():
            return "process"
        return "thread"

    def check_worker_number_rationality(self) -> None:
        """Warns, as torch's class does, if there are more workers than usable CPUs."""
        if self.num_workers == 0 or self._resolve_worker_method() == "process":
            super().check_worker_number_rationality()
            return
        cpus = os.process_cpu_count()
        if cpus is not None and self.num_workers > cpus:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker threads in total, more "
                f"than the {cpus} CPUs that this process may use. That helps where samples are "
                "waited for (files, network) and slows down where they are computed.",
                stacklevel=4,
            )


def _check_for_threads(worker_method: Any, multiprocessing_context: Any, dataset: Any) -> None:
    if worker_method != "thread":
        return
    if multiprocessing_context is not None:
        raise ValueError(
            "multiprocessing_context says how worker processes are started, but "
            "worker_method='thread' uses none: leave it out, or use "
            "worker_method='process' (or 'auto', which then uses processes)"
        )
    if isinstance(dataset, _DATA_PIPES):
        raise ValueError(
            "data pipes cannot be used by several threads, because torch keeps global state "
            "while it walks through them: use worker_method='process' (or 'auto')"
        )


def _full_signature() -> inspect.Signature:
    torchs = inspect.signature(torch.utils.data.DataLoader.__init__)
    ours = inspect.Parameter(
        "worker_method", inspect.Parameter.KEYWORD_ONLY, default="auto", annotation=WorkerMethod
    )
    return torchs.replace(parameters=[*torchs.parameters.values(), ours])


# help(), and tools that rebuild a loader from its arguments (Lightning among them), see
# every argument by its name, also one that a later torch adds.
DataLoader.__init__.__signature__ = _full_signature()  # type: ignore[attr-defined]
