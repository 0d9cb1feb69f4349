"""The public class: torch's ``DataLoader`` with a choice of worker method."""

import copy
import inspect
import os
from collections.abc import Mapping
from typing import Any

import torch.utils.data

from ftloader.batch.errors import ErrorPolicy, OnError, SkipLog
from ftloader.choose import WORKER_METHODS, WorkerMethod, check_thread_arguments, choose_workers, reason_against_threads
from ftloader.compat.torch_private import BaseDataLoaderIter
from ftloader.diagnosis.call_site import warn_user
from ftloader.iterators.processes import ProcessDataLoaderIter
from ftloader.iterators.serial import SerialDataLoaderIter
from ftloader.iterators.shared import Shared
from ftloader.iterators.threads import ThreadDataLoaderIter


class DataLoader[T](torch.utils.data.DataLoader[T]):
    """``torch.utils.data.DataLoader`` with workers that may be threads.

    Takes every argument of torch's class, with the same meaning, and these:

    Args:
        worker_method: what a worker is when ``num_workers > 0``.

            - ``"thread"``: a thread of this process. Batches are handed over without a copy; a map-style dataset is
              shared and need not be picklable.
            - ``"process"``: torch's own worker processes.
            - ``"auto"`` (default): threads if the GIL is off when the iterator is made, else processes; processes also
              if ``multiprocessing_context`` is given, for data pipes, and for iterable-style datasets that cannot be
              copied, or whose functions cannot. The logger ``ftloader`` says why. With threads it warns once of a
              file, cursor or reader among a map-style dataset's attributes, and of samples that use the global random
              generators.
        on_error: what becomes of a sample whose loading raises an ``Exception``: ``"raise"`` (default) raises it,
            ``"skip"`` leaves the sample out, a callable ``on_error(error, index)`` that returns a sample to use instead
            or ``ftloader.SKIP``. See ``ftloader.batch.errors``. What was left out is counted and described in the
            attribute ``skipped``, and warned of at the end of the epoch.
        snapshot_every_n_steps: after how many batches a sampler, or a worker's dataset, is asked for its
            ``state_dict()`` if it has one. None (default): a sampler once an epoch, at its begin (``load_state_dict``
            draws the indices since then again, and loads no samples); a map-style dataset in each worker process
            likewise, so what changes in it during the epoch is not saved; an iterable-style dataset after each batch. A
            number makes large states of iterable-style datasets cheaper, and ``load_state_dict`` then loads the samples
            since the last again; it saves a map-style dataset in a worker process as it was at most so many batches
            ago, and a sampler that the training changes. Without workers and with threads a map-style dataset is only
            asked when ``state_dict()`` of the loader is called.

    With threads, ``multiprocessing_context`` must be None and ``prefetch_factor`` at least 1. docs/loader.md lists what
    else differs from processes, above all:

    - A map-style dataset is one object for all workers, and so is its ``collate_fn``: they must be thread-safe (PEP 703
      describes what the interpreter guarantees without the GIL). An iterable-style dataset is copied for each worker,
      with its functions (``ftloader.workers.copies``).
    - ``random``, ``numpy.random`` and torch's default generator are those of the program, and workers do not seed them.
      Draw from ``ftloader.sample_rng()``, whose numbers belong to the sample.
    - A batch of ``batch_size=None``, or of a ``collate_fn`` that copies nothing, is the dataset's own objects: writing
      into it writes into the dataset.
    - An exception of a worker is the same object, with notes. The epoch can be continued after it.

    Raises:
        ValueError: for an unknown ``worker_method`` or ``on_error``; for ``multiprocessing_context``, or a
            data pipe, together with ``worker_method="thread"``; and as torch's class does.
        TypeError: for an ``on_error`` that cannot be called.

    See pytorch/pytorch#161044 for torch's own, unmerged, thread workers.
    """

    worker_method: WorkerMethod
    on_error: OnError
    snapshot_every_n_steps: int | None
    skipped: SkipLog
    """What ``on_error`` has left out so far, over all iterators and epochs."""

    def __init__(
        self,
        dataset,
        *args: Any,
        worker_method: WorkerMethod = "auto",
        on_error: OnError = "raise",
        snapshot_every_n_steps: int | None = None,
        **kwargs: Any,
    ) -> None:
        # Before torch's own arguments, whose checks depend on it.
        self.worker_method = worker_method
        self.on_error = on_error
        self.snapshot_every_n_steps = snapshot_every_n_steps
        self.skipped = SkipLog()
        self._shared = Shared()
        super().__init__(dataset, *args, **kwargs)

    def __setattr__(self, attr: str, val: Any) -> None:
        # Here rather than in properties: torch's class guards attributes this way too,
        # and worker_method stays visible in vars(), where tools look for arguments.
        if attr == "worker_method" and val not in WORKER_METHODS:
            raise ValueError(f"worker_method must be one of {', '.join(map(repr, WORKER_METHODS))}, got {val!r}")
        elif attr == "on_error":
            ErrorPolicy(val)  # raises if it is none
        elif attr == "snapshot_every_n_steps" and val is not None and (type(val) is not int or val < 1):
            raise ValueError(f"snapshot_every_n_steps must be an integer from 1 or None, got {val!r}")
        if attr in (together := ("worker_method", "multiprocessing_context", "dataset")):
            # As the three would be; the constructor sets them one after the other.
            check_thread_arguments(*(val if name == attr else getattr(self, name, None) for name in together))
        super().__setattr__(attr, val)

    def state_dict(self) -> dict[str, Any]:
        """Where the latest iterator is: what ``load_state_dict`` goes on from.

        Counts the batches that the loop was given, not those prefetched; samples that ``on_error`` left out count too,
        and a batch that raised an exception once a later one is handed over. Before the first iterator, and once one
        has ended, it stands for the whole epoch that follows. May be asked at any time, in any thread, also when the
        iterator is gone; it draws nothing and disturbs nothing. The size does not depend on the length of the dataset.

        ``ftloader.state.format`` describes the dictionary, and what it survives.
        """
        return self._shared.states.state(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Lets the next ``iter()`` go on where *state_dict* was taken; those after it go through whole epochs.

        The remaining batches are those that the saved loader had left, whatever ``num_workers``, ``worker_method`` and
        ``prefetch_factor`` are here. Iterable-style datasets share themselves out among the workers, so their number
        must be the same (0 and 1 are). An empty dictionary stands for no state.

        An explicit ``generator``, and those of the samplers, are put into the state that they had, at once. Loaders
        that share one go on together if their states were taken at the same moment; else load them in the order in
        which they were taken. torch's, NumPy's and Python's own generators are left as they are. An epoch in the midst
        needs none of them if the sampler is one of torch's or has a generator of its own; an epoch that is still to
        begin draws from them as ever.

        An iterable-style dataset with ``state_dict()`` and ``load_state_dict()`` is used as torchdata does it
        (``ftloader.batch.iterable``). Between two epochs the state of the loader's own dataset is loaded here, so that
        the program may then set another one, with ``set_epoch`` say.

        Raises:
            ValueError: if it is no state of a loader like this one, or one that cannot be gone on from (its text says
                what to do); nothing has changed then. Where only the sampler can tell, the next ``iter()`` or
                ``next()`` raises it.
        """
        self._shared.states.load(state_dict, self)
        self._iterator = None  # persistent workers start anew

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles have a state, memory and workers of their own.
        return self.__dict__ | {"_shared": copy.copy(self._shared), "_iterator": None}

    def _get_iterator(self) -> BaseDataLoaderIter:
        if self.num_workers == 0:
            return SerialDataLoaderIter(self)
        self.check_worker_number_rationality()
        choice = choose_workers(self)
        return ThreadDataLoaderIter(self, choice.copies) if choice.threads else ProcessDataLoaderIter(self)

    def check_worker_number_rationality(self) -> None:
        """Warns, as torch's class does, if there are more workers than usable CPUs."""
        threads = self.worker_method == "thread" or (
            self.worker_method == "auto" and reason_against_threads(self) is None
        )
        if self.num_workers == 0 or not threads:
            super().check_worker_number_rationality()
            return
        cpus = os.process_cpu_count()
        if cpus is not None and self.num_workers > cpus:
            warn_user(
                # Torch's sentences, which people filter by, but for the word threads.
                f"This DataLoader will create {self.num_workers} worker threads in total. Our suggested max number "
                f"of worker in current system is {cpus}, which is smaller than what this DataLoader is going to "
                "create. More help where samples are waited for (files, network), and slow down where they are "
                "computed."
            )


def _full_signature() -> inspect.Signature:
    torchs = inspect.signature(torch.utils.data.DataLoader.__init__)
    ours = inspect.signature(DataLoader.__init__).parameters.values()
    return torchs.replace(parameters=[*torchs.parameters.values(), *(p for p in ours if p.kind is p.KEYWORD_ONLY)])


# help(), and tools that rebuild a loader from its arguments (Lightning among them), see
# every argument by its name, also one that a later torch adds.
DataLoader.__init__.__signature__ = _full_signature()  # type: ignore[attr-defined]
