"""What makes an iterator resumable: the base class between torch's base class and ours.

``ResumableDataLoaderIter`` stands in for torch's ``_BaseDataLoaderIter``: directly, or as a
further base of a class that derives from another of torch's iterators, whose calls of
``super().__init__`` and ``super()._reset`` then come here. It draws the order, knows the
epoch's number and keeps its ``Progress``. Of the iterators themselves it needs

- that they ask ``_next_index()`` for indices, and nothing else for them,
- one call for each batch that the consumer is given, goes past, or is given an exception
  for: ``_progress.handed_over(...)`` or ``_progress.failed(...)``,
- ``_skip_turns`` where workers take turns, ``worker_state(...)`` where they start.
"""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import IterDataPipe
from torch.utils.data.graph_settings import apply_random_seed

from ftloader import data_pipes
from ftloader.state.format import (
    Resume,
    check_workers,
    dataset_state,
    describe_loader,
    is_iterable,
    is_stateful,
    lives_on,
    load_iterable,
)
from ftloader.state.order import Order
from ftloader.state.progress import Progress
from ftloader.state.samplers import sampler_of
from ftloader.state.shares import Share, begun, share_out
from ftloader.state.workers import WorkerState
from ftloader.torch_private import BaseDataLoaderIter, DatasetKind


class ResumableDataLoaderIter(BaseDataLoaderIter):
    """An iterator that keeps ``loader.state_dict()`` up to date and begins where
    ``loader.load_state_dict()`` says.

    Raises ``ValueError`` if it cannot begin there.
    """

    _copies_dataset = False
    """Whether workers have a map-style dataset of their own (processes)."""
    _dataset: Any
    """Set by torch's ``__init__``."""

    def __init__(self, loader: Any) -> None:
        self._keeper = loader._states
        with self._keeper.claimed() as resume:
            if resume is not None:
                check_workers(resume, loader)
                self._load_dataset(loader, resume)
            self._resume = resume
            # Of whoever used the same dataset before: the latest serial iterator.
            self._previous = self._keeper.latest() if loader.num_workers == 0 else None
            self._lives_on = lives_on(loader)
            self._batch_size = loader.batch_size
            self._epoch_number = resume.epoch if resume is not None else 0
            self._every = loader.snapshot_every_n_steps
            self._description = describe_loader(loader)
            self._order = self._new_order(loader, resume)
            with self._order.iterating(), data_pipes.exclusive(loader.dataset):
                super().__init__(loader)
            if resume is not None:
                self._take_over_seeds(resume)
            self._begin_progress(resume)

    def _load_dataset(self, loader: Any, resume: Resume) -> None:
        """Restores the loader's own dataset, which serial iterators and threads use and
        processes copy."""
        state = resume.dataset
        if not self._copies_dataset and resume.datasets is not None:
            state = resume.only_dataset()
        if state is None:
            return
        if is_iterable(loader):
            if resume.midst:
                load_iterable(loader.dataset, state)
            return  # else loader.load_state_dict() has
        loader.dataset.load_state_dict(copy.deepcopy(state))

    def _new_order(self, loader: Any, resume: Resume | None) -> Order:
        return Order(sampler_of(loader), loader.generator, loader.snapshot_every_n_steps, resume)

    def _take_over_seeds(self, resume: Resume) -> None:
        if resume.base_seed is not None:
            self._base_seed = resume.base_seed
        if resume.shared_seed is not None and isinstance(self._dataset, IterDataPipe):
            self._shared_seed = resume.shared_seed
            generator = torch.Generator().manual_seed(resume.shared_seed)
            self._dataset = apply_random_seed(self._dataset, generator)

    def _begin_progress(self, resume: Resume | None) -> None:
        workers = max(1, self._num_workers)
        shares, dataset = self._first_shares(resume, workers)
        self._progress = Progress(
            self._description,
            shares=shares,
            dataset=dataset,
            copies=workers if self._copies_dataset and is_stateful(self._dataset) else 0,
            base_seed=self._base_seed,
            epoch=self._epoch_number,
            shared_seed=self._shared_seed,
            resume=resume,
        )
        self._order.report_to(self._progress)
        self._keeper.began(self._progress)

    def _first_shares(self, resume: Resume | None, workers: int) -> tuple[list[Share], Any]:
        """What the epoch begins with; with the state of the loader's own dataset."""
        if self._dataset_kind != DatasetKind.Iterable:
            return [], None
        if resume is not None:
            dataset = dataset_state(self._dataset)
            if resume.midst:
                return list(resume.workers or ()), dataset
            if resume.workers is not None and self._lives_on:
                stateful = is_stateful(self._dataset)
                return share_out(resume.workers, self._num_workers, stateful=stateful), dataset
            return [begun()] * workers, dataset
        previous, self._previous = self._previous, None
        if previous is not None and len(previous.shares()) == workers:
            return previous.next_shares(ahead=self._num_workers > 0), previous.dataset
        return [begun()] * workers, dataset_state(self._dataset)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        if first_iter:  # torch's iterator of processes calls this in its __init__
            shared_seed = self._shared_seed
            with self._order.iterating():
                super()._reset(loader, first_iter)
            self._shared_seed = shared_seed  # the workers have been started with it
            self._order.report_to(self._progress)
            return
        self._epoch_number += 1
        self._resume = None
        self._previous = self._progress
        with self._keeper.starting():
            self._order = self._new_order(loader, None)
            with self._order.iterating(), data_pipes.exclusive(loader.dataset):
                super()._reset(loader, first_iter)
            self._begin_progress(None)

    def _next_index(self) -> Any:
        resume, self._resume = self._resume, None
        if resume is not None and resume.midst:
            self._num_yielded = resume.handed_over + sum(w["batches"] for w in resume.workers or ())
            self._skip_turns(resume.next_worker)
        return self._order.next(self._sampler_iter)

    def _skip_turns(self, worker_id: int) -> None:
        """Worker *worker_id* is to build the first batch. Called before the first draw of a
        resumed epoch."""

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except StopIteration:
            self._progress.finished()
            raise

    def worker_states(self) -> Iterator[WorkerState]:
        """What each worker begins with (worker 0 alone if there are none)."""
        resume = self._resume if self._resume is not None else Resume()
        shares: list[Share | None] = list(self._progress.shares())
        if self._resume is None and self._num_workers == 0 or not shares:
            shares = [None] * max(1, self._num_workers)  # the dataset itself is as it was left
        # As torch's endless sampler for iterable-style datasets, in its batch sampler.
        iterable = self._dataset_kind == DatasetKind.Iterable
        index = [None] * self._batch_size if iterable and self._auto_collation else None
        for worker_id, share in enumerate(shares):
            yield WorkerState(
                share=share,
                index=index,
                dataset=resume.dataset_of(worker_id, len(shares)) if self._copies_dataset else None,
                every=self._every,
            )
