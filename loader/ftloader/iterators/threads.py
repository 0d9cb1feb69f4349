"""Iterates over batches that worker threads build: dispatches them (``iterators.prefetch``), hands them over in order.

One lock guards the sampler and all bookkeeping: ``__next__`` and ``_reset`` hold it. Several threads may share an
iterator; each batch goes to one of these threads. Workers hold no reference to the iterator (see ``workers.pool``).
"""

import itertools
import math
import operator
import queue
import time
import weakref
from typing import Any, Self

import torch

from ftloader import fork
from ftloader.batch.assembly import BatchHints, SharedBatch
from ftloader.batch.fetch import Epoch, Failure, Fetched
from ftloader.batch.in_use import WorkersInUse
from ftloader.batch.slots import Slots
from ftloader.compat.torch_private import DatasetKind
from ftloader.diagnosis.exceptions import annotate, drop_first_frame
from ftloader.diagnosis.recording import EpochRecord, WorkerTimes
from ftloader.iterators.ahead import MANY, Ahead
from ftloader.iterators.auto import Chosen, totals, tuner_of
from ftloader.iterators.base import ResumableDataLoaderIter
from ftloader.iterators.prefetch import Prefetch
from ftloader.iterators.tuner import Totals, WorkerTuner
from ftloader.protocols import has_getitems
from ftloader.rng import program as global_generators
from ftloader.workers import exit as program_exit
from ftloader.workers.copies import UserObjects, copies_for_workers
from ftloader.workers.exit import WorkerThread
from ftloader.workers.pool import WorkerPool
from ftloader.workers.thread import Departure, Result, Task, WholeBatch, WorkerConfig, WorkerContext, consumer_modes

_BETWEEN_TASKS = 0.005  # seconds within which a worker that has sent its batch begins the next one


