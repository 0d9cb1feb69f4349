"""The loop without a loader: threads that load samples, and nothing else. No loader can be faster and do as much.

No batch is built and nothing is handed over: the consumer only learns that the samples of a batch are done. What a
loader adds (collation, memory, queues, order) is its cost.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ftbench.measure import checksums


class BareLoop:
    """Threads that call `dataset[i]` for i = 0, 1, 2, ..., starting again at the dataset's end. Used by one thread.

    The very first batch's samples are kept whole; of others only the checked rows (ftbench.measure.checksums).
    """

    def __init__(self, dataset: Any, workers: int, batch_size: int):
        self._dataset, self._workers, self._batch_size = dataset, workers, batch_size
        self._pool = ThreadPoolExecutor(workers)
        self._whole = batch_size

    def epoch(self, samples: int) -> Iterator[list]:
        """Yield each batch in order, once its samples are loaded: a list of the very first samples, Rows of others."""
        dataset, length, batch_size = self._dataset, len(self._dataset), self._batch_size
        whole, self._whole = self._whole, 0
        # The lock guards the state that threads change: the numbers to come, and the samples that each batch lacks.
        lock, numbers = threading.Lock(), iter(range(samples))
        kept: list[list] = [[None] * min(batch_size, samples - start) for start in range(0, samples, batch_size)]
        lacking = [len(batch) for batch in kept]
        done = [threading.Event() for _ in kept]

        def cancel() -> None:
            """Let every thread end after its sample, and wake the consumer."""
            nonlocal numbers
            with lock:
                numbers = iter(range(0))
                for event in done:
                    event.set()

        def work() -> None:
            """Load samples until none is left; the body of every thread."""
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
                    del sample  # so that the next may reuse its memory
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
                # Waits for the thread; a failure was raised above.
                thread.exception()

    def close(self) -> None:
        self._pool.shutdown()
