"""The public class: torch's ``DataLoader`` with a choice of worker method."""

import copy
import inspect
import os
from collections.abc import Mapping
from typing import Any

import torch.utils.data

from ftloader.batch.errors import ErrorPolicy, OnError, SkipLog
from ftloader.diagnosis import loaders
from ftloader.diagnosis.call_site import warn_user
from ftloader.diagnosis.statistics import LoaderStatistics, statistics
from ftloader.iterators.auto import Chosen, number_of_workers
from ftloader.iterators.base import ResumableDataLoaderIter, Shared
from ftloader.iterators.processes import ProcessDataLoaderIter
from ftloader.iterators.serial import SerialDataLoaderIter
from ftloader.iterators.threads import ThreadDataLoaderIter
from ftloader.workers.choose import (
    WORKER_METHODS,
    WorkerMethod,
    check_thread_arguments,
    choose_workers,
    reason_against_threads,
)

_CHECKED_TOGETHER = "worker_method", "multiprocessing_context", "dataset"


class DataLoader[T](torch.utils.data.DataLoader[T]):
    """``torch.utils.data.DataLoader`` with workers that may be threads.

    Takes every argument of torch's class, with the same meaning, and these:

    Args:
        worker_method: the kind of worker, if ``num_workers > 0``.

            - ``"thread"``: a thread of this process. Batches are handed over without a copy; a
              map-style dataset is shared and need not be picklable.
            - ``"process"``: torch's own worker processes.
            - ``"auto"`` (default): threads if the GIL is off when the iterator is made, else
              processes. It also chooses processes if ``multiprocessing_context`` is given, for data
              pipes, and for iterable-style datasets that cannot be copied. The logger ``ftloader``
              reports the choice and its reason. If "auto" chooses threads, the loader warns once of
              files, cursors and readers among a map-style dataset's attributes.
        on_error: the action for a sample whose loading raises an ``Exception``. ``"raise"``
            (default) raises it; ``"skip"`` leaves the sample out; a callable ``on_error(error,
            index)`` returns a sample to use instead, or ``ftloader.SKIP``. The attribute
            ``skipped`` describes the samples left out, and a warning at the end of the epoch names
            them.
        snapshot_every_n_steps: number of batches after which ``state_dict()`` is called again on
            samplers and on the workers' datasets, if they have this method.

            - None (default), iterable-style dataset: the method is called after each batch.
            - None, otherwise: once, at the start of the epoch. Later changes of a sampler, or of a
              map-style dataset in worker processes, are not saved.
            - N: after every N batches. Later changes are saved too, at most N batches late. With an
              iterable-style dataset, N takes less time than None, but a resumed loader loads the
              samples since the last call again.

            Without workers, and with threads, a map-style dataset's method is called only by the
            loader's own ``state_dict()``.
        num_workers: a number, or ``"auto"``. With "auto", the attribute is the number of CPUs that
            may be used.

            - Threads of a map-style dataset: this number at first. While an epoch runs, the loader
              adds or pauses threads, and keeps the best number. ``statistics()`` reports it, and
              the next epoch starts with it.
            - Processes, iterable-style datasets, and loaders with a ``worker_init_fn``: always this
              number.
        max_workers: the most threads that ``num_workers="auto"`` may use. Default: 64, or the
            number of CPUs if larger.
        copy_dataset: if True, each worker thread has its own copy of a map-style dataset, of its
            ``collate_fn`` and of ``worker_init_fn``, as worker processes have. ``iter()`` makes the
            copies. They make datasets with a file position, a cursor or a cache right under
            threads, and a dataset that works in Python faster: see docs/loader.md. Read-only
            arrays, memory maps, shared tensors and CUDA memory stay shared.

    With threads, ``multiprocessing_context`` must be None and ``prefetch_factor`` at least 1.
    docs/loader.md lists all differences from processes. The most important ones:

    - Without ``copy_dataset``, all workers share one map-style dataset and its ``collate_fn``,
      which must be thread-safe (PEP 703). Each worker has its own copy of an iterable-style dataset
      and of its functions.
    - Workers do not seed the program's global random generators. Draw from
      ``ftloader.sample_rng()`` instead.
    - With ``batch_size=None``, or a ``collate_fn`` that copies nothing, a batch consists of the
      dataset's own objects.
    - If no ``prefetch_factor`` is given, the loader keeps only as many batches ahead as uneven
      loading times need.
    - ``next()`` raises the worker's exception object itself, with notes. The epoch can be continued
      after it.

    Raises:
        ValueError: for an unknown ``worker_method`` or ``on_error``; for a ``max_workers`` below 1;
            for ``multiprocessing_context``, or a data pipe, together with
            ``worker_method="thread"``; and as torch's class does.
        TypeError: for an ``on_error`` that cannot be called; for a ``num_workers`` that is text
            other than "auto"; for a ``copy_dataset`` that is no bool. With ``copy_dataset=True``,
            ``iter()`` raises it for a dataset that cannot be copied.
    """

    worker_method: WorkerMethod
    on_error: OnError
    snapshot_every_n_steps: int | None
    max_workers: int | None
    copy_dataset: bool
    # record of the samples that ``on_error`` has left out, over all iterators and epochs
    skipped: SkipLog

    def __init__(
        self,
        dataset,
        *args: Any,
        worker_method: WorkerMethod = "auto",
        on_error: OnError = "raise",
        snapshot_every_n_steps: int | None = None,
        max_workers: int | None = None,
        copy_dataset: bool = False,
        **kwargs: Any,
    ) -> None:
        # Set before torch's own arguments, whose checks depend on these.
        self.worker_method = worker_method
        self.on_error = on_error
        self.snapshot_every_n_steps = snapshot_every_n_steps
        self.max_workers = max_workers
        self.copy_dataset = copy_dataset
        self.skipped = SkipLog()
        self._shared = Shared()
        positional = list(args)
        if len(positional) > _NUM_WORKERS:
            positional[_NUM_WORKERS] = number_of_workers(positional[_NUM_WORKERS])
        if "num_workers" in kwargs:
            kwargs["num_workers"] = number_of_workers(kwargs["num_workers"])
        super().__init__(dataset, *positional, **kwargs)
        if (
            kwargs.get("prefetch_factor") is None
            and (default := vars(self)["prefetch_factor"]) is not None
        ):
            self.prefetch_factor = Chosen(default)
        loaders.note(self._shared)

    def __setattr__(self, attr: str, val: Any) -> None:
        # Not properties: torch's class guards its attributes this way too, and tools look for
        # arguments in vars().
        if attr == "num_workers":
            val = number_of_workers(val)
        check_value(attr, val)
        if attr in _CHECKED_TOGETHER:
            # Checked with the new value, since the constructor sets the three one after the other.
            values = {name: getattr(self, name, None) for name in _CHECKED_TOGETHER}
            check_thread_arguments(**values | {attr: val})
        super().__setattr__(attr, val)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the latest iterator, from which ``load_state_dict`` continues.

        The state counts the batches that the training loop was given, not those prefetched. A batch
        that raised an exception counts as soon as a later batch is handed over. Before the first
        iterator, and after an iterator's end, the state is the start of the next epoch.

        This method may be called at any time, in any thread, and draws no random number. The
        dictionary survives ``pickle`` and ``torch.save``; its size does not depend on the dataset's
        length.
        """
        return self._shared.states.state(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Make the next ``iter()`` continue from *state_dict*. Later iterators make whole epochs.

        ``num_workers``, ``worker_method`` and ``prefetch_factor`` may differ from the saved
        loader's. Only for an iterable-style dataset the number of workers must be the same (0
        counts as 1), since the workers divide the data among themselves. With
        ``ftloader.distributed.DistributedSampler``, the number of ranks, ``batch_size`` and
        ``drop_last`` may differ too. An empty dictionary means no state.

        The states of an explicit ``generator``, and of the samplers' generators, are loaded
        immediately. If loaders share a generator, take their states at the same moment, or load the
        states in the order in which they were taken. The program's global generators are left as
        they are. If *state_dict* is from between two epochs, an iterable-style dataset's state is
        loaded immediately too, so that the program may then change the dataset.

        Raises:
            ValueError: if the state is not from a loader like this one, or cannot be continued.
                Nothing has changed then. An error that only the sampler can find is raised by the
                next ``iter()`` or ``next()``.
        """
        self._shared.states.load(state_dict, self)
        self._iterator = None  # persistent workers are started again

    def __len__(self) -> int:
        """Return the number of batches of an epoch.

        After a state of ``ftloader.distributed.DistributedSampler`` from the middle of an epoch,
        and until this epoch ends or the next ``iter()``: the number of batches that were given
        before the state, plus those that are left.
        """
        length = self._shared.states.resumed_length(self._index_sampler)
        if length is None:
            return super().__len__()
        return length

    def statistics(self, total: bool = False) -> LoaderStatistics:
        """Return times and counts of the latest epoch,
        also while it runs; with *total*, of all epochs.

        Any thread may call this at any time. ``print(loader.statistics())`` says in three lines
        what limits the loop and what to change; ``as_dict()`` is for JSON. A copy of the loader
        counts from zero.
        """
        records, memory = self._shared.records, self._shared.memory
        record = records.latest
        if total:
            record = records.total()
        return statistics(record, (memory.nbytes, memory.use.peak))

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles have a state, memory and workers of their own.
        return self.__dict__ | {"_shared": copy.copy(self._shared), "_iterator": None}

    def __iter__(self) -> ResumableDataLoaderIter:
        if isinstance(self._iterator, ProcessDataLoaderIter) and self._iterator.orphaned:
            self._iterator = None  # persistent workers of the process that this one was forked from
        iterator = super().__iter__()
        self._shared.records.latest.made_iterator()
        return iterator

    def _get_iterator(self) -> ResumableDataLoaderIter:
        if self.num_workers == 0:
            return SerialDataLoaderIter(self)
        self.check_worker_number_rationality()
        threads, sources = choose_workers(self)
        if threads:
            return ThreadDataLoaderIter(self, sources)
        return ProcessDataLoaderIter(self)

    def check_worker_number_rationality(self) -> None:
        """Warn, as torch's class does, if there are more workers than usable CPUs."""
        if self.worker_method == "process" or (
            self.worker_method == "auto" and reason_against_threads(self)
        ):
            super().check_worker_number_rationality()
        elif self.num_workers > (cpus := os.process_cpu_count() or self.num_workers):
            warn_user(
                # torch's words, since people filter warnings by them; only "threads" is ours.
                f"This DataLoader will create {self.num_workers} worker threads in total. Our "
                f"suggested max number of worker in current system is {cpus}, which is smaller "
                "than what this DataLoader is going to create. Please be aware that excessive "
                "worker creation might get DataLoader running slow or even freeze, lower the "
                "worker number to avoid potential slowness/freeze if necessary."
            )


