"""Runs this package's fetchers (builders of batches) in torch's worker processes.

torch's worker loop calls ``worker_init_fn`` and then, for each epoch,
``_DatasetKind.create_fetcher``. ``WorkerStart`` is an init function that calls the user-supplied
one and replaces ``create_fetcher``, in that worker process only.

Messages through torch's queues:

- To the worker: the plain tuple ``(base seed, epoch number, index)`` instead of the index.
- From the worker: a ``Fetched``, with the batch and its times; for an exception a
  ``NotedException``.
"""

import itertools
import os
import pickle
import re
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ftloader.batch.errors import ErrorPolicy, describe_index, without_stop_iteration
from ftloader.batch.fetch import BatchSettings, Epoch, Fetched
from ftloader.batch.iterable import Fetcher, IterableFetcher, StatefulMapFetcher
from ftloader.batch.memory import keep_freed_memory
from ftloader.compat.torch_private import DatasetKind, ExceptionWrapper
from ftloader.compat.torch_private import worker as _torch_worker
from ftloader.diagnosis.exceptions import annotate, format_error, notes_of, set_traceback, text_of
from ftloader.diagnosis.recording import READ_EVERY, seconds_queued
from ftloader.state.format import FailedState, WorkerState

Task = tuple[int, int, Any]  # base seed, epoch number, index
_WHERE = "in DataLoader worker process {}"  # torch's words


class NotedException(ExceptionWrapper):
    """torch's picklable description of a worker's exception,
    extended by the exception's notes (PEP 678).
    """

    def __init__(self, error: BaseException, where: str) -> None:
        # Not torch's __init__, which would format the exception once more, and fails if the
        # exception's class does.
        self.where = where
        self.exc_type = _nearest_picklable(type(error))
        if issubclass(self.exc_type, BaseExceptionGroup):
            self.exc_type = RuntimeError  # a group cannot be made from a text alone
        self.exc_msg = format_error(error)
        self.notes = notes_of(error)  # printed below the new exception

    def reraise(self) -> None:
        try:
            super().reraise()
        except BaseException as error:
            for note in self.notes:
                annotate(error, note)
            # Without torch's frame, which refers to the error. That cycle would keep the iterator,
            # and so the workers, alive until a garbage collection.
            raise set_traceback(error, None)  # noqa: B904


class WorkerFetcher:
    """Adapter of this package's fetcher to torch's interface. Used by one worker process."""

    def __init__(self, fetcher: Fetcher, worker_id: int) -> None:
        self._fetcher = fetcher
        self._worker_id = worker_id
        self._epoch = Epoch()
        self._ended = False
        self._queued = (time.perf_counter(), seconds_queued())  # when read last; what was read

    def fetch(self, task: Task) -> Any:
        """Return a ``Fetched`` batch or a ``NotedException``. Raise ``StopIteration`` once the
        worker's share ends.
        """
        base_seed, number, index = task
        if number != self._epoch.number or base_seed != self._epoch.base_seed:
            self._epoch = Epoch(base_seed, number)
        if self._ended:
            raise StopIteration
        began, started = time.perf_counter(), time.process_time()
        try:
            fetched = self._fetcher.fetch(index, self._epoch)
        except Exception as error:
            error = without_stop_iteration(error, "the dataset or collate_fn")
            place = (
                f"in loader worker process {self._worker_id}, building a batch "
                f"{describe_index(index)}"
            )
            annotate(error, place)
            return NotedException(error, _WHERE.format(self._worker_id))
        self._ended = fetched.ended
        if fetched.ended and not fetched.skipped and fetched.state is None:
            raise StopIteration
        fetched.began, fetched.times.cpu = began, time.process_time() - started
        read, queued = self._queued
        if time.perf_counter() - read > READ_EVERY:
            self._queued = time.perf_counter(), seconds_queued()
            fetched.times.queued = self._queued[1] - queued
        return fetched


