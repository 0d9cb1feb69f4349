"""Iterates over batches that worker threads build, and hands them over in order.

``iterators.dispatch`` gives batches to the workers and receives them; ``iterators.pacing`` waits,
and judges the waits.

One lock guards the sampler and all bookkeeping: ``__next__`` and ``_reset`` hold it. Several
threads may share an iterator; each batch goes to one of these threads. Workers hold no reference to
the iterator (see ``workers.pool``).
"""

import itertools
import operator
import queue
import weakref
from typing import Any, Self

import torch

from ftloader import fork
from ftloader.batch.assembly import BatchHints
from ftloader.batch.fetch import BatchFailure, Epoch, Fetched
from ftloader.batch.in_use import WorkersInUse
from ftloader.batch.slots import Slots
from ftloader.compat.torch_private import DatasetKind
from ftloader.diagnosis.recording import EpochRecord, WorkerTimes
from ftloader.iterators.ahead import MANY, Ahead
from ftloader.iterators.auto import Chosen, tuner_of
from ftloader.iterators.base import ResumableDataLoaderIter
from ftloader.iterators.dispatch import Dispatcher
from ftloader.iterators.pacing import Pacer
from ftloader.iterators.prefetch import Prefetch
from ftloader.protocols import has_getitems, is_stateful
from ftloader.rng import program as global_generators
from ftloader.rng.shared_draws import states_if_seeded, warning_of_draws
from ftloader.state.samplers import draw_only_at_first
from ftloader.workers import exit as program_exit
from ftloader.workers.copies import Copier, Sources, sources_of
from ftloader.workers.exit import WorkerThread
from ftloader.workers.pool import WorkerPool
from ftloader.workers.thread import WorkerConfig, WorkerContext, consumer_modes