def check_value(attr: str, value: Any) -> None:
    """Raise ``ValueError`` or ``TypeError`` if *value* is not valid for the argument *attr*, which
    torch's class does not have.
    """
    if attr == "worker_method" and value not in WORKER_METHODS:
        raise ValueError(
            f"worker_method must be one of {', '.join(map(repr, WORKER_METHODS))}, got {value!r}"
        )
    if attr == "copy_dataset" and type(value) is not bool:
        raise TypeError(f"copy_dataset must be True or False, got {value!r}")
    if attr == "on_error":
        ErrorPolicy(value)  # raises if the value is not valid
    if (
        attr in ("snapshot_every_n_steps", "max_workers")
        and value is not None
        and (type(value) is not int or value < 1)
    ):
        raise ValueError(f"{attr} must be an integer from 1 or None, got {value!r}")


# help(), and tools that rebuild a loader from its arguments (Lightning), see each by its name, a
# later torch's too.
_torchs = inspect.signature(torch.utils.data.DataLoader.__init__)
# among the arguments after the dataset
_NUM_WORKERS = list(_torchs.parameters).index("num_workers") - 2
_ours = [
    p
    for p in inspect.signature(DataLoader.__init__).parameters.values()
    if p.kind is p.KEYWORD_ONLY
]
DataLoader.__init__.__signature__ = _torchs.replace(  # type: ignore[attr-defined]
    parameters=[*_torchs.parameters.values(), *_ours]
)
