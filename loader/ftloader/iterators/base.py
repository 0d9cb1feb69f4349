"""Base class that adds saving and resuming to torch's iterators. ``Shared``: objects that a
loader's iterators share.

The base class draws the batch order, counts the epochs and keeps the ``EpochProgress``. A subclass
may also derive from another of torch's iterators, whose ``super().__init__`` and ``super()._reset``
then call this class. A subclass must

- take indices from ``_next_index()`` only,
- call ``_hand_over(...)`` for each batch, also one whose samples were all left out, and
  ``_progress.failed(...)`` for each exception in place of a batch,
- set ``_progress.finished`` where ``StopIteration`` ends the epoch,
- use ``_worker_queue_idx_cycle`` where workers take turns, and ``worker_states()`` to start
  workers.
"""

import copy
import operator
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import torch
from torch.utils.data import IterDataPipe
from torch.utils.data.graph_settings import apply_random_seed

from ftloader.batch.errors import ErrorPolicy
from ftloader.batch.fetch import EMPTY, BatchSettings, Fetched
from ftloader.batch.memory import BufferPool
from ftloader.compat.torch_private import (
    BaseDataLoaderIter,
    DatasetKind,
    StandIn,
    begin_range,
    end_range,
)
from ftloader.diagnosis.call_site import warn_user
from ftloader.diagnosis.recording import EpochRecord, EpochRecords, WorkerTimes
from ftloader.diagnosis.shared_handles import warning_of_handles
from ftloader.iterators.tuner import WorkerTuner
from ftloader.protocols import is_iterable, is_stateful
from ftloader.state import format as states
from ftloader.state.order import IndexStream
from ftloader.state.progress import EpochProgress
from ftloader.state.samplers import resumed_length
from ftloader.state.store import StateStore, load_iterable


class Shared:
    """State, batch memory and one-time warnings that all iterators of one loader share.

    No lock: if two threads make the first two iterators at the same moment, both may warn. A copy
    or pickle of this object keeps only the loaded state and the tuner of the number of workers.
    """

    def __init__(self, states: StateStore | None = None, tuner: WorkerTuner | None = None) -> None:
        self.states = StateStore() if states is None else states
        self.tuner = tuner  # of the latest iterator, with num_workers="auto"
        self._handles_warned = self.draws_warned = False
        self.memory = BufferPool()
        self.records = EpochRecords()
        # batches ahead that the latest iterator has found to be enough: see iterators.ahead
        self.extra = 1

    def __reduce__(self) -> tuple:
        return Shared, (copy.copy(self.states), copy.copy(self.tuner))

    def warn_of_handles(self, dataset: Any) -> None:
        """Warn once if *dataset* has handles, such as open files,
        that worker threads would share.
        """
        if not self._handles_warned and (message := warning_of_handles(dataset)) is not None:
            self._handles_warned = True
            warn_user(message)

    def warn_of_draws(self, message: str) -> None:
        """Warn once that samples draw from generators that worker threads share."""
        if not self.draws_warned:
            self.draws_warned = True
            warn_user(message)


def _quiet(loader: Any, mid_epoch: bool) -> StandIn:
    """Return a proxy of *loader*, so that torch does not use the loader's generator or, if
    *mid_epoch*, its sampler.
    """
    # torch draws a seed, which the saved one replaces. In the middle
    # of an epoch IndexStream calls ``iter(sampler)``.
    replaced: dict[str, Any] = {"generator": torch.Generator()}
    if mid_epoch:
        replaced["_index_sampler"] = ()
    return StandIn(loader, **replaced)


