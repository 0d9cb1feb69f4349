"""The loop that no loader can beat without doing less: threads that take samples, and nothing else.

No batch is built and nothing is handed over; a consumer only learns that the samples of a batch are
done. What a loader adds to this (collation, memory, queues, order) is its cost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ftbench.measure import checksums


class _Pass:
    """One pass over the samples 0 to `samples` - 1. Shared by its threads; `_lock` guards what changes."""

    def __init__(self, take: Callable[[int], Any], keep: Callable[[int, Any], Any], samples: int, batch_size: int):
        self._take, self._keep = take, keep
        self._samples, self._batch_size = samples, batch_size
        self._lock = threading.Lock()
        self._next = 0
        self._cancelled = False
        self.kept: list[list] = [[None] * min(batch_size, samples - start) for start in range(0, samples, batch_size)]
        self._left = [len(batch) for batch in self.kept]
        self.done = [threading.Event() for _ in self.kept]

    def work(self) -> None:
        """Take samples until none is left; runs in every thread."""
        finished = None
        try:
            while True:
                with self._lock:
                    if finished is not None:
                        self._left[finished] -= 1
                        if not self._left[finished]:
                            self.done[finished].set()
                    if self._cancelled or self._next == self._samples:
                        return
                    number = self._next
                    self._next += 1
                finished, place = divmod(number, self._batch_size)
                self.kept[finished][place] = self._keep(number, self._take(number))
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        """Let every thread end after its sample, and whoever waits go on."""
        with self._lock:
            self._cancelled = True
            for event in self.done:
                event.set()


class BareLoop:
    """Threads that call `dataset[i]` for i = 0, 1, 2, ... (beginning again at the dataset's end).

    Of the samples of the first batch of the first pass all is kept; of others the rows that are checked
    (ftbench.measure.checksums). Used by one thread, its consumer.
    """

    def __init__(self, dataset: Any, workers: int, batch_size: int):
        self._dataset, self._workers, self._batch_size = dataset, workers, batch_size
        self._pool = ThreadPoolExecutor(workers)
        self._first = True

    def epoch(self, samples: int) -> Iterator[list]:
        """Yield what was kept of each batch's samples, in order, once they are all done: whole ones, or Rows."""
        whole = self._batch_size if self._first else 0
        self._first = False
        length = len(self._dataset)

        def take(number: int) -> Any:
            return self._dataset[number % length]

        def keep(number: int, sample: Any) -> Any:
            return sample if number < whole else checksums.rows(sample)

        this = _Pass(take, keep, samples, self._batch_size)
        threads = [self._pool.submit(this.work) for _ in range(self._workers)]
        try:
            for number, done in enumerate(this.done):
                done.wait()
                if failed := [t for t in threads if t.done() and t.exception() is not None]:
                    failed[0].result()
                kept, this.kept[number] = this.kept[number], []
                yield kept if number * self._batch_size < whole else checksums.Rows(kept)
        finally:
            this.cancel()
            for thread in threads:
                # Also says what a failing thread raised after the others woke the consumer.
                thread.exception()

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()
