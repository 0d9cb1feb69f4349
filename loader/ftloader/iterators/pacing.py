"""Waits for worker threads, and judges the waits.

``ahead`` decides from them how many batches to have ahead, and ``tuner`` how many workers to use.
"""

import math
import time

from ftloader.batch.memory import BufferPool
from ftloader.diagnosis.recording import EpochRecord
from ftloader.iterators.ahead import Ahead
from ftloader.iterators.auto import totals
from ftloader.iterators.dispatch import Dispatcher, NextIndex
from ftloader.iterators.tuner import Totals, WorkerTuner

_BETWEEN_TASKS = 0.005  # seconds within which a worker that has sent its batch begins the next one


class Pacer:
    """Adapter of *ahead* and of the number of workers to the loop.
    The iterator's lock guards this object.

    *tuner*: chooser of the number of workers; None if the number is fixed. *memory*: the pool of
    batch memory, which keeps as many blocks as there may be batches. *timeout*: seconds that the
    consumer waits for a message; 0: no limit.
    """

    def __init__(
        self, ahead: Ahead, tuner: WorkerTuner | None, memory: BufferPool, timeout: float
    ) -> None:
        self._ahead = ahead
        self._tuner = tuner
        self._memory = memory
        self._timeout = timeout or math.inf

    def begin(self, dispatcher: Dispatcher, record: EpochRecord) -> None:
        """Start the epoch that *dispatcher* has begun and *record* records."""
        self._dispatcher, self._record = dispatcher, record
        self._ahead.begin(time.perf_counter())
        if self._tuner is not None:
            self._use(self._tuner, self._tuner.number)
            self._tuner.begin(self._totals())

    def asked(self, next_index: NextIndex) -> None:
        """Record that the consumer asks for a batch.
        Change the number of workers if that is due.
        """
        record, dispatcher = self._record, self._dispatcher
        if record.batches:
            self._ahead.measured(record.batches, record.nbytes)
        if self._ahead.adapts:
            self._ahead.asked(dispatcher.ready, dispatcher.workers_are_idle, time.perf_counter())
        at_the_end = dispatcher.drained and not dispatcher.prefetch.drawn
        if self._tuner is not None and not at_the_end and not dispatcher.pool.stopped:
            self._tune(self._tuner, next_index)

    def wait(self, next_index: NextIndex) -> bool:
        """Wait for a worker's message and handle it.
        Return False if none came within the loader's ``timeout``.
        """
        dispatcher = self._dispatcher
        if dispatcher.has_messages or not self._ahead.adapts:
            return dispatcher.receive(self._timeout)
        began, arrived = time.perf_counter(), False
        end = began + self._timeout
        # One slow sample may be all that is left to load. Then no message tells that the other
        # workers are idle.
        early = self._ahead.patience(began) + _BETWEEN_TASKS
        if early < self._timeout:
            arrived = dispatcher.receive(early)
            if not arrived and dispatcher.workers_are_idle:
                began = self._judge(began, next_index)
        arrived = arrived or dispatcher.receive(end - time.perf_counter())
        self._judge(began, next_index)
        return arrived

    def _judge(self, began: float, next_index: NextIndex) -> float:
        """Record the wait from *began* to now. Dispatch batches if this raises ``Ahead.limit``.
        Return the time now.
        """
        now = time.perf_counter()
        if self._ahead.waited(now - began, self._dispatcher.workers_are_idle, now):
            self._dispatcher.dispatch(next_index)
        return now

    def _tune(self, tuner: WorkerTuner, next_index: NextIndex) -> None:
        """If it is time (``tuner.due``), ask *tuner* for the best number of workers,
        and change to that number.
        """
        dispatcher = self._dispatcher
        if len(dispatcher.present) < dispatcher.pool.started:
            # a worker could not start, which ended all parking
            self._note_workers()
            return
        if time.perf_counter() < tuner.due:
            return
        if dispatcher.copying:
            # a worker that was added: judge the number once it loads
            tuner.begin(self._totals())
            return
        before = dispatcher.pool.in_use.number
        self._use(tuner, tuner.look(self._totals()))
        if dispatcher.pool.in_use.number > before:
            dispatcher.help_with_unclaimed()
            dispatcher.dispatch(next_index)

    def _use(self, tuner: WorkerTuner, number: int) -> None:
        """Use *number* workers, or fewer if the system starts no more threads; *tuner* then asks
        for no more.
        """
        self._dispatcher.use(number)
        if (used := self._dispatcher.pool.in_use.number) < number:
            tuner.cannot_exceed(used)
        self._note_workers()

    def _note_workers(self) -> None:
        """Tell the record and the memory how many workers are in use, if that has changed."""
        used = self._dispatcher.pool.in_use.number
        if used != self._record.numbers[-1][1]:
            self._record.uses(used)
            # In memory are the dispatched batches and the consumer's latest two.
            self._memory.keep(self._ahead.largest + 2)

    def _totals(self) -> Totals:
        prefetch = self._dispatcher.prefetch
        return totals(self._record.workers, self._record, prefetch.handed_over, prefetch.dispatched)