class ResumableDataLoaderIter(BaseDataLoaderIter):
    """Iterator that keeps ``loader.state_dict()`` up to date and starts from the state that the
    loader has loaded.
    """

    # True if each worker has its own map-style dataset, and its states are saved
    _copies_dataset = False
    _dataset: Any  # set by torch's __init__
    _sampling = 0.0  # seconds in the sampler within the latest next()
    _num_workers: int
    _worker_queue_idx_cycle: Iterator[int]  # workers in the order of their turns; torch's name

    def __init__(self, loader: Any) -> None:
        self._settings = BatchSettings(
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
            ErrorPolicy(loader.on_error),
        )
        self._skip_log = loader.skipped
        self._shared = loader._shared
        self._states = self._shared.states
        with self._states.starting:
            resume = self._states.saved
            states.check_workers(resume, loader)
            self._load_dataset(loader, resume)
            self._resume = resume
            self._lives_on = states.lives_on(loader)
            self._epoch_number = resume.epoch
            self._every = loader.snapshot_every_n_steps
            self._description = states.describe_loader(loader)
            self._order = None if is_iterable(loader) else IndexStream(loader, resume)
            torchs_loader = loader
            if resume.base_seed is not None:
                torchs_loader = _quiet(loader, resume.mid_epoch)
            super().__init__(torchs_loader)
            # not Chosen: it goes into saved states
            self._num_workers = int(operator.index(loader.num_workers))
            self._index_sampler = loader._index_sampler
            if resume.base_seed is not None:
                self._base_seed = resume.base_seed
            if resume.shared_seed is not None and isinstance(self._dataset, IterDataPipe):
                self._shared_seed = resume.shared_seed
                apply_random_seed(self._dataset, torch.Generator().manual_seed(resume.shared_seed))
            self._begin_progress(resume, self._first_shares(resume))

    def _load_dataset(self, loader: Any, resume: states.SavedState) -> None:
        """Restore the loader's own dataset from the state in *resume*. Worker processes get copies
        of this dataset.
        """
        state = resume.dataset
        if not self._copies_dataset and resume.datasets is not None:
            state = resume.only_dataset()
        if state is None:
            return
        if not is_iterable(loader):
            loader.dataset.load_state_dict(copy.deepcopy(state))
        elif resume.mid_epoch:  # else loader.load_state_dict() has done it
            load_iterable(loader.dataset, state)

    def _begin_progress(
        self, resume: states.SavedState, shares: Sequence[states.Share], dataset: Any = None
    ) -> None:
        if dataset is None and self._order is None:
            dataset = states.dataset_state(self._dataset)
        fixed = {
            "base_seed": self._base_seed,
            "epoch": self._epoch_number,
            "shared_seed": self._shared_seed,
        }
        fixed |= {"dataset": dataset, "steps_before": resume.steps_before}
        copies = turns = 0
        if self._copies_dataset and is_stateful(self._dataset):
            copies = self._num_workers
        if self._copies_dataset or self._order is None:
            turns = self._num_workers
        length = None
        if self._order is not None:
            length = resumed_length(resume, self._index_sampler)
        self._progress = EpochProgress(
            self._description, fixed, shares, copies, turns, resume, length
        )
        if self._order is not None:
            self._order.report_to(self._progress)
        self._states.began(self._progress)
        self._record = self._new_record()
        self._shared.records.begin(self._record)

    def _new_record(self) -> EpochRecord:
        """Return an empty ``EpochRecord`` for an epoch that begins."""
        # of the workers, or of the consumer
        times = [WorkerTimes() for _ in range(max(1, self._num_workers))]
        method = "process" if self._copies_dataset else "none"
        return EpochRecord(method, times, shares=self._copies_dataset or self._order is None)

    def _ready(self) -> int:
        """Return the number of built batches that wait for the consumer; 0 without workers."""
        return 0

    def __next__(self) -> Any:
        began, ready = time.perf_counter(), self._ready()
        self._sampling = 0.0
        if self._IterableDataset_len_called is not None:
            data = super().__next__()  # warns if there are more samples than len() said
        else:  # the same without torch's record_function, which takes 5 to 7 µs
            profiled = begin_range(self._profile_name)
            try:
                data = self._next_data()
            finally:
                end_range(profiled)
            self._num_yielded += 1
        self._record.returned(began, ready, self._sampling)
        return data

    def _first_shares(self, resume: states.SavedState) -> Sequence[states.Share]:
        if self._dataset_kind != DatasetKind.Iterable:
            return ()
        if resume.workers is not None and (resume.mid_epoch or self._lives_on):
            return resume.workers
        latest = self._states.latest  # None if a state was loaded since
        if self._num_workers == 0 and latest is not None:
            shares = latest.next_shares()  # of the same dataset
            if len(shares) == 1:
                return shares
        return [states.fresh_share()] * max(1, self._num_workers)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        if first_iter:  # called by torch's __init__ for processes
            shared_seed, sampler = self._shared_seed, self._index_sampler
            if self._resume.mid_epoch:
                loader, self._index_sampler = _quiet(loader, True), ()
            elif self._order is not None:
                self._order.iterating()
            super()._reset(loader, first_iter)
            # the workers have been started with the seed
            self._shared_seed, self._index_sampler = shared_seed, sampler
            if self._order is not None:
                self._order.report_to(self._progress)
            return
        self._epoch_number += 1
        self._resume = states.NOTHING
        with self._states.starting:
            if self._order is not None:
                self._order = IndexStream(loader, states.NOTHING)
            super()._reset(loader, first_iter)
            self._begin_progress(
                states.NOTHING, self._progress.next_shares(), self._progress.fixed["dataset"]
            )

    def _next_index(self) -> Any:
        if self._resume.mid_epoch:
            resume, self._resume = self._resume, states.NOTHING
            self._num_yielded = resume.handed_over + sum(w["batches"] for w in resume.workers or ())
            for _ in range(resume.next_worker % max(1, self._num_workers)):
                next(self._worker_queue_idx_cycle)
            self._sampler_iter = iter(self._index_sampler if self._order is None else ())
        began = time.perf_counter()
        if self._order is None:
            index = next(self._sampler_iter)
        else:
            index = self._order.next(self._sampler_iter)
        self._sampling += time.perf_counter() - began
        return index

    def _hand_over(self, fetched: Fetched, number: int, worker_id: int) -> bool:
        """Record the hand-over of *fetched*, or the end of a worker's share. Return True if
        *fetched* has data.
        """
        self._skip_log.add(fetched.skipped)
        self._record.handed_over(fetched, worker_id)
        if fetched.ended:
            self._progress.ends[worker_id] = fetched.state
            return False
        self._progress.handed_over(number, worker_id, fetched.state)
        return fetched.data is not EMPTY

    def _end_epoch(self) -> NoReturn:
        self._skip_log.report()
        self._progress.finished = True
        raise StopIteration

    def worker_states(self) -> list[states.WorkerState]:
        """Return the ``WorkerState`` from which each worker starts;
        with ``num_workers=0``, one for the consumer.
        """
        resume = self._resume
        common = states.WorkerState(every=self._every, lives_on=self._lives_on)
        if self._dataset_kind == DatasetKind.Iterable:
            shares = self._progress.shares()
            if self._num_workers == 0 and not resume.mid_epoch:
                # The dataset is as it was left, or loader.load_state_dict() has loaded it.
                after = 0
                if resume is not states.NOTHING:
                    after = shares[0]["after"]
                shares = (states.fresh_share(after=after),)
            return [replace(common, share=share) for share in shares]
        workers = max(1, self._num_workers)
        if not self._copies_dataset:
            return [common] * workers
        return [replace(common, dataset=resume.dataset_of(i, workers)) for i in range(workers)]
