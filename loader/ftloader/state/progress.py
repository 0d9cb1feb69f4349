"""How far an epoch has been handed over: what ``state_dict()`` reads.

One ``Progress`` per epoch. It is written by the thread that is inside the iterator's
``__next__`` or ``_reset`` and read by whoever asks for the state, in any thread, also after
the iterator is gone. Its lock guards all of it, is held for a few assignments only, and
nothing of the user's is called under it but a generator's ``get_state``, and by chance: a
signal handler that saves a state, a finalizer, or ``KeyboardInterrupt`` may strike between any
two steps. So it is reentrant, and what is written in several steps is right after each of
them: the batch on its way to the consumer counts as handed over or not. It refers to the
indices of batches that are on their way, to states, and to nothing else: neither to the
iterator nor to the dataset.

Numbers of batches are absolute: they count from the begin of the epoch, also if it is
resumed, while a resumed iterator numbers its own from 0.
"""

import copy
import operator
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ftloader import fork_locks
from ftloader.state.format import Resume, make_state
from ftloader.state.shares import Share, following


class Progress:
    """The state of one epoch in the making.

    Args:
        loader: ``format.describe_loader``.
        shares: iterable-style: each worker's, of one at least; else empty.
        dataset: iterable-style: the state of the loader's own dataset, or None.
        copies: how many workers have a copy of a map-style dataset (processes), else 0.
        resume: the state from which the epoch goes on, or None.
    """

    def __init__(
        self,
        loader: Mapping[str, Any],
        shares: Sequence[Share],
        dataset: Any,
        copies: int,
        base_seed: int,
        epoch: int,
        shared_seed: int | None = None,
        resume: Resume | None = None,
    ) -> None:
        self._lock = fork_locks.rlock()
        self._loader = dict(loader)
        self._fixed = {"base_seed": base_seed, "epoch": epoch, "shared_seed": shared_seed, "dataset": dataset}
        resume = resume if resume is not None and resume.midst else Resume()
        self._order: Mapping[str, Any] = resume.order
        self._snapshots: deque = deque([resume.sampler] if resume.sampler is not None else [])
        self._start = self._handed_over = resume.handed_over
        self._skips = tuple(sorted(resume.ahead))
        self._ahead = set(resume.ahead)
        self._drawing = False
        self._drawn, self._ended = resume.drawn, resume.ended
        self._underway: dict[int, Any] = {}
        self._last: tuple[int, Any] | None = None
        self._resumed_last = resume.last
        self._failed: list[tuple[int, int]] = []
        self._workers = [dict(share) for share in shares]
        self._next_worker = resume.next_worker
        self._datasets: list = [None] * copies
        for worker_id in range(copies):
            self._datasets[worker_id] = resume.dataset_of(worker_id, copies)
        self._finished = False

    # Written by the iterator

    def began(self, order: Mapping[str, Any], snapshot: Mapping[str, Any] | None) -> None:
        """The order comes from *order*, and is about to be drawn."""
        with self._lock:
            self._order = order
            if snapshot is not None:
                self._snapshots = deque([snapshot])

    def drawing(self) -> None:
        """The sampler is about to be asked, until ``drew``: its generators may be on the way
        from one state to another."""
        with self._lock:
            self._drawing = True

    def drew(self, drawn: int, ended: bool, batches: Mapping[int, Any]) -> None:
        """The sampler has been asked for *drawn* batches in all, or has *ended*; *batches*, by
        number, are on their way since."""
        with self._lock:
            if not self._workers:  # else there are no indices
                for number, index in batches.items():
                    # The dataset may change what it is given (``indices.sort()``).
                    self._underway[number] = index.copy() if type(index) is list else index
                self._drawn, self._ended = drawn, ended
            self._drawing = False

    def sampler_snapshot(self, snapshot: Mapping[str, Any] | None) -> None:
        if snapshot is not None:
            with self._lock:
                self._snapshots.append(snapshot)

    def handed_over(self, number: int, worker_id: int = 0, state: Any = None, turns: int = 1) -> None:
        """The consumer is given the iterator's batch *number* (or goes past it, since all of
        it was skipped).

        Args:
            number: the iterator's own count of its batches, from 0.
            worker_id: whose batch it is, where that matters.
            state: ``Fetched.state``.
            turns: how many workers take turns (0: any worker takes any batch).
        """
        with self._lock:
            if self._failed:
                for failed, failed_worker in self._failed:
                    self._pass(failed, failed_worker)
                self._failed.clear()
            self._pass(number, worker_id)
            if turns:
                self._next_worker = (worker_id + 1) % turns
            if state is None:
                pass
            elif self._workers:
                worker = self._workers[worker_id]
                # In one step, as in _pass.
                worker.update(snapshot=state, snapshot_at=worker["batches"], before=None)
            elif self._datasets:
                self._datasets[worker_id] = state

    def failed(self, number: int, worker_id: int = 0) -> None:
        """The consumer is given an exception in place of batch *number*.

        It has not been handed over, so a state from right after the exception tries it
        again. Once a later batch is handed over it counts as done with, as it does for the
        iterator.
        """
        with self._lock:
            self._failed.append((number, worker_id))

    def finished(self) -> None:
        """The iterator has raised ``StopIteration``."""
        with self._lock:
            self._finished = True
            self._underway.clear()

    def _pass(self, number: int, worker_id: int) -> None:
        if self._workers:
            self._workers[worker_id]["batches"] += 1
            return
        number = self._absolute(number)
        self._last = (number, self._underway.pop(number, None))
        if number == self._handed_over:
            after = number + 1
            while after in self._ahead:
                after += 1
            self._handed_over = after  # in one step; what that makes superfluous is not read
            self._ahead.difference_update(range(number, after))
        else:
            self._ahead.add(number)
        # The newest snapshot that is not ahead of what was handed over is needed.
        while len(self._snapshots) > 1 and self._snapshots[1]["drawn"] <= self._handed_over:
            self._snapshots.popleft()

    def _absolute(self, number: int) -> int:
        number += self._start
        for skipped in self._skips:
            number += number >= skipped
        return number

    # Read by anyone

    @property
    def is_finished(self) -> bool:
        with self._lock:
            return self._finished

    def next_epoch(self) -> tuple[int, int]:
        """Base seed of this epoch, number of the next one."""
        return self._fixed["base_seed"], self._fixed["epoch"] + 1

    @property
    def dataset(self) -> Any:
        """As the constructor was given it; nobody changes what is in it."""
        return self._fixed["dataset"]

    def shares(self) -> list[Share]:
        """The workers' shares at this moment."""
        with self._lock:
            return [dict(share) for share in self._workers]

    def next_shares(self, ahead: bool) -> list[Share]:
        """With which the next epoch begins, if the workers' datasets live on.

        *ahead* is as for ``following``.
        """
        ended, stateful = self.is_finished, self.dataset is not None
        return [following(share, ended=ended, stateful=stateful, ahead=ahead) for share in self.shares()]

    def last_snapshot(self) -> Any:
        with self._lock:
            return copy.deepcopy(self._snapshots[-1]) if self._snapshots else None

    def state(self, digest: Callable[[Any], str | None], capture: Callable[[], Mapping]) -> dict[str, Any]:
        """The state, of which nothing is shared with the running epoch.

        *digest* makes a name of a batch's indices (``samplers.digest``), *capture* gives the
        states of the loader's and its samplers' own generators. It is called under the lock,
        so that the sampler is not asked meanwhile.
        """
        with self._lock:
            # Of the latest batch that has been drawn.
            last, resumed_last = (
                max(self._underway.items(), default=self._last, key=operator.itemgetter(0)),
                self._resumed_last,
            )
            parts = {
                "phase": "midst",
                **self._fixed,
                "order": self._order,
                "generators": None if self._drawing else capture(),
                "drawn": self._drawn,
                "ended": self._ended,
                "sampler": self._snapshots[0] if self._snapshots else None,
                "handed_over": self._handed_over,
                "ahead": sorted(n for n in self._ahead if n > self._handed_over),
                "workers": [dict(worker) for worker in self._workers] or None,
                "next_worker": self._next_worker,
                "datasets": list(self._datasets) if any(self._datasets) else None,
            }
        # Outside the lock: nobody changes what was in there, it is only replaced.
        if last is not None:
            parts["last"] = {"batch": last[0], "digest": digest(last[1])}
        else:
            parts["last"] = resumed_last
        return copy.deepcopy(make_state(self._loader, **parts))
