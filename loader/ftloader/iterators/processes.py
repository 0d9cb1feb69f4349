"""The iterator over batches built by worker processes: torch's,
with this package's fetchers (``workers.process``).
"""

import contextlib
import functools
import multiprocessing.connection
import multiprocessing.process
import multiprocessing.synchronize
import multiprocessing.util
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

from ftloader import fork
from ftloader.batch.fetch import Fetched
from ftloader.compat import worker_map
from ftloader.compat.torch_private import MultiProcessingDataLoaderIter
from ftloader.diagnosis.exceptions import annotate
from ftloader.diagnosis.statistics import MORE_SHM
from ftloader.iterators.base import ResumableDataLoaderIter
from ftloader.workers.process import (
    Task,
    WorkerStart,
    answer_what_cannot_be_pickled,
    is_out_of_shared_memory,
)

# Iterators that were dropped where torch's finalizer must not wait. The next call of an iterator
# ends their workers.
_dropped: "deque[ProcessDataLoaderIter]" = deque()
_ENDS_IN = 2.0  # seconds within which a worker that has closed its connections ends


def _end_dropped() -> None:
    """End the workers of iterators whose finalizer could not."""
    with contextlib.suppress(IndexError):
        while True:
            _dropped.popleft()._shutdown_workers()


def _mib_of_shm() -> int:
    try:
        file_system = os.statvfs("/dev/shm")
    except OSError:  # there is none
        return 0
    return file_system.f_blocks * file_system.f_frsize >> 20