class ThreadDataLoaderIter(ResumableDataLoaderIter):
    """Iterator over a loader's batches, built by ``loader.num_workers`` threads.

    The iterator ends its threads when it is closed (``close()``, or the end of a ``with`` block) or dropped, at exit
    and, without ``persistent_workers``, at the end of the epoch. Raises ``ValueError`` for ``prefetch_factor=0``.
    """

    def __init__(self, loader: Any, copies: list[UserObjects] | None = None) -> None:
        self._warns = loader.worker_method != "thread"
        self._tuner = tuner_of(loader)
        if self._tuner is None:
            number = workers = int(operator.index(loader.num_workers))
        else:
            number, workers = self._tuner.number, self._tuner.limits[0]
        self._in_use = WorkersInUse(number)
        self._times = [WorkerTimes() for _ in range(workers)]
        if self._warns and loader._dataset_kind == DatasetKind.Map:
            # First of all: filters may turn the warning into an error, which must not use up a loaded state.
            loader._shared.warn_of_handles(loader.dataset)
        super().__init__(loader)
        self._num_workers = workers  # that may be used
        if not loader.prefetch_factor:
            raise ValueError("prefetch_factor must be at least 1 with worker threads")
        self._lock = fork.rlock()  # a child may begin a new epoch
        self._in_order = loader.in_order
        self._factor = loader.prefetch_factor
        self._draws = operator.index(self._factor * self._num_workers)
        given = not isinstance(loader.prefetch_factor, Chosen)
        many = 0 if self._tuner is None else min(MANY, self._draws)
        self._ahead = Ahead(self._in_use, self._factor, given, self._shared.extra, many)
        # In memory are the dispatched batches and the consumer's latest two.
        self._shared.memory.keep(self._ahead.largest + 2)
        self._departures: list[BaseException] = []  # reasons why workers ended, not yet raised
        # Each worker iterates its own copy of an iterable-style dataset, so each task is for one worker. Any
        # worker can build any batch of a map-style dataset.
        self._private_queues = self._dataset_kind == DatasetKind.Iterable
        self._start_workers(loader, copies)
        self._begin_epoch()

    def _start_workers(self, loader: Any, copies: list[UserObjects] | None = None) -> None:
        """Start the worker threads. *copies*: each worker's user objects, made here if it is None."""
        config = WorkerConfig(
            settings=self._settings,
            dataset_kind=self._dataset_kind,
            num_workers=self._num_workers,
            base_seed=self._base_seed,
            epoch_number=self._epoch_number,
            adopt_modes=consumer_modes(),
            states=self.worker_states(),
            times=self._times,
            pin_memory_device=self._pin_memory_device if self._pin_memory else None,
            pin_memory_device_index=(torch.accelerator.current_device_index() if self._pin_memory else None),
        )
        # Made in the consumer's thread, so that no two copies are made at the same time.
        if copies is None or len(copies) != self._num_workers:
            original = UserObjects(self._dataset, loader.collate_fn, loader.worker_init_fn)
            copies = copies_for_workers(original, self._dataset_kind, self._num_workers)
        self._contexts = tuple(WorkerContext(config, i, own) for i, own in enumerate(copies))
        # Set if all workers build each batch together, None if one worker builds it alone.
        self._hints: BatchHints | None = None
        if self._auto_collation and not self._private_queues and not has_getitems(self._dataset):
            self._hints = BatchHints(self._settings, self._in_use, self._shared.memory, config.pin_memory_device)
        self._results: queue.SimpleQueue = queue.SimpleQueue()
        self._pool = WorkerPool(self._contexts, self._private_queues, self._results, self._in_use)
        number = self._in_use.number
        self._present = set(range(number if self._tuner is None else 1))  # workers that have not departed
        # The finalizer holds the pool, which does not hold the iterator. At exit the pool's own hook comes first.
        # Registered before the start, since an interruption may come right after it.
        self._finalizer = weakref.finalize(self, self._pool.dispose)
        self._finalizer.atexit = False
        if self._tuner is not None:
            self._pool.start(1)
            self._use(number)
        elif loader.worker_init_fn is None:
            self._pool.start(number)
        else:  # nothing is dispatched yet, so only worker_init_fn can draw from the program's generators or seed them
            with global_generators.preserved():
                self._pool.start(number)
                self._pool.wait_until_started()

    def _begin_epoch(self) -> None:
        """Reset the bookkeeping for a new epoch, and dispatch the epoch's first batches."""
        self._epoch = Epoch(self._base_seed, self._epoch_number)
        self._pool.begin_epoch(self._epoch)
        self._drained = False  # True once there is no more data to draw
        self._exhausted = False  # True once all batches are handed over: StopIteration from then on
        turns = self._worker_queue_idx_cycle = itertools.cycle(range(self._num_workers))
        with_data = set(self._present) if self._private_queues else None
        self._ahead.begin(time.perf_counter())
        self._prefetch = Prefetch(self._draws, self._ahead, self._in_order, with_data, turns)
        if self._tuner is not None:
            self._tuner.begin(self._totals())
        try:
            self._dispatch()
        except BaseException:
            self._pool.stop()  # interrupted, as in _next_data
            raise

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        # torch's DataLoader.__iter__ calls this for each epoch of persistent workers.
        with self._lock:
            super()._reset(loader, first_iter)
            self._epoch.cancelled = True
            if not self._pool.stopped:
                self._receive_all()  # drops results that came too late for the old epoch
            if self._pool.stopped or len(self._present) < self._pool.started:
                self._pool.stop()
                self._finalizer.detach()
                self._start_workers(loader)
            self._begin_epoch()

    def close(self) -> None:
        """Stop the workers; wait up to ``workers.exit.JOIN_LIMIT`` seconds. Any thread may call this, repeatedly."""
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
            if self._warns and self._prefetch.handed_over == 1 and not self._private_queues:
                self._shared.warn_of_handles(self._dataset)  # a handle may have been opened for the first batch
            return super().__next__()

    def _next_data(self) -> Any:
        try:
            outcome = self._next_outcome()
        except BaseException:
            # Errors are outcomes, so this is an interruption (Ctrl-C). It may have struck between two steps of the
            # bookkeeping: stop here rather than hang later. No join: the user is waiting.
            self._pool.stop()
            raise
        if outcome is None:
            self._progress.finished = True
            raise StopIteration
        if isinstance(outcome, Failure):
            try:
                raise outcome.exception
            finally:
                del outcome  # the exception's traceback refers to this frame
        if type(outcome.data) is Slots:
            return outcome.data.batch()  # made in this thread, so that the tensors are its own: see Slots
        self._pool.let_free()
        return outcome.data

    def _next_outcome(self) -> Fetched | Failure | None:
        """Wait for the next batch or failure and return it; None at the end of the epoch."""
        self._pool.used_by_this_thread()
        if self._record.batches:
            self._ahead.measured(self._record.batches, self._record.nbytes)
        if self._ahead.adapts:
            self._ahead.asked(self._ready(), self._workers_are_idle(), time.perf_counter())
        self._shared.extra = self._ahead.extra
        at_the_end = self._drained and not self._prefetch.drawn
        if self._tuner is not None and not at_the_end and not self._pool.stopped:
            self._tune(self._tuner)
        while True:
            if self._departures:
                return Failure(self._departures.pop(0))
            if self._exhausted:
                return None
            if self._pool.stopped:
                if program_exit.needs_no_error():
                    raise SystemExit  # ends this thread without a traceback
                return Failure(
                    RuntimeError(
                        "this iterator was shut down (closed, interrupted, or the interpreter is "
                        "exiting) before its end: make a new one with iter(loader)"
                    )
                )
            if (taken := self._prefetch.take()) is not None:
                result, worker_id = taken
                outcome = result.outcome
                # Before the hand-over, so that a worker has the next task while the consumer uses this batch.
                self._dispatch()
                if isinstance(outcome, Failure):
                    self._progress.failed(result.number, worker_id)
                    return outcome
                if self._hand_over(outcome, result.number, worker_id):
                    return outcome
            elif self._prefetch.handed_over == self._prefetch.dispatched:
                self._finish()
            elif not self._present:
                self._pool.stop()
                return Failure(RuntimeError("all workers have ended: no batch can be built"))
            elif not self._wait_for_message():
                return Failure(RuntimeError(f"DataLoader timed out after {self._timeout} seconds"))

    def _finish(self) -> None:
        """End the epoch. Handle late messages too: one may report that a worker failed to start."""
        self._exhausted = True
        self._skip_log.report()
        if self._persistent_workers:
            self._pool.wake()
        else:
            self.close()
        self._receive_all()

    def _draw(self) -> None:
        """Draw indices from the sampler, up to the limit on batches drawn ahead (``Prefetch.may_draw``)."""
        prefetch = self._prefetch
        while not self._drained and prefetch.may_draw:
            try:
                prefetch.drawn.append(self._next_index())
            except StopIteration:
                self._drained = True
            except Exception as error:
                annotate(error, f"raised by the sampler, asked for batch {prefetch.dispatched + len(prefetch.drawn)}")
                drop_first_frame(error)
                prefetch.drawn.append(Failure(error))

    def _dispatch(self) -> None:
        """Queue tasks for the workers until ``Ahead.limit`` batches are dispatched, or no batch is left."""
        prefetch = self._prefetch
        self._draw()
        while prefetch.drawn and prefetch.has_room:
            if prefetch.with_data == set():  # no worker has data left
                self._drained = True
                prefetch.drawn.clear()
                return
            number, index = prefetch.dispatched, prefetch.drawn.popleft()
            if isinstance(index, Failure):
                # Filed as a result, so that it is raised after the batches that the sampler gave before.
                prefetch.dispatched += 1
                prefetch.arrive(Result(self._epoch, number, index))
                continue
            # The one place that chooses how a batch is built.
            batch: SharedBatch | WholeBatch
            if self._hints is not None and type(index) in (list, tuple) and index:
                batch = SharedBatch(self._hints, self._epoch, index)
            else:
                batch = WholeBatch(self._epoch, index)
            task = Task(self._contexts, number, batch)
            worker_id = prefetch.dispatch(batch)
            self._ahead.building(batch.helpers)
            # One task for each worker that can help. A worker that finds nothing left to do takes the next task.
            for _ in range(batch.helpers):
                self._pool.tasks[worker_id or 0].put(task)

    def _receive(self, timeout: float = math.inf) -> bool:
        """Wait up to *timeout* seconds for a worker's message, and handle it. Return False if none came."""
        try:
            message = self._results.get(timeout=None if timeout == math.inf else max(0.0, timeout))
        except queue.Empty:
            return False
        if isinstance(message, Result):
            if message.epoch is self._epoch and not self._epoch.cancelled:
                self._prefetch.arrive(message)
        elif isinstance(message, Departure):
            self._departures.append(message.exception)
            self._present.discard(message.worker_id)
            self._prefetch.forget_worker(message.worker_id, self._epoch)
            if message.task_lost:
                self._pool.stop()  # the epoch cannot be completed
            self._use(self._pool.started)  # "auto" may have parked all others
        return True  # None wakes the consumer: the pool was stopped

    def _ready(self) -> int:
        return self._prefetch.arrived + self._results.qsize()

    def _workers_are_idle(self) -> bool:
        """Return True if workers have nothing left to do because ``Ahead.limit`` batches are dispatched."""
        prefetch = self._prefetch
        if not prefetch.drawn or not self._ahead.may_grow or self._pool.stopped:
            return False
        if not self._private_queues:
            if prefetch.unclaimed():
                return False
            if prefetch.arrived and not prefetch.next_is_built:
                return True  # at least the worker that has built a later batch
        # One may have just sent its batch, and begin the next one. Of two, one is half of them.
        return self._pool.idle >= min(2, max(1, self._in_use.number // 2))

    def _new_record(self) -> EpochRecord:
        most = None if self._tuner is None else self._tuner.most
        return EpochRecord("thread", self._times, self._order is None, self._in_use.number, most)

    def _totals(self) -> Totals:
        return totals(self._times, self._record, self._prefetch.handed_over, self._prefetch.dispatched)

    def _tune(self, tuner: WorkerTuner) -> None:
        """If it is time (``tuner.due``), ask *tuner* for the best number of workers, and change to that number."""
        if time.perf_counter() < tuner.due or len(self._present) < self._pool.started:  # one could not start
            return
        if not self._use(tuner.look(self._totals())):
            return
        for number, reference in self._prefetch.unclaimed():  # the new workers help with batches dispatched before
            if isinstance(batch := reference(), SharedBatch):
                for _ in range(batch.add_helpers()):
                    self._pool.tasks[0].put(Task(self._contexts, number, batch))
        self._dispatch()

    def _use(self, number: int) -> bool:
        """Use *number* workers, or fewer if the system starts no more. Return True if they are more than before."""
        before, started = self._in_use.number, self._pool.started
        self._pool.use(number)
        used = self._in_use.number
        if self._tuner is not None and used < number:
            self._tuner.cannot_exceed(used)
        self._present.update(range(started, self._pool.started))
        if used != self._record.numbers[-1][1]:
            self._record.uses(used)
            self._shared.memory.keep(self._ahead.largest + 2)
        return used > before

    def _wait_for_message(self) -> bool:
        """Wait for a worker's message and handle it. Return False if none came within the loader's ``timeout``."""
        timeout = self._timeout or math.inf
        if not (self._ahead.adapts and self._results.empty()):
            return self._receive(timeout)
        began, arrived = time.perf_counter(), False
        end = began + timeout
        # One slow sample may be all that is left to load. Then no message tells that the other workers are idle.
        early = self._ahead.patience(began) + _BETWEEN_TASKS
        if early < timeout:
            arrived = self._receive(early)
            if not arrived and self._workers_are_idle():
                began = self._judge(began)
        arrived = arrived or self._receive(end - time.perf_counter())
        self._judge(began)
        return arrived

    def _judge(self, began: float) -> float:
        """Record the wait from *began* to now. Dispatch batches if this raises ``Ahead.limit``. Return the time now."""
        now = time.perf_counter()
        if self._ahead.waited(now - began, self._workers_are_idle(), now):
            self._dispatch()
        return now

    def _receive_all(self) -> None:
        """Handle all worker messages that have arrived. The caller must hold the lock."""
        while not self._results.empty():
            self._receive()
