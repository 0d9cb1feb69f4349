"""The prefetch policy: how many batches to prefetch, and which worker builds the next batch.

Indices are drawn from the sampler ``prefetch_factor * num_workers`` batches ahead of the hand-over,
as with torch's workers. A fixed distance keeps a sampler's random numbers independent of speed. Of
these batches, up to ``Ahead.limit`` are dispatched, that is, queued for workers, in the sampler's
order. Each hand-over makes room for one more.

- A map-style dataset: the next free worker builds the batch, or several workers do.
- An iterable-style dataset: each worker has its own share, so each batch is assigned to one worker.
  With ``in_order=True``, workers that have data left take turns. Else the worker with the fewest
  unfinished batches is next.

Worker processes inherit the same policy from torch's iterator.
``tests/conformance/test_workers.py`` tests both.
"""

import weakref
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

from ftloader.batch.fetch import Epoch, Fetched, Outcome
from ftloader.iterators.ahead import Ahead
from ftloader.workers.thread import Result


class Prefetch:
    """Batches of one epoch, drawn from the sampler and not yet handed over. The iterator's lock
    guards this object.

    *draws*: largest allowed number of these batches. *with_data*: ids of the workers that have data
    left in their shares of an iterable-style dataset, or that each load their own batches; None if
    any worker may load any batch. *turns*:
    endless iterator over worker ids, in the order of their turns.
    """

    def __init__(
        self,
        draws: int,
        ahead: Ahead,
        in_order: bool,
        with_data: set[int] | None,
        turns: Iterator[int],
    ) -> None:
        self._draws = draws
        # from the sampler, and not dispatched: indices, or Failures
        self.drawn: deque[Any] = deque()
        self._ahead, self._in_order, self._turns = ahead, in_order, turns
        self.with_data = with_data
        self.dispatched = 0  # also the number of the batch to dispatch next
        self.handed_over = 0  # in order, also the number of the batch to hand over next
        self._arrived: dict[int, Result] = {}
        # iterable-style: the builder of each batch that is not handed over
        self._built_by: dict[int, int] = {}
        self._unclaimed: deque[tuple[int, weakref.ref]] = deque()  # see unclaimed()

    @property
    def may_draw(self) -> bool:
        """True if the sampler may be asked for one more batch."""
        return len(self.drawn) + self.dispatched - self.handed_over < self._draws

    @property
    def has_room(self) -> bool:
        """True if one more batch may be dispatched to workers."""
        return self.dispatched - self.handed_over < self._ahead.limit

    @property
    def arrived(self) -> int:
        """Number of batches that are built and not handed over."""
        return len(self._arrived)

    @property
    def next_is_built(self) -> bool:
        """True if ``take()`` would return a result."""
        if self._in_order:
            return self.handed_over in self._arrived
        return bool(self._arrived)

    def unclaimed(self) -> deque[tuple[int, weakref.ref]]:
        """Return (number, weak reference) of each map-style batch that may still have samples for a
        worker to load.
        """
        while self._unclaimed and ((batch := self._unclaimed[0][1]()) is None or batch.claimed):
            self._unclaimed.popleft()
        return self._unclaimed

    def dispatch(self, batch: Any) -> int | None:
        """Count *batch* as dispatched. Return the id of the worker that must build it,
        or None for any worker.
        """
        number, self.dispatched = self.dispatched, self.dispatched + 1
        if self.with_data is None:
            self.unclaimed().append((number, weakref.ref(batch)))
            return None
        if self._in_order:
            worker_id = next(w for w in self._turns if w in self.with_data)
        else:
            load = Counter(w for n, w in self._built_by.items() if n not in self._arrived)
            worker_id = min(self.with_data, key=lambda w: load[w])
        self._built_by[number] = worker_id
        return worker_id

    def arrive(self, result: Result) -> None:
        """Store the result of a dispatched batch."""
        self._arrived[result.number] = result

    def take(self) -> tuple[Result, int] | None:
        """Return (result, id of its worker) of the next batch to hand over, and remove it; None if
        it is not built.

        The id is 0 for a map-style dataset.
        """
        if self._in_order:
            number = self.handed_over
        else:
            number = next(iter(self._arrived), -1)
        result = self._arrived.pop(number, None)
        if result is None:
            return None
        self.handed_over += 1
        worker_id = self._built_by.pop(number, 0)
        if (
            self.with_data is not None
            and isinstance(result.outcome, Fetched)
            and result.outcome.ended
        ):
            self.with_data.discard(worker_id)
        return result, worker_id

    def forget_worker(self, worker_id: int, epoch: Epoch, lost: Outcome) -> None:
        """Remove a worker that has ended. *lost*: outcome of each batch that it left unbuilt."""
        if self.with_data is not None:
            self.with_data.discard(worker_id)
        for number, builder in self._built_by.items():
            if builder == worker_id and number not in self._arrived:
                self.arrive(Result(epoch, number, lost))