@dataclass
class WorkerStart:
    """Init function of a worker process, which also installs this package's fetchers. Picklable if
    its fields are.
    """

    # user-supplied, or torch's that shards data pipes and calls that
    worker_init_fn: Callable[[int], Any] | None
    policy: ErrorPolicy
    states: list[WorkerState]

    def __call__(self, worker_id: int) -> None:
        keep_freed_memory()
        failure = None
        if self.worker_init_fn is not None:
            try:
                self.worker_init_fn(worker_id)
            except Exception as error:
                failure = without_stop_iteration(error, "worker_init_fn")
                annotate(failure, f"raised by worker_init_fn of worker process {worker_id}")
        self._install(worker_id, failure)

    def _install(self, worker_id: int, failure: Exception | None) -> None:
        torchs = DatasetKind.create_fetcher
        first = self.states[worker_id]
        states = itertools.chain(
            [first], itertools.repeat(replace(first, share=None, dataset=None))
        )
        process = os.getpid()

        def create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last):
            # Only torch's worker loop in this process gets our fetchers. Loaders that the dataset
            # itself makes here, or in a process forked from this one, get torch's.
            loop = sys._getframe(1)
            if loop.f_globals is not vars(_torch_worker) or os.getpid() != process:
                return torchs(kind, dataset, auto_collation, collate_fn, drop_last)
            results = loop.f_locals["data_queue"]

            def put_first(message: tuple) -> None:
                # Before all later messages of the worker, since torch expects no batch after the
                # end of its share. This runs in the thread that empties the buffer, which has
                # released the message's place in the queue.
                results._sem.acquire()
                results._buffer.appendleft(message)

            answer_what_cannot_be_pickled(
                results,
                put_first,
                f"in loader worker process {worker_id}: the batch cannot be sent to the main "
                f"process. What collate_fn "
                "returns must be picklable; with worker_method='thread' it need not be",
                _WHERE.format(worker_id),
            )
            error = failure
            if error is None:
                try:
                    settings = BatchSettings(auto_collation, collate_fn, drop_last, self.policy)
                    if kind == DatasetKind.Iterable:
                        return WorkerFetcher(
                            IterableFetcher(settings, dataset, worker_id, next(states)), worker_id
                        )
                    return WorkerFetcher(
                        StatefulMapFetcher(settings, dataset, next(states)), worker_id
                    )
                except Exception as raised:
                    error = without_stop_iteration(raised, "iter(dataset)")
            # Each batch is answered with the error.
            # torch would end the process in all epochs but the first.
            answer = NotedException(error, _WHERE.format(worker_id))
            return types.SimpleNamespace(fetch=lambda task: answer)

        DatasetKind.create_fetcher = staticmethod(create_fetcher)


def answer_what_cannot_be_pickled(
    queue: Any, put: Callable[[tuple], Any], note: str, where: str
) -> None:
    """Make *queue* call ``put((number, replacement))`` for each message (number,
    data) that it cannot pickle.

    A batch with a dataset's state is replaced by the same batch with a ``FailedState``. All other
    data are replaced by the error: a ``NotedException`` with *where* and, unless shared memory ran
    out, *note*.
    """
    # Without this the queue's own thread prints and drops it, and the main process waits forever
    # for the batch. If a batch comes with a state, the state is given up first. To be called before
    # the first message. In the main process *put* must not refer to *queue*: a queue in a reference
    # cycle keeps its open files.

    def answer(error: Exception, message: Any) -> None:
        number, sent = message
        if isinstance(sent, Fetched) and not isinstance(sent.state, FailedState | None):
            why = f"it cannot be sent to the main process ({text_of(error)})"
            sent = replace(sent, state=FailedState("dataset", why))
        else:
            if not is_out_of_shared_memory(error):  # to which pickling moves tensors
                annotate(error, note)
            sent = NotedException(error, where)
        put((number, sent))

    queue._on_queue_feeder_error = answer


def is_out_of_shared_memory(error: BaseException) -> bool:
    """Return True if torch raised *error* because /dev/shm was full."""
    # Of fallocate in a worker, or in the main process of a worker that a bus error has killed.
    return (
        re.search("unable to allocate shared memory|out of shared memory", text_of(error))
        is not None
    )


def _nearest_picklable(error_type: type[BaseException]) -> type[BaseException]:
    """Return *error_type* or the first of its bases that can be pickled (a type defined
    in a function cannot).
    """
    for candidate in error_type.__mro__:
        try:
            pickle.dumps(candidate)
        except Exception:
            continue
        return candidate
    return RuntimeError
