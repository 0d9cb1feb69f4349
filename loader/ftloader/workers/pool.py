"""The life of one iterator's worker threads: started, told to end, waited for; and in a forked child.

A pool refers to threads and queues of tasks only, never to the iterator or (between tasks) to anything of the user's:
so a dropped iterator is collected, and its finalizer, which holds the pool, ends the threads. The queue of results is
the iterator's, and everybody else refers to it weakly, since an exception in it may lead back to the iterator.

In a forked child the queues are not touched. Without the GIL each has a lock of the interpreter's, which a thread that
waited for it may have been handed, but not yet woken with, when the fork came: it then stays locked for ever.
"""

import os
import threading
import time
import weakref
from queue import Empty, SimpleQueue

from ftloader import fork
from ftloader.batch.fetch import Epoch
from ftloader.diagnosis.call_site import warn_user
from ftloader.workers import exit as program_exit
from ftloader.workers.exit import WorkerThread
from ftloader.workers.messages import Order, Task
from ftloader.workers.thread import WorkerContext, run_worker, send


class WorkerPool:
    """``len(contexts)`` worker threads, from ``start()`` on.

    With *private_queues* each worker has its own queue of tasks (iterable-style: a task is for a certain worker); else
    all take from one (map-style: whoever is free). What they have to say they put into *results*, for as long as that
    exists.

    ``_told_to_end`` goes from False to True once; ``epoch`` and ``consumer`` are replaced by the consumer only. All are
    read without a lock; every reader copes with a value that is a moment old.
    """

    def __init__(self, contexts: tuple[WorkerContext, ...], private_queues: bool, results: SimpleQueue) -> None:
        self._results = weakref.ref(results)
        self.epoch = Epoch()
        self.used_by_this_thread()
        self._told_to_end = False
        self._started: SimpleQueue[None] = SimpleQueue()  # one for each that ran worker_init_fn
        self._process = os.getpid()
        self._tasks: list[SimpleQueue] = [SimpleQueue() for _ in contexts] if private_queues else [SimpleQueue()]
        self.threads = tuple(
            WorkerThread(
                target=run_worker,
                args=(worker_id, [context], self._tasks[worker_id % len(self._tasks)], self._results, self._started),
                name=f"loader-worker-{worker_id}",
            )
            for worker_id, context in enumerate(contexts)
        )

    def start(self) -> None:
        """Starts the threads, once. Raises ``RuntimeError`` if the system refuses a thread, or nobody would end it any
        more; none is left then."""
        fork.renewed(self)
        program_exit.register(self)
        try:
            if program_exit.is_too_late():
                raise RuntimeError(
                    "worker threads cannot be started any more: the interpreter exits, and functions "
                    "registered with atexit before the loader was imported are too late for it. Import "
                    "the loader before such a function is registered, or use num_workers=0 in it"
                )
            for thread in self.threads:
                thread.start()
        except BaseException as error:
            self.stop()
            if isinstance(error, Exception):  # else an interruption: no waiting
                self.join()
            raise

    def wait_until_started(self) -> None:
        """Waits until all workers have run ``worker_init_fn``, and warns if some have not in time."""
        limit = program_exit.JOIN_LIMIT
        deadline = time.monotonic() + limit
        for waiting in range(len(self.threads), 0, -1):
            try:
                self._started.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                warn_user(
                    f"worker_init_fn of {waiting} worker threads has not returned within {limit:g} s: if "
                    "it seeds random, NumPy or torch, that will reach the whole program",
                    RuntimeWarning,
                )
                return

    def used_by_this_thread(self) -> None:
        """The calling thread asks for batches."""
        self.consumer = weakref.ref(threading.current_thread())

    def outlives_main_thread(self) -> bool:
        """Whether the consumer is a thread that the interpreter waits for, and runs."""
        thread = self.consumer()
        is_main = thread is None or thread is threading.main_thread()
        return not is_main and not thread.daemon and thread.is_alive()  # type: ignore[union-attr]

    @property
    def orphaned(self) -> bool:
        """Whether this is a forked child, in which the threads do not exist. Asked of the system, since finalizers run
        in the child before any function that could note it."""
        return os.getpid() != self._process

    @property
    def stopped(self) -> bool:
        """Whether the workers have been told to end, or are in another process."""
        return self._told_to_end or self.orphaned

    def put(self, task: Task, worker_id: int | None = None) -> None:
        """Queues *task* for worker *worker_id*, or for whichever is free if None."""
        self._tasks[worker_id or 0].put(task)

    def begin_epoch(self, epoch: Epoch) -> None:
        """What is left of the previous epoch is no longer worked on."""
        self.epoch.cancelled = True
        self.epoch = epoch
        if self.stopped:  # by another thread meanwhile, which may have seen the old epoch
            epoch.cancelled = True

    def wake(self) -> None:
        """Lets every waiting worker run for a moment.

        In a free-threaded build an object that another thread drops is freed when the thread that created it next runs
        Python code, or by a garbage collection (biased reference counting, PEP 703). Without this, the last batches of
        an epoch would stay in memory while persistent workers wait for the next.
        """
        self._tell(Order.LOOK_UP)

    def _tell(self, order: Order) -> None:
        """Once to each worker: in a common queue nobody takes a second ``END``."""
        for tasks in self._tasks:
            for _ in range(len(self.threads) // len(self._tasks)):
                tasks.put(order)

    def stop(self) -> None:
        """Tells every worker to end after the sample in hand. Returns at once.

        May be called repeatedly and from anywhere, also from a finalizer in the midst of another call on the same
        queues: ``SimpleQueue.put`` is documented as reentrant for this.
        """
        self._told_to_end = True
        self.epoch.cancelled = True
        if self.orphaned:
            return
        program_exit.unregister(self)
        self._tell(Order.END)
        send(self._results, None)  # wakes a consumer that waits in another thread

    def join(self) -> None:
        """Waits for the workers to end, after ``stop()``; a ``RuntimeWarning`` names those that have not."""
        if self.orphaned:
            return
        limit = program_exit.JOIN_LIMIT
        if stuck := program_exit.join_all(self.threads, limit):
            future = f"It ends as soon as it can; the interpreter's exit waits for it no longer than {limit:g} s."
            program_exit.report_stuck(stuck, limit, future)

    def dispose(self) -> None:
        """For the finalizer of the iterator: ``stop()``, again if it was interrupted, and ``join()`` where that is
        safe. Whoever has stopped the pool before has waited, or must not be held up (an interruption)."""
        wait = not self.stopped and self.may_wait()
        self.stop()
        if wait:
            self.join()

    def may_wait(self) -> bool:
        """Whether a finalizer may wait for the workers: only in the thread that used the iterator (any other was merely
        hit by the garbage collection, and somebody may wait for it in turn), and not with a lock in hand that a thread
        needs for its first and last steps, or a fork."""
        thread = self.consumer()
        # Neither name is public. Before and after its own steps the module does not know a thread.
        lock, threads = threading._active_limbo_lock, threading._active  # type: ignore[attr-defined]
        is_this_thread = thread is not None and threads.get(threading.get_ident()) is thread
        return is_this_thread and not lock._is_owned() and not fork.registering._is_owned()  # type: ignore[attr-defined]

    def _at_fork_reinit(self) -> None:
        # The threads do not exist in this child, and are never waited for. But for one, if it was
        # a worker that forked. Should the user's code return to it, it finds its epoch cancelled.
        self.epoch.cancelled = True
