"""The worker threads of one iterator: starting, stopping and waiting for them.

A pool refers to threads and queues of tasks only, never to the iterator or (between
tasks) to anything of the user's. That is what lets a dropped iterator be collected, and
its finalizer (which holds the pool) end the threads. The queue of results is the
iterator's, and everybody else refers to it weakly: an exception in it that nobody has
asked for may lead, through its traceback and the dataset, back to the iterator.

Shared state: ``_told_to_end`` goes from False to True once, ``epoch`` and ``consumer`` are
replaced by the consumer only. All are read without a lock; every reader copes with a value
that is a moment old.

In a forked child the queues are not touched. Without the GIL each has a lock of the
interpreter's, which a thread that waited for it may have been handed, but not yet woken
with, when the fork came: it then stays locked for ever.
"""

import os
import threading
import time
import warnings
import weakref
from queue import Empty, SimpleQueue

from ftloader import joining, lifetime
from ftloader.fetch import Epoch
from ftloader.messages import Order, Task
from ftloader.thread_worker import WorkerContext, run_worker, send


class WorkerPool:
    """``len(contexts)`` worker threads, from ``start()`` on.

    With *private_queues* each worker has its own queue of tasks (iterable-style: a
    task is for a certain worker); else all take from one (map-style: whoever is free).
    What they have to say they put into *results*, for as long as that exists.
    """

    def __init__(self, contexts: tuple[WorkerContext, ...], private_queues: bool, results: SimpleQueue) -> None:
        self._results = weakref.ref(results)
        self.epoch = Epoch()
        self.consumer = lifetime.current_consumer()
        self._told_to_end = False
        self._started: SimpleQueue[None] = SimpleQueue()  # one for each that ran worker_init_fn
        self._process = os.getpid()
        self._tasks: list[SimpleQueue] = [SimpleQueue() for _ in contexts] if private_queues else [SimpleQueue()]
        self.threads = tuple(
            joining.WorkerThread(
                target=run_worker,
                args=(worker_id, [context], self._queue_of(worker_id), self._results, self._started),
                name=f"loader-worker-{worker_id}",
            )
            for worker_id, context in enumerate(contexts)
        )

    def wait_until_started(self) -> None:
        """Waits until all workers have run ``worker_init_fn``, up to ``joining.JOIN_LIMIT`` seconds, and warns if
        some have not."""
        deadline = time.monotonic() + joining.JOIN_LIMIT
        for waiting in range(len(self.threads), 0, -1):
            try:
                self._started.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                warnings.warn(
                    f"worker_init_fn of {waiting} worker threads has not returned within {joining.JOIN_LIMIT:g} s: if "
                    "it seeds random, NumPy or torch, that will reach the whole program",
                    RuntimeWarning,
                    stacklevel=2,
                )
                return

    def start(self) -> None:
        """Starts the threads, once. Whoever is to end them should hold the pool before, since
        an interruption can come between any two steps.

        Raises ``RuntimeError`` if the system refuses a thread; none is left then.
        """
        lifetime.register(self)
        try:
            for thread in self.threads:
                lifetime.start(thread)
        except BaseException as error:
            self.stop()
            if isinstance(error, Exception):  # else an interruption: no waiting
                self.join()
            raise

    @property
    def orphaned(self) -> bool:
        """Whether this is a forked child, in which the threads do not exist. Asked of the
        system, since finalizers run in the child before any function that could note it."""
        return os.getpid() != self._process

    @property
    def stopped(self) -> bool:
        """Whether the workers have been told to end, or are in another process."""
        return self._told_to_end or self.orphaned

    def _queue_of(self, worker_id: int) -> SimpleQueue:
        return self._tasks[worker_id % len(self._tasks)]

    def put(self, task: Task, worker_id: int | None = None) -> None:
        """Queues *task* for worker *worker_id*, or for whichever is free if None."""
        self._tasks[worker_id or 0].put(task)

    def begin_epoch(self, epoch: Epoch) -> None:
        """A new epoch; what is left of the previous one is no longer worked on."""
        self.epoch.cancelled = True
        self.epoch = epoch
        if self.stopped:  # by another thread meanwhile, which may have seen the old epoch
            epoch.cancelled = True

    def wake(self) -> None:
        """Lets every waiting worker run for a moment.

        In a free-threaded build an object that another thread drops is freed when the
        thread that created it next runs Python code, or by a garbage collection (biased
        reference counting, PEP 703). Without this, the last batches of an epoch would
        stay in memory while persistent workers wait for the next.
        """
        for tasks in self._tasks:
            for _ in range(len(self.threads) // len(self._tasks)):
                tasks.put(Order.LOOK_UP)

    def stop(self) -> None:
        """Tells every worker to end after the sample in hand. Returns at once.

        Safe to call repeatedly and from anywhere, also from a finalizer that runs in
        the midst of another call on the same queues: ``SimpleQueue.put`` is documented
        as reentrant for this very purpose, which ``queue.Queue`` is not.
        """
        self._told_to_end = True
        self.epoch.cancelled = True
        if self.orphaned:
            return
        lifetime.forget(self)
        for tasks in self._tasks:
            for _ in self.threads:
                tasks.put(Order.END)
        send(self._results, None)  # wakes a consumer that waits in another thread

    def join(self, limit: float | None = None) -> None:
        """Waits for the workers to end, after ``stop()``, up to *limit* seconds (None:
        ``joining.JOIN_LIMIT``).

        Whoever has not ended then is named in a ``RuntimeWarning`` with its stack; it
        ends by itself once the user's code returns, or the machine lets it run.
        """
        if self.orphaned:
            return
        limit = joining.JOIN_LIMIT if limit is None else limit
        stuck = joining.join_all(self.threads, limit)
        for thread in self.threads:
            if thread not in stuck and thread.ident != threading.get_ident():
                lifetime.has_ended(thread)
        if stuck:
            joining.report_stuck(
                stuck,
                limit,
                "It ends by itself as soon as it can; the interpreter's exit waits for it no "
                f"longer than {joining.JOIN_LIMIT:g} s.",
            )

    def dispose(self) -> None:
        """For the finalizer of the iterator: ``stop()``, and ``join()`` where that is safe.

        A finalizer can run in any thread, between any two steps of any code. It waits
        only if

        - the pool was not stopped before: whoever did that has waited, or must not be
          held up (an interruption);
        - this is the thread that used the iterator. Any other was merely hit by the
          garbage collection: a worker of another loader, say, for whose end somebody
          waits in turn;
        - ``joining.may_wait()``.
        """
        if self.stopped:
            return
        self.stop()
        if self.consumer.is_current_thread() and joining.may_wait():
            self.join()

    def orphan(self) -> None:
        """In a forked child: the threads do not exist here, and are never waited for.

        But for one, if it was a worker that forked. Should the user's code return to it
        here (most that fork in a thread end the process instead), it finds its epoch
        cancelled and ends, and with it, the only thread, the process.
        """
        self.epoch.cancelled = True
