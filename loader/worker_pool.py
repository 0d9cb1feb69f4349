"""The worker threads of one iterator: starting, stopping and waiting for them.

A pool refers to threads and queues only, never to the iterator or (between tasks)
to anything of the user's. That is what lets a dropped iterator be collected, and its
finalizer (which holds the pool) end the threads.

Shared state: ``stopped`` and ``orphaned`` go from False to True once, ``epoch`` and
``consumer`` are replaced by the consumer only. All are read without a lock; every
reader copes with a value that is a moment old.
"""

import faulthandler
import tempfile
import threading
import time
import warnings
from queue import SimpleQueue

from loader import lifetime
from loader.fetch import Epoch
from loader.thread_worker import Order, Task, WorkerContext, run_worker

JOIN_LIMIT = 5.0
"""Seconds to wait for workers that were told to end, the time torch grants its worker
processes. A worker only needs longer if a single sample does."""


class WorkerPool:
    """Starts ``len(contexts)`` worker threads.

    With *private_queues* each worker has its own queue of tasks (iterable-style: a
    task is for a certain worker); else all take from one (map-style: whoever is free).

    Raises ``RuntimeError`` if the system refuses a thread; none is left then.
    """

    def __init__(self, contexts: tuple[WorkerContext, ...], private_queues: bool) -> None:
        self.results: SimpleQueue = SimpleQueue()
        self.epoch = Epoch()
        self.consumer = lifetime.current_consumer()
        self.stopped = False
        self.orphaned = False
        self._tasks = [SimpleQueue() for _ in contexts] if private_queues else [SimpleQueue()]
        self._threads: list[threading.Thread] = []
        lifetime.register(self)
        try:
            for worker_id, context in enumerate(contexts):
                self._start(worker_id, context)
        except BaseException as error:
            self.stop()
            if isinstance(error, Exception):  # else an interruption: no waiting
                self.join()
            raise

    def _start(self, worker_id: int, context: WorkerContext) -> None:
        tasks = self._tasks[worker_id % len(self._tasks)]
        thread = threading.Thread(
            target=run_worker,
            args=(worker_id, [context], tasks, self.results),
            name=f"loader-worker-{worker_id}",
            daemon=False,  # else inherited from a consumer that is a daemon thread
        )
        thread.start()
        self._threads.append(thread)

    def put(self, task: Task, worker_id: int | None = None) -> None:
        """Queues *task* for worker *worker_id*, or for whichever is free if None."""
        self._tasks[worker_id or 0].put(task)

    def begin_epoch(self) -> Epoch:
        """A new epoch; what is left of the previous one is no longer worked on."""
        self.epoch.cancelled = True
        self.epoch = Epoch()
        return self.epoch

    def wake(self) -> None:
        """Lets every waiting worker run for a moment.

        In a free-threaded build an object that another thread drops is freed when the
        thread that created it next runs Python code, or by a garbage collection (biased
        reference counting, PEP 703). Without this, the last batches of an epoch would
        stay in memory while persistent workers wait for the next.
        """
        for tasks in self._tasks:
            for _ in range(len(self._threads) // len(self._tasks)):
                tasks.put(Order.LOOK_UP)

    def stop(self) -> None:
        """Tells every worker to end after the sample in hand. Returns at once.

        Safe to call repeatedly and from anywhere, also from a finalizer that runs in
        the midst of another call on the same queues: ``SimpleQueue.put`` is documented
        as reentrant for this very purpose, which ``queue.Queue`` is not.
        """
        self.stopped = True
        self.epoch.cancelled = True
        lifetime.forget(self)
        if self.orphaned:
            return
        for tasks in self._tasks:
            for _ in self._threads:
                tasks.put(Order.END)
        self.results.put(None)  # wakes a consumer that waits in another thread

    def join(self, limit: float = JOIN_LIMIT) -> None:
        """Waits up to *limit* seconds for the workers to end, after ``stop()``.

        Whoever is still busy then is named in a ``RuntimeWarning`` with its stack; it
        ends by itself once the user's code returns.
        """
        if self.orphaned:
            return
        deadline = time.monotonic() + limit
        stuck = []
        for thread in self._threads:
            if thread.ident == threading.get_ident():
                continue
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                stuck.append(thread)
        if stuck:
            names = ", ".join(thread.name for thread in stuck)
            warnings.warn(
                f"{names} did not end within {limit:g} s of being told to, because a call into "
                "the dataset or collate_fn has not returned. The interpreter can only exit "
                "after it has. Stack:\n" + "".join(_stack(thread) for thread in stuck),
                RuntimeWarning,
                stacklevel=2,
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
        - this thread was not hit inside the ``threading`` module, with the lock in hand
          that a thread needs for its first and last steps.
        """
        if self.stopped:
            return
        self.stop()
        lock = threading._active_limbo_lock
        if self.consumer.is_current_thread() and not lock._is_owned():
            self.join()

    def orphan(self) -> None:
        """In a forked child: the threads do not exist here, and a queue may have been
        copied while another thread was inside it. Neither is ever touched again."""
        self.orphaned = self.stopped = True


def _stack(thread: threading.Thread) -> str:
    """The stack of a running thread as text.

    Through ``faulthandler``, which stops all threads while it reads (CPython issue
    128400); walking frames from ``sys._current_frames()`` while their thread goes on
    running is not safe without the GIL.
    """
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        sections = file.read().split("\n\n")
    for section in sections:
        header, _, frames = section.partition("\n")
        if f"0x{thread.ident:016x}" in header:
            return f"{thread.name} (most recent call first):\n{frames.rstrip()}\n"
    return f"{thread.name}: (stack not available)\n"