class ThreadDataLoaderIter(ResumableDataLoaderIter):
    """Iterator over a loader's batches, built by ``loader.num_workers`` threads.

    The iterator ends its threads when it is closed (``close()``, or the end of a ``with`` block) or
    dropped, at exit and, without ``persistent_workers``, at the end of the epoch. Raises
    ``ValueError`` for ``prefetch_factor=0``.
    """

    def __init__(self, loader: Any, sources: Sources | None = None) -> None:
        is_iterable = loader._dataset_kind == DatasetKind.Iterable
        copies = loader.copy_dataset and not is_iterable
        # With states, which worker loads what must not depend on time. Else any worker builds any
        # batch, and no state is taken.
        self._copies_dataset = copies and is_stateful(loader.dataset)
        # Each task is for one worker.
        self._private_queues = is_iterable or self._copies_dataset
        self._warns = loader.worker_method != "thread" and not copies
        # Reading the generators' states takes some 0.2 ms.
        may_warn = loader.worker_method != "thread" and not loader._shared.draws_warned
        self._watches_draws = may_warn and (
            is_iterable or draw_only_at_first(loader._index_sampler)
        )
        self._draws_warning: str | None = None
        self._tuner = tuner_of(loader)
        if self._tuner is None:
            number = workers = int(operator.index(loader.num_workers))
        else:
            number, workers = self._tuner.number, self._tuner.limits[0]
        self._in_use = WorkersInUse(number)
        self._times = [WorkerTimes() for _ in range(workers)]
        if self._warns and loader._dataset_kind == DatasetKind.Map:
            # First of all: filters may turn the warning into an error,
            # which must not use up a loaded state.
            loader._shared.warn_of_handles(loader.dataset)
        super().__init__(loader)
        self._num_workers = workers  # that may be used
        if not loader.prefetch_factor:
            raise ValueError("prefetch_factor must be at least 1 with worker threads")
        self._lock = fork.rlock()  # a child may begin a new epoch
        self._in_order = loader.in_order
        self._factor = loader.prefetch_factor
        self._draws = operator.index(self._factor * self._num_workers)
        is_fixed = not isinstance(loader.prefetch_factor, Chosen)
        many = 0 if self._tuner is None else min(MANY, self._draws)
        self._ahead = Ahead(self._in_use, self._factor, is_fixed, self._shared.extra, many)
        # In memory are the dispatched batches and the consumer's latest two.
        self._shared.memory.keep(self._ahead.largest + 2)
        self._pacer = Pacer(self._ahead, self._tuner, self._shared.memory, self._timeout)
        self._departures: list[BaseException] = []  # reasons why workers ended, not yet raised
        self._start_workers(loader, sources)
        self._begin_epoch()

    def _start_workers(self, loader: Any, sources: Sources | None = None) -> None:
        """Start the worker threads. *sources*: of each worker's user objects,
        made here if it is None.
        """
        config = WorkerConfig(
            settings=self._settings,
            dataset_kind=self._dataset_kind,
            takes_states=self._copies_dataset,
            num_workers=self._num_workers,
            base_seed=self._base_seed,
            epoch_number=self._epoch_number,
            adopt_modes=consumer_modes(),
            states=self.worker_states(),
            times=self._times,
            pin_memory_device=self._pin_memory_device if self._pin_memory else None,
            pin_memory_device_index=(
                torch.accelerator.current_device_index() if self._pin_memory else None
            ),
        )
        if sources is None:
            sources = sources_of(loader, self._in_use.number)
        if self._tuner is not None:
            sources = sources[:1] * self._num_workers  # workers that may be added
        self._copier = sources[0] if isinstance(sources[0], Copier) else None
        contexts = tuple(
            WorkerContext(config, number, source) for number, source in enumerate(sources)
        )
        hints = None
        if self._auto_collation and not self._private_queues and not has_getitems(self._dataset):
            hints = BatchHints(
                self._settings, self._in_use, self._shared.memory, config.pin_memory_device
            )
        results: queue.SimpleQueue = queue.SimpleQueue()
        number = self._in_use.number if self._tuner is None else 1  # the pacer adds others
        self._pool = WorkerPool(contexts, self._private_queues, results, self._in_use)
        # The finalizer holds the pool, which does not hold the iterator. At exit the pool's own
        # hook comes first. Registered before the start, since an interruption may come right after
        # it.
        self._finalizer = weakref.finalize(self, self._pool.dispose)
        self._finalizer.atexit = False
        if loader.worker_init_fn is None:
            self._pool.start(number)
        else:
            # nothing is dispatched yet, so only worker_init_fn can draw from the program's
            # generators or seed them
            with global_generators.preserved():
                self._pool.start(number)
                self._wait_for_copies()  # without the limit of worker_init_fn
                self._pool.wait_until_started()
        self._dispatcher = Dispatcher(
            self._pool, contexts, hints, results, self._ahead, self._departures
        )

    def _wait_for_copies(self) -> None:
        """Wait until the workers that were started have made their copies. Raise what stopped one.

        The program may change its dataset as soon as ``iter()`` has returned.
        """
        if self._copier is None:
            return
        try:
            self._copier.wait(self._pool.started)
        except BaseException:
            self._copier.cancelled = True
            self._pool.stop()
            raise

    def _begin_epoch(self) -> None:
        """Reset the bookkeeping for a new epoch, and dispatch the epoch's first batches."""
        self._epoch = Epoch(self._base_seed, self._epoch_number)
        self._pool.begin_epoch(self._epoch)
        self._exhausted = False  # True once all batches are handed over: StopIteration from then on
        turns = self._worker_queue_idx_cycle = itertools.cycle(range(self._num_workers))
        with_data = set(self._dispatcher.present) if self._private_queues else None
        prefetch = Prefetch(self._draws, self._ahead, self._in_order, with_data, turns)
        self._dispatcher.begin(self._epoch, prefetch)
        self._pacer.begin(self._dispatcher, self._record)
        self._wait_for_copies()
        try:
            self._dispatcher.dispatch(self._next_index)
        except BaseException:
            self._pool.stop()  # interrupted, as in _next_data
            raise

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        # torch's DataLoader.__iter__ calls this for each epoch of persistent workers.
        with self._lock:
            super()._reset(loader, first_iter)
            self._epoch.cancelled = True
            if not self._pool.stopped:
                self._dispatcher.receive_all()  # drops results that came too late for the old epoch
            if self._pool.stopped or len(self._dispatcher.present) < self._pool.started:
                self._pool.stop()
                self._finalizer.detach()
                self._start_workers(loader)
            self._begin_epoch()

    def close(self) -> None:
        """Stop the workers; wait up to ``workers.exit.JOIN_LIMIT`` seconds.
        Any thread may call this, repeatedly.
        """
        pool = self._pool  # read once: iter(loader) in another thread may replace it
        pool.stop()
        pool.join()

    # Names of torch's process iterator that recipes and other libraries use.

    _shutdown_workers = close

    @property
    def _workers(self) -> list[WorkerThread]:
        return list(self._pool.threads[: self._pool.started])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __next__(self) -> Any:
        if self._pool.orphaned:
            raise RuntimeError(
                "the worker threads of this iterator are in the process that this one was "
                "forked from: make a new iterator with iter(loader)"
            )
        with self._lock:
            # Before a batch is taken out, since filters may turn a warning into an error.
            if (
                self._warns
                and self._dispatcher.prefetch.handed_over == 1
                and not self._private_queues
            ):
                # a handle may have been opened for the first batch
                self._shared.warn_of_handles(self._dataset)
            if self._draws_warning is not None:
                message, self._draws_warning = self._draws_warning, None
                self._shared.warn_of_draws(message)
            before = None
            if self._watches_draws:
                # This thread waits for the first batch, and draws nothing.
                self._watches_draws, before = False, states_if_seeded()
            data = super().__next__()
            if before is not None:
                self._draws_warning = warning_of_draws(before)
            return data

    def _next_data(self) -> Any:
        try:
            outcome = self._next_outcome()
        except BaseException:
            # Errors are outcomes, so this is an interruption (Ctrl-C). It may have struck between
            # two steps of the bookkeeping: stop here rather than hang later. No join: the user is
            # waiting.
            self._pool.stop()
            raise
        if outcome is None:
            self._progress.finished = True
            raise StopIteration
        if isinstance(outcome, BatchFailure):
            try:
                raise outcome.exception
            finally:
                del outcome  # the exception's traceback refers to this frame
        if type(outcome.data) is Slots:
            # made in this thread, so that the tensors are its own: see Slots
            return outcome.data.batch()
        self._pool.let_free()
        return outcome.data

    def _next_outcome(self) -> Fetched | BatchFailure | None:
        """Wait for the next batch or failure and return it; None at the end of the epoch."""
        dispatcher = self._dispatcher
        prefetch = dispatcher.prefetch
        self._pool.used_by_this_thread()
        self._pacer.asked(self._next_index)
        self._shared.extra = self._ahead.extra
        while True:
            if self._departures:
                return BatchFailure(self._departures.pop(0))
            if self._exhausted:
                return None
            if self._pool.stopped:
                if program_exit.needs_no_error():
                    raise SystemExit  # ends this thread without a traceback
                return BatchFailure(
                    RuntimeError(
                        "this iterator was shut down (closed, interrupted, or the interpreter is "
                        "exiting) before its end: make a new one with iter(loader)"
                    )
                )
            if (next_outcome := prefetch.take()) is not None:
                result, worker_id = next_outcome
                outcome = result.outcome
                # Before the hand-over, so that a worker has the next task
                # while the consumer uses this batch.
                dispatcher.dispatch(self._next_index)
                if isinstance(outcome, BatchFailure):
                    self._progress.failed(result.number, worker_id)
                    return outcome
                if self._hand_over(outcome, result.number, worker_id):
                    return outcome
            elif prefetch.handed_over == prefetch.dispatched:
                self._finish()
            elif not dispatcher.present:
                self._pool.stop()
                return BatchFailure(RuntimeError("all workers have ended: no batch can be built"))
            elif not self._pacer.wait(self._next_index):
                return BatchFailure(
                    RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
                )

    def _finish(self) -> None:
        """End the epoch. Handle late messages too: one may report that a worker failed to start."""
        self._exhausted = True
        self._skip_log.report()
        if self._persistent_workers:
            self._pool.wake()
        else:
            self.close()
        self._dispatcher.receive_all()

    def _ready(self) -> int:
        return self._dispatcher.ready

    def _new_record(self) -> EpochRecord:
        most = None if self._tuner is None else self._tuner.most
        return EpochRecord("thread", self._times, self._order is None, self._in_use.number, most)
