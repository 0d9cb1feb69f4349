"""Dispatches batches to worker threads, and receives what the threads send back.

``Prefetch`` (``iterators.prefetch``) decides how far ahead the sampler is asked
and batches are dispatched.
"""

import math
import queue
from collections.abc import Callable
from typing import Any

from ftloader.batch.assembly import BatchHints, SharedBatch
from ftloader.batch.fetch import EMPTY, BatchFailure, Epoch, Fetched, Outcome
from ftloader.diagnosis.exceptions import annotate, drop_first_frame
from ftloader.iterators.ahead import Ahead
from ftloader.iterators.prefetch import Prefetch
from ftloader.workers.pool import WorkerPool
from ftloader.workers.thread import BatchTask, Departure, Result, WholeBatch, WorkerContext

NextIndex = Callable[[], Any]
"""Function that returns the indices of the next batch, or raises ``StopIteration``. A method of the
iterator: this module keeps no reference to it, since a reference cycle would keep a dropped
iterator and its threads alive."""


class Dispatcher:
    """Dispatcher of batches to the threads of *pool*, which has started.
    The iterator's lock guards this object.

    *contexts*: each worker's context. *hints*: set if all workers build each batch together, None
    if one worker builds it alone. *results*: queue of the workers' messages. *departures*: list to
    which this object adds the exception of each worker that ends. ``begin()`` starts each epoch.
    """

    prefetch: Prefetch  # of the epoch
    drained: bool  # True once there is no more data to draw

    def __init__(
        self,
        pool: WorkerPool,
        contexts: tuple[WorkerContext, ...],
        hints: BatchHints | None,
        results: queue.SimpleQueue,
        ahead: Ahead,
        departures: list[BaseException],
    ) -> None:
        self.pool = pool
        self._contexts = contexts
        self._hints = hints
        self._results = results
        self._ahead = ahead
        self._departures = departures
        self.present = set(range(pool.started))  # ids of the workers that have not departed

    def begin(self, epoch: Epoch, prefetch: Prefetch) -> None:
        """Start an epoch."""
        self._epoch, self.prefetch = epoch, prefetch
        self.drained = False

    def dispatch(self, next_index: NextIndex) -> None:
        """Queue tasks for the workers until ``Ahead.limit`` batches are dispatched,
        or no batch is left.
        """
        prefetch = self.prefetch
        self._draw(next_index)
        while prefetch.drawn and prefetch.has_room:
            if prefetch.with_data == set():  # no worker has data left
                self.drained = True
                prefetch.drawn.clear()
                return
            number, index = prefetch.dispatched, prefetch.drawn.popleft()
            if isinstance(index, BatchFailure):
                # Filed as a result, so that it is raised
                # after the batches that the sampler gave before.
                prefetch.dispatched += 1
                prefetch.arrive(Result(self._epoch, number, index))
                continue
            # The one place that chooses how a batch is built.
            batch: SharedBatch | WholeBatch
            if self._hints is not None and type(index) in (list, tuple) and index:
                batch = SharedBatch(self._hints, self._epoch, index)
            else:
                batch = WholeBatch(self._epoch, index)
            task = BatchTask(self._contexts, number, batch)
            worker_id = prefetch.dispatch(batch)
            self._ahead.building(batch.helpers)
            # One task for each worker that can help. A worker that finds nothing left to do takes
            # the next task.
            for _ in range(batch.helpers):
                self.pool.tasks[worker_id or 0].put(task)

    def _draw(self, next_index: NextIndex) -> None:
        """Draw indices from the sampler, up to the limit
        on batches drawn ahead (``Prefetch.may_draw``).
        """
        prefetch = self.prefetch
        while not self.drained and prefetch.may_draw:
            try:
                prefetch.drawn.append(next_index())
            except StopIteration:
                self.drained = True
            except Exception as error:
                batch = prefetch.dispatched + len(prefetch.drawn)
                annotate(error, f"raised by the sampler, asked for batch {batch}")
                drop_first_frame(error)
                prefetch.drawn.append(BatchFailure(error))

    def use(self, number: int) -> None:
        """Let *number* workers take tasks, or fewer if the system starts no more threads."""
        started = self.pool.started
        self.pool.use(number)
        self.present.update(range(started, self.pool.started))

    def help_with_unclaimed(self) -> None:
        """Let workers that have just been added help
        with the batches that were dispatched before.
        """
        for number, reference in self.prefetch.unclaimed():
            if isinstance(batch := reference(), SharedBatch):
                for _ in range(batch.add_helpers()):
                    self.pool.tasks[0].put(BatchTask(self._contexts, number, batch))

    def receive(self, timeout: float = math.inf) -> bool:
        """Wait up to *timeout* seconds for a worker's message,
        and handle it. Return False if none came.
        """
        try:
            message = self._results.get(timeout=None if timeout == math.inf else max(0.0, timeout))
        except queue.Empty:
            return False
        if isinstance(message, Result):
            if message.epoch is self._epoch and not self._epoch.cancelled:
                self.prefetch.arrive(message)
        elif isinstance(message, Departure):
            self._departures.append(message.exception)
            self.present.discard(message.worker_id)
            lost: Outcome = Fetched(EMPTY, ended=True)
            if self._contexts[message.worker_id].config.takes_states:
                # no share: others would not miss these batches
                lost = BatchFailure(message.exception)
            self.prefetch.forget_worker(message.worker_id, self._epoch, lost)
            if message.task_lost:
                self.pool.stop()  # the epoch cannot be completed
            self.use(self.pool.started)  # "auto" may have parked all others
        return True  # None wakes the consumer: the pool was stopped

    def receive_all(self) -> None:
        """Handle all worker messages that have arrived."""
        while not self._results.empty():
            self.receive()

    @property
    def copying(self) -> bool:
        """True while a worker that was started makes its copy of the dataset."""
        return any(context.copying for context in self._contexts[: self.pool.started])

    @property
    def has_messages(self) -> bool:
        return not self._results.empty()

    @property
    def ready(self) -> int:
        """Number of batches that are built and not handed over."""
        return self.prefetch.arrived + self._results.qsize()

    @property
    def workers_are_idle(self) -> bool:
        """True if workers have nothing left to do because
        ``Ahead.limit`` batches are dispatched.
        """
        prefetch = self.prefetch
        if not prefetch.drawn or not self._ahead.may_grow or self.pool.stopped:
            return False
        if prefetch.with_data is None:  # map-style: any worker may build or help to build any batch
            if prefetch.unclaimed():
                return False
            if prefetch.arrived and not prefetch.next_is_built:
                return True  # at least the worker that has built a later batch
        # One may have just sent its batch, and begin the next one. Of two, one is half of them.
        return self.pool.idle >= min(2, max(1, self.pool.in_use.number // 2))
