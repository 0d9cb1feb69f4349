"""Starts, stops and waits for one iterator's worker threads,
but only in the process that has these threads.

A pool never refers to the iterator or (between tasks) to user-supplied objects. So a dropped
iterator is collected, and its finalizer, which holds the pool, ends the threads. The iterator's
dispatcher holds the queue of results. The pool and the workers have weak references to the queue,
since an exception in the queue may lead back to the iterator.

A forked child does not touch the queues. Without the GIL, each queue has a lock inside the
interpreter. A waiting thread may be given the lock before it wakes up. After a fork at this moment,
the child's lock is never freed.
"""

import itertools
import mmap
import os
import resource
import sysconfig
import threading
import time
import weakref
from queue import Empty, SimpleQueue

from ftloader import fork
from ftloader.batch.fetch import Epoch
from ftloader.batch.in_use import WorkersInUse
from ftloader.diagnosis.call_site import warn_user
from ftloader.workers import exit as program_exit
from ftloader.workers.exit import ThreadGroup, WorkerThread
from ftloader.workers.thread import Command, WorkerContext, run_worker, send

# objects: see WorkerPool.wake
_OWNED_BY_THREADS = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
_FREE_EVERY = 0.002  # seconds; batches of which more are handed over are small
_FREE_AT_ONCE = 3  # workers; waking one takes the loop's thread some microseconds
# bytes that glibc's malloc reserves for a thread's arena (HEAP_MAX_SIZE on 64 bits)
_ARENA = 64 << 20