class ProcessDataLoaderIter(MultiProcessingDataLoaderIter, ResumableDataLoaderIter):
    """Iterator over a loader's batches, built by ``loader.num_workers`` processes.

    Raises the same exceptions as torch's iterator, with notes that name sample and worker. Two
    things differ. The sampler's exception is raised after the batches that the sampler gave before
    it, and ends the epoch. A ``StopIteration`` from user code becomes a ``RuntimeError``.
    """

    _copies_dataset = True
    _worker_pids_set = False
    # Class attributes, since the names of a module are gone at the interpreter's exit.
    _getpid = staticmethod(os.getpid)
    _remove_worker_pids = staticmethod(worker_map.remove_later)
    _shutdown = True  # for torch's __del__, until torch's __init__ starts workers

    # Queues by id(iterator), so that they outlive an iterator that is collected in a reference
    # cycle: torch's __del__ tells the workers to end through them, else it waits 5 s for each. No
    # lock, which a finalizer could not take: each operation is one atomic step.
    _queues_in_use: ClassVar[dict[int, tuple[Any, ...]]] = {}

    def __init__(self, loader: Any) -> None:
        _end_dropped()
        self._process = self._getpid()
        fork.renewed(self)  # first, since another thread may fork while the workers start
        super().__init__(loader)  # sets _worker_init_fn, starts the workers, and calls _reset
        self._queues_in_use[id(self)] = (*self._index_queues, self._worker_result_queue)

    @property
    def orphaned(self) -> bool:
        """True if this process is a forked child: the workers belong to its parent."""
        return self._getpid() != self._process

    def _at_fork_reinit(self) -> None:
        # Else multiprocessing would end the parent's workers when this child exits. A new set, as
        # in a process of multiprocessing, since another thread may have held the old one's lock at
        # the fork.
        multiprocessing.process._children = set()  # type: ignore[attr-defined]

    def __next__(self) -> Any:
        if self.orphaned:
            raise RuntimeError(
                "the worker processes of this iterator belong to the process that this one was "
                "forked from: make a new iterator with iter(loader)"
            )
        if _dropped:
            _end_dropped()
        return super().__next__()

    def __del__(self) -> None:
        if self._shutdown or sys is None or sys.is_finalizing() or self._may_wait():
            super().__del__()
        else:
            _dropped.append(self)

    def _may_wait(self) -> bool:
        """Return True if a finalizer that runs in the calling thread may wait for the workers."""
        # torch's takes the locks of the queues of indices. A thread that feeds such a queue may
        # hold its lock.
        feeders = {
            queue._thread.ident
            for queue in getattr(self, "_index_queues", ())
            if queue._thread is not None
        }
        return threading.get_ident() not in feeders and not fork.holds_a_lock()

    # torch sets this in its __init__ and passes it to the processes. The loader's attribute is left
    # as it is.
    @property
    def _worker_init_fn(self) -> WorkerStart:
        return self._worker_start

    @_worker_init_fn.setter
    def _worker_init_fn(self, init_fn: Callable[[int], Any] | None) -> None:
        if (
            isinstance(init_fn, functools.partial)
            and init_fn.args
            and isinstance(init_fn.args[0], WorkerStart)
        ):
            # For data pipes torch wraps the function that it has just read
            # in one that shards the pipes.
            inner = init_fn.args[0].worker_init_fn
            init_fn = functools.partial(init_fn.func, inner, *init_fn.args[1:])
        self._worker_start = WorkerStart(init_fn, self._settings.policy, self.worker_states())

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        self._sampler_error: Exception | None = None
        self._sampler_ended = False
        if first_iter:
            for worker_id, queue in enumerate(self._index_queues):
                answer_what_cannot_be_pickled(
                    queue,
                    self._worker_result_queue.put,
                    "what the sampler yielded cannot be sent to a worker process: it must be "
                    "picklable; with worker_method='thread' it need not be",
                    f"in sending indices to DataLoader worker process {worker_id}",
                )
        super()._reset(loader, first_iter)

    def _next_index(self) -> Task:
        if self._sampler_ended:
            raise StopIteration
        try:
            index = super()._next_index()
        except StopIteration:
            raise
        except Exception as error:
            annotate(error, f"raised by the sampler, asked for batch {self._send_idx}")
            self._sampler_error = error
            self._sampler_ended = True
            raise StopIteration from None
        return (self._base_seed, self._epoch_number, index)

    def _ready(self) -> int:
        with contextlib.suppress(NotImplementedError):  # macOS
            return self._data_queue.qsize() + sum(
                len(task) > 1 for task in self._task_info.values()
            )
        return 0

    def _next_data(self) -> Any:
        while True:
            try:
                data = super()._next_data()
            except StopIteration:
                break
            except Exception as failure:
                self._note_shared_memory(failure)
                raise
            fetched = data
            if type(data) is not Fetched:  # with torch's own fetchers
                fetched = Fetched(data)
            if self._hand_over(fetched, *self._current):
                return fetched.data
        if self._sampler_error is not None:
            error, self._sampler_error = self._sampler_error, None
            raise error
        self._end_epoch()

    def _note_shared_memory(self, error: Exception) -> None:
        # A process that writes to a full /dev/shm is killed by a bus error, unless torch has found
        # it full before.
        killed = any(worker.exitcode == -signal.SIGBUS for worker in self._workers)
        if killed or is_out_of_shared_memory(error):
            self._record.shm_full += 1
            state = "is full"
            if killed:
                state = "may be full"
            annotate(
                error,
                f"worker processes hand over batches in shared memory, and /dev/shm {state}; it "
                f"has {_mib_of_shm()} MiB in all: {MORE_SHM}",
            )

    def _shutdown_workers(self) -> None:
        if self.orphaned:
            # the queues and events are the parent's too;
            # only the map of workers is this process's own
            self._shutdown = True
            if self._worker_pids_set:
                self._remove_worker_pids(id(self))
                self._worker_pids_set = False
            self._queues_in_use.pop(id(self), None)
            return
        try:
            super()._shutdown_workers()
        finally:
            if self._shutdown:
                self._queues_in_use.pop(id(self), None)

    def _get_data(self) -> Any:
        if threading.current_thread() is threading.main_thread():
            worker_map.check_if_put_off()
        number, data = super()._get_data()
        self._received = number
        return number, data

    def _try_get_data(self, *timeout: float) -> tuple[bool, Any]:
        try:
            return super()._try_get_data(*timeout)
        except (EOFError, OSError) as error:
            # A batch's memory is requested from the worker that made it. A killed worker closes its
            # connections before the system reports its death, so torch would not see the death.
            at_work = [
                worker
                for worker, active in zip(self._workers, self._workers_status, strict=True)
                if active
            ]
            ended = multiprocessing.connection.wait(
                [worker.sentinel for worker in at_work], _ENDS_IN
            )
            dead = [worker for worker in at_work if worker.sentinel in ended]
            for worker in dead:
                worker.join()
            if dead:
                pids = ", ".join(str(worker.pid) for worker in dead)
                raise RuntimeError(
                    f"DataLoader worker (pid(s) {pids}) exited unexpectedly"
                ) from error
            raise

    def _process_data(self, data: Any, worker_idx: int) -> Any:
        # torch has just removed the batch from its bookkeeping. In order it is the one before the
        # next; else it is the one that came in last.
        number = self._received
        if self._in_order:
            number = self._rcvd_idx - 1
        self._current = (number, worker_idx)
        try:
            return super()._process_data(data, worker_idx)
        except Exception:
            self._progress.failed(number, worker_idx)
            raise
