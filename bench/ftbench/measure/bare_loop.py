"""The loop that no loader can beat without doing less: threads that take samples, and nothing else.

No batch is built and nothing is handed over; a consumer only learns that the samples of a batch are
done. What a loader adds to this (collation, memory, queues, order) is its cost.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ftbench.measure import checksums


class BareLoop:
    """Threads that call `dataset[i]` for i = 0, 1, 2, ... (beginning again at the dataset's end).

    Of the samples of the first batch of the first pass all is kept; of others the rows that are checked
    (ftbench.measure.checksums). Used by one thread, its consumer.
    """

    def __init__(self, dataset: Any, workers: int, batch_size: int):
        self._dataset, self._workers, self._batch_size = dataset, workers, batch_size
        self._pool = ThreadPoolExecutor(workers)
        self._whole = batch_size

    def epoch(self, samples: int) -> Iterator[list]:
        """Yield what was kept of each batch's samples, in order, once they are all done: whole ones, or Rows."""
        dataset, length, batch_size = self._dataset, len(self._dataset), self._batch_size
        whole, self._whole = self._whole, 0
        # The lock guards what the threads change: the numbers to come, and how many samples a batch lacks.
        lock, numbers = threading.Lock(), iter(range(samples))
        kept: list[list] = [[None] * min(batch_size, samples - start) for start in range(0, samples, batch_size)]
        lacking = [len(batch) for batch in kept]
        done = [threading.Event() for _ in kept]

        def cancel() -> None:
            """Let every thread end after its sample, and whoever waits go on."""
            nonlocal numbers
            with lock:
                numbers = iter(range(0))
                for event in done:
                    event.set()

        def work() -> None:
            """Take samples until none is left; runs in every thread."""
            finished = None
            try:
                while True:
                    with lock:
                        if finished is not None:
                            lacking[finished] -= 1
                            if not lacking[finished]:
                                done[finished].set()
                        number = next(numbers, None)
                    if number is None:
                        return
                    finished, place = divmod(number, batch_size)
                    sample = dataset[number % length]
                    kept[finished][place] = sample if number < whole else checksums.rows(sample)
                    del sample  # the next one may have its memory
            except BaseException:
                cancel()
                raise

        threads = [self._pool.submit(work) for _ in range(self._workers)]
        try:
            for number, event in enumerate(done):
                event.wait()
                if failed := [t for t in threads if t.done() and t.exception() is not None]:
                    failed[0].result()
                batch, kept[number] = kept[number], []
                yield batch if number * batch_size < whole else checksums.Rows(batch)
        finally:
            cancel()
            for thread in threads:
                # Also says what a failing thread raised after the others woke the consumer.
                thread.exception()

    def close(self) -> None:
        self._pool.shutdown()