class WorkerPool(ThreadGroup):
    """Group of worker threads, one for each of *contexts*. The threads run from ``start()`` on.

    ``use()`` changes the number of workers that take tasks, *in_use*: it starts threads, or parks
    workers, which then wait at a second queue. Any worker may take a ``PARK`` from the shared
    queue. So the pool knows how many workers are parked, but not which. Only the consumer uses this
    number.

    With *private_queues* each worker has its own queue in ``tasks`` (iterable-style). Otherwise all
    workers share one queue (map-style). Workers put their messages into *results* for as long as
    that queue exists.

    ``_told_to_end`` changes from False to True once. Only the consumer replaces ``epoch`` and
    ``consumer``. All three are read without a lock: a slightly outdated value does no harm.
    """

    consequence = (
        "It ends as soon as it can; the interpreter's exit waits for it no longer than {limit:g} s."
    )

    def __init__(
        self,
        contexts: tuple[WorkerContext, ...],
        private_queues: bool,
        results: SimpleQueue,
        in_use: WorkersInUse,
    ) -> None:
        self._results = weakref.ref(results)
        self.in_use = in_use
        self.epoch = Epoch()
        self.used_by_this_thread()
        self._told_to_end = False
        # one None for each worker that has run worker_init_fn
        self._started: SimpleQueue[None] = SimpleQueue()
        self._process = os.getpid()
        self._parking: SimpleQueue[Command] = SimpleQueue()
        self.tasks: list[SimpleQueue] = [SimpleQueue()]
        if private_queues:
            self.tasks = [SimpleQueue() for _ in contexts]
        self._turns = itertools.cycle(self.tasks)
        # each worker puts its own object there
        self._times = contexts[0].config.times if contexts else []
        self._freed = 0.0  # perf_counter at the latest call of let_free() that had an effect
        self.threads = tuple(
            WorkerThread(
                target=run_worker,
                args=(
                    worker_id,
                    [context],
                    self.tasks[worker_id % len(self.tasks)],
                    self._parking,
                    self._results,
                    self._started,
                ),
                name=f"loader-worker-{worker_id}",
            )
            for worker_id, context in enumerate(contexts)
        )
        fork.renewed(self)

    def start(self, number: int | None = None) -> None:
        super().start(number)
        self.in_use.number = self.started

    def wait_until_started(self) -> None:
        """Wait until all workers have run ``worker_init_fn``.
        Warn if some have not within ``JOIN_LIMIT``.
        """
        deadline = time.monotonic() + (limit := program_exit.JOIN_LIMIT)
        for waiting in range(self.started, 0, -1):
            try:
                self._started.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                warn_user(
                    f"worker_init_fn of {waiting} worker threads has not returned within {limit:g} "
                    "s: if it seeds random, NumPy or torch, that will reach the whole program",
                    RuntimeWarning,
                )
                return

    @property
    def orphaned(self) -> bool:
        """True if this process is a forked child, where the threads do not exist."""
        # No flag: finalizers run in the child before any function that could note the fork.
        return os.getpid() != self._process

    @property
    def stopped(self) -> bool:
        """True if the workers have been told to end, or exist in the parent process only."""
        return self._told_to_end or self.orphaned

    def begin_epoch(self, epoch: Epoch) -> None:
        """Cancel the rest of the previous epoch and make *epoch* the current one."""
        self.epoch.cancelled = True
        self.epoch = epoch
        if self.stopped:  # by another thread, which may have cancelled only the old epoch
            epoch.cancelled = True

    def use(self, number: int) -> None:
        """Make *number* workers take tasks, or fewer if there is no memory for more threads.

        Only for workers that share one queue."""
        in_use = self.in_use
        while in_use.number > number:
            in_use.number -= 1
            self.tasks[0].put(Command.PARK)
        while in_use.number < number and self._parked:
            in_use.number += 1
            self._parking.put(Command.RESUME)
        for thread in self.threads[self.started : self.started + number - in_use.number]:
            if not _has_room_for_a_thread():
                break
            try:
                thread.start()
            except RuntimeError:  # "can't start new thread"
                break
            self.started += 1
            in_use.number += 1

    @property
    def _parked(self) -> int:
        return self.started - self.in_use.number

    @property
    def idle(self) -> int:
        """Number of workers that may take tasks, and do nothing now."""
        return self.in_use.number - sum(times.busy for times in self._times[: self.started])

    def wake(self) -> None:
        """Wake every waiting worker for a moment. This frees objects
        that the worker made and other threads dropped.
        """
        # Without the GIL an object that another thread drops is freed when the thread that created
        # it next runs (biased reference counting, PEP 703). Else the last batches of an epoch would
        # stay while persistent workers wait.
        self._tell(Command.WAKE, self.started, self._parked)

    def let_free(self) -> None:
        """Do as ``wake()`` for a few of the idle workers, if the latest time is not too short ago.

        Called at each hand-over of a batch that workers made. Else each idle worker would keep a
        batch in memory."""
        if _OWNED_BY_THREADS and (now := time.perf_counter()) - self._freed > _FREE_EVERY:
            self._freed = now
            for _, queue in zip(range(min(_FREE_AT_ONCE, self.idle)), self._turns):
                queue.put(Command.FREE)  # for the one that has waited longest

    def _tell(self, command: Command, workers: int, parked: int) -> None:
        """Send *command* to *workers* workers by their queues,
        and to *parked* ones by the queue of parked workers.
        """
        for queue in self.tasks:
            for _ in range(workers // len(self.tasks)):
                queue.put(command)
        for _ in range(parked):
            self._parking.put(command)

    def stop(self) -> None:
        """Tell every worker to end after its current sample. Do not wait for the workers."""
        # May be called repeatedly, from any thread and from finalizers: ``SimpleQueue.put`` is
        # documented as reentrant.
        self._told_to_end = True
        self.epoch.cancelled = True
        if self.orphaned:
            return
        super().stop()
        # For all workers in both places, also for one that the consumer starts, parks or resumes at
        # this moment. Each takes only one END, since it then ends.
        self._tell(Command.END, len(self.threads), len(self.threads))
        send(self._results, None)  # wakes a consumer that waits in another thread

    def join(self) -> bool:
        return self.orphaned or super().join()

    def dispose(self) -> None:
        """Stop a finalized iterator's workers. Wait for them
        if ``may_wait()`` and they were not stopped before.
        """
        wait = not self.stopped and self.may_wait()
        self.stop()
        if wait:
            self.join()

    def may_wait(self) -> bool:
        """Return True if a finalizer that runs in the calling thread may wait for the workers."""
        # Only the thread that used the iterator may wait: a worker may be waiting for any other.
        thread = self.consumer()
        # Not public. The module does not know a thread before its first and after its last step.
        running: dict = threading._active  # type: ignore[attr-defined]
        if thread is None or running.get(threading.get_ident()) is not thread:
            return False
        return not fork.holds_a_lock()

    def _at_fork_reinit(self) -> None:
        # For a child that user code forked in a worker, if the child returns to the worker's code.
        self.epoch.cancelled = True


def _has_room_for_a_thread() -> bool:
    """Return True if the process may map the memory of one more thread:
    a stack, and an arena of malloc.
    """
    # With less, a limit on the process's memory (ulimit -v) can end the program: glibc aborts it
    # where a new thread gets no memory for a library's thread-local data.
    # negative: unlimited
    stack = threading.stack_size() or max(0, resource.getrlimit(resource.RLIMIT_STACK)[0])
    try:
        mmap.mmap(-1, stack + _ARENA, flags=mmap.MAP_PRIVATE).close()
    except OSError:
        return False
    return True
