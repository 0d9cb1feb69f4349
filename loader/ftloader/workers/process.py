"""What makes a worker process of torch's fetch by our fetchers.

The process is torch's own, from its start to its end: queues, shared memory, watchdog and signal handlers are not
touched. Its loop calls the worker's init function and then asks ``_DatasetKind.create_fetcher`` for a fetcher, once for
each epoch. ``WorkerStart`` is an init function that, having called the user's, answers this question in that process.
Nothing else is replaced, and nothing at all in the main process.

What passes through torch's queues instead of index and batch:

- To the worker: ``(base seed, epoch number, index)``, a plain tuple, since it is pickled for each batch. With it a
  worker needs no message of its own at the start of an epoch.
- From the worker: the batch, as it is. Only a batch that something is to be said about (samples left out, the state of
  an iterable-style dataset) comes as the whole ``Fetched``.
- From the worker: an exception as ``NotedException``.
"""

import itertools
import os
import pickle
import sys
import traceback
import types
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ftloader.batch.errors import ErrorPolicy, annotate, describe_index, notes_of, without_stop_iteration
from ftloader.batch.fetch import EMPTY, BatchSettings, Epoch, Fetched, Fetcher
from ftloader.batch.iterable import IterableFetcher, StatefulMapFetcher
from ftloader.batch.memory import keep_freed_memory
from ftloader.compat.torch_private import DatasetKind, ExceptionWrapper
from ftloader.compat.torch_private import worker as _torch_worker
from ftloader.state.format import FailedState
from ftloader.state.shares import WorkerState

Task = tuple[int, int, Any]
"""Base seed, epoch number, index."""


class NotedException(ExceptionWrapper):
    """torch's description of an exception in a worker, which keeps the notes (PEP 678).

    ``reraise()`` raises what torch raises: the type with a text that holds the worker's traceback. The notes are notes
    again instead of a part of that text.
    """

    def __init__(self, error: BaseException, where: str) -> None:
        text = traceback.TracebackException.from_exception(error)
        text.__notes__ = None  # they are printed below the new exception
        super().__init__((type(error), error, None), where)
        self.exc_type = _nearest_picklable(type(error))
        if issubclass(self.exc_type, BaseExceptionGroup):
            self.exc_type = RuntimeError  # a group cannot be made from a text alone
        self.exc_msg = "".join(text.format())
        self.notes = notes_of(error)

    def reraise(self) -> None:
        """Raises the exception again, in this thread."""
        try:
            super().reraise()
        except BaseException as error:
            for note in self.notes:
                annotate(error, note)
            # Without torch's frame, which refers to the error: in that cycle the iterator,
            # and so the workers, would live on until a garbage collection.
            raise error.with_traceback(None)  # noqa: B904


class WorkerFetcher:
    """torch's interface of a fetcher, over ours. Owned by the worker process."""

    def __init__(self, fetcher: Fetcher, worker_id: int) -> None:
        self._fetcher = fetcher
        self._worker_id = worker_id
        self._epoch = Epoch()
        self._ended = False

    def fetch(self, task: Task) -> Any:
        """The batch, ``Fetched``, or a ``NotedException``.

        Raises ``StopIteration`` at the end of an iterable-style dataset, for torch's loop.
        """
        base_seed, number, index = task
        if number != self._epoch.number or base_seed != self._epoch.base_seed:
            self._epoch = Epoch(base_seed, number)
        if self._ended:
            raise StopIteration
        try:
            fetched = self._fetcher.fetch(index, self._epoch)
        except Exception as error:
            error = without_stop_iteration(error, "the dataset or collate_fn")
            place = f"in loader worker process {self._worker_id}, building a batch {describe_index(index)}"
            annotate(error, place)
            return NotedException(error, _where(self._worker_id))
        self._ended = fetched.ended
        if fetched.skipped or fetched.state is not None:
            return fetched
        if fetched.ended:
            raise StopIteration
        return fetched if fetched.data is EMPTY else fetched.data


def failing_fetcher(error: Exception, worker_id: int) -> Any:
    """In place of a ``WorkerFetcher`` where there is none: each batch is answered with the error."""
    answer = NotedException(error, _where(worker_id))
    return types.SimpleNamespace(fetch=lambda task: answer)


@dataclass
class WorkerStart:
    """The init function of a worker process; picklable if what it is made of is."""

    worker_init_fn: Callable[[int], Any] | None
    """The user's, or torch's that shards data pipes and calls the user's."""
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
        states = itertools.chain([first], itertools.repeat(replace(first, share=None, dataset=None)))
        process = os.getpid()

        def create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last):
            # Loaders that the dataset itself makes in this process, or in one forked from
            # it, get torch's fetchers: only torch's worker loop, here, gets ours.
            loop = sys._getframe(1)
            if loop.f_globals is not vars(_torch_worker) or os.getpid() != process:
                return torchs(kind, dataset, auto_collation, collate_fn, drop_last)
            results = loop.f_locals["data_queue"]
            answer_what_cannot_be_pickled(
                results,
                results,
                f"in loader worker process {worker_id}: the batch cannot be sent to the main "
                "process. What collate_fn returns must be picklable; with "
                "worker_method='thread' it need not be",
                _where(worker_id),
            )
            if failure is not None:
                return failing_fetcher(failure, worker_id)
            try:
                settings = BatchSettings(auto_collation, collate_fn, drop_last, self.policy)
                fetcher: Fetcher
                if kind == DatasetKind.Iterable:
                    fetcher = IterableFetcher(settings, dataset, worker_id, next(states))
                else:
                    fetcher = StatefulMapFetcher(settings, dataset, next(states))
            except Exception as error:
                # torch would end the process here in all epochs but the first.
                return failing_fetcher(without_stop_iteration(error, "iter(dataset)"), worker_id)
            return WorkerFetcher(fetcher, worker_id)

        DatasetKind.create_fetcher = staticmethod(create_fetcher)


def answer_what_cannot_be_pickled(queue: Any, results: Any, note: str, where: str) -> None:
    """Lets each message (number, ...) to *queue* that cannot be pickled be answered with the error, in *results*. Else
    it is printed and dropped, in the queue's own thread, and the main process waits for the batch for ever. Of a batch
    that comes with a state, the state is given up first. For use before the first message."""

    def answer(error: Exception, message: Any) -> None:
        number, sent = message
        if isinstance(sent, Fetched) and not isinstance(sent.state, FailedState | None):
            why = f"it cannot be sent to the main process ({type(error).__name__}: {error})"
            sent = replace(sent, state=FailedState("dataset", why))
        else:
            annotate(error, note)
            sent = NotedException(error, where)
        if results is not queue:
            results.put((number, sent))
            return
        # In front of what the worker has put since: after the end of its share, torch knows no batch of it. This is
        # the thread that empties the buffer, and has given back the message's place in the queue.
        queue._sem.acquire()
        queue._buffer.appendleft((number, sent))

    queue._on_queue_feeder_error = answer


def _nearest_picklable(error_type: type[BaseException]) -> type[BaseException]:
    """*error_type*, or where it cannot be found by its name (defined in a function, say) the first of its bases that
    can: the main process would never receive it."""
    for candidate in error_type.__mro__:
        try:
            pickle.dumps(candidate)
        except Exception:
            continue
        return candidate
    return RuntimeError


def _where(worker_id: int) -> str:
    return f"in DataLoader worker process {worker_id}"  # torch's words
