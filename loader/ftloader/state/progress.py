"""The progress of an epoch, which ``state_dict()`` reads.

Only the thread inside the iterator's ``__next__`` or ``_reset`` writes the progress. Any thread or
signal handler may read it at any time, even after the iterator is gone. No lock: each attribute is
replaced as a whole by an immutable object. The progress refers neither to the iterator nor to the
dataset.

Batch numbers in a state count from the start of the epoch, also in a resumed epoch. A resumed
iterator counts its own batches from 0.
"""

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ftloader.state.format import NOTHING, SavedState, Share, fresh_share, make_state
from ftloader.state.samplers import digest

# Plain tuples: making one for each batch costs a third of a named tuple.
Drawn = tuple[int, int, Any]
"""Number of batches drawn from the sampler; number and indices of the last of them (-1,
None: none yet).
"""
HandedOver = tuple[int, frozenset[int], tuple, tuple[Share, ...], int]
"""Batches that the consumer has been given: (number, ahead, datasets, shares, next worker).

Map-style: all batches before *number*, and with ``in_order=False`` those in *ahead* too; *datasets*
has the state of each worker process's dataset, or None before its first message. Iterable-style:
each worker's share, and the worker whose turn is next."""


class EpochProgress:
    """Progress of one epoch, from which ``state()`` makes the loader's saved state.

    Args:
        loader: the result of ``describe_loader``.
        fixed: the parts of the state that do not change during the epoch.
        shares: the workers' shares of an iterable-style dataset.
        copies: number of worker processes if the dataset is map-style and stateful, as each process
            has a copy; else 0.
        turns: number of workers, if they take turns in building batches; else 0.
        resume: the loaded state. If it is not from the middle of an epoch, only the datasets'
            states are used.
        length: the result of ``samplers.resumed_length``.
    """

    def __init__(
        self,
        loader: Mapping[str, Any],
        fixed: Mapping[str, Any],
        shares: Sequence[Share] = (),
        copies: int = 0,
        turns: int = 0,
        resume: SavedState = NOTHING,
        length: int | None = None,
    ) -> None:
        # Also at the start of an epoch that is the rest of another one.
        datasets = tuple(resume.dataset_of(worker_id, copies) for worker_id in range(copies))
        if not resume.mid_epoch:
            resume = NOTHING
        self._loader, self.fixed, self._turns, self.length = loader, fixed, turns, length
        self._start, self._skips = resume.handed_over, tuple(sorted(resume.ahead))
        self._resumed_last = resume.last
        self._failed: list[tuple[int, int]] = []
        # by worker whose share has ended: the state of its dataset then, or None
        self.ends: dict[int, Any] = {}
        self.finished = False  # True once the iterator has raised StopIteration
        # True while the sampler draws: its generators may be between two states
        self.drawing = False
        self.order = resume.order or {"generators": {}, "epochs": {}}  # see samplers
        self.drawn: Drawn = resume.drawn, -1, None
        self.ended = resume.ended  # True once the sampler has ended
        # States of the samplers: the newest that is not ahead of the batches handed over,
        # and all later ones.
        self.snapshots: tuple[Mapping[str, Any], ...] = ()
        if resume.sampler is not None:
            self.snapshots = (resume.sampler,)
        self._handed: HandedOver = (
            resume.handed_over,
            frozenset(resume.ahead),
            datasets,
            tuple(shares),
            resume.next_worker,
        )

    # Written by the iterator

    def handed_over(self, number: int, worker_id: int = 0, state: Any = None) -> None:
        """Record that batch *number* was handed over or wholly left out. *state*: dataset state
        sent with the batch.
        """
        handed = self._handed
        for failed in self._failed:
            handed = self._after(handed, *failed)
        self._handed = handed = self._after(handed, number, worker_id, state)
        self._failed = []
        while len(self.snapshots) > 1 and self.snapshots[1]["drawn"] <= handed[0]:
            self.snapshots = self.snapshots[1:]

    def failed(self, number: int, worker_id: int = 0) -> None:
        """Record that batch *number* raised. It counts as handed over
        as soon as a later batch is handed over.
        """
        self._failed.append((number, worker_id))

    def _after(
        self, handed: HandedOver, number: int, worker_id: int, state: Any = None
    ) -> HandedOver:
        batches, ahead, datasets, shares, next_worker = handed
        if self._turns:
            next_worker = (worker_id + 1) % self._turns
        if shares:
            share = {**shares[worker_id], "batches": shares[worker_id]["batches"] + 1}
            if state is not None:
                share |= {"snapshot": state, "snapshot_at": share["batches"], "after": 0}
            return (
                batches,
                ahead,
                datasets,
                (*shares[:worker_id], share, *shares[worker_id + 1 :]),
                next_worker,
            )
        if state is not None:
            datasets = (*datasets[:worker_id], state, *datasets[worker_id + 1 :])
        number += self._start
        for skipped in self._skips:
            number += number >= skipped
        if number != batches:
            return batches, ahead | {number}, datasets, shares, next_worker
        batches += 1
        if ahead:
            while batches in ahead:
                batches += 1
            ahead = frozenset(n for n in ahead if n > batches)
        return batches, ahead, datasets, shares, next_worker

    # Read by anyone

    def shares(self) -> tuple[Share, ...]:
        return self._handed[3]

    def next_shares(self) -> list[Share]:
        """Return, by worker id, the descriptions of the workers' shares
        at the start of the next epoch.
        """
        if self.fixed["dataset"] is None:  # a dataset without a state
            return [fresh_share()] * len(self.shares())
        ends = [
            (self.ends.get(worker_id), share["batches"])
            for worker_id, share in enumerate(self.shares())
        ]
        return [
            fresh_share(end, known=self.finished and end is not None, after=batches)
            for end, batches in ends
        ]

    def _seen(self) -> tuple:
        return self.snapshots, self._handed, self.drawn, self.order, self.ended

    def _generators(self, drawn: Drawn, capture: Callable[[], Mapping]) -> Mapping | None:
        """Return ``capture()``; None if the sampler is drawing, or has drawn since *drawn*."""
        if self.drawing:
            return None
        generators = capture()
        if self.drawing or self.drawn is not drawn:
            return None
        return generators

    def _last_batch(self, drawn: Drawn) -> Mapping[str, Any] | None:
        """Return the number and the digest of the last batch of *drawn*."""
        if drawn[1] < 0:
            return self._resumed_last
        return {"batch": drawn[1], "digest": digest(drawn[2])}

    def state(self, capture: Callable[[], Mapping]) -> dict[str, Any]:
        """Return a copy of the loader's state. ``capture()`` must return the states
        of the loader's generators.
        """
        while True:  # until no batch came in between
            snapshots, handed, drawn, order, ended = seen = self._seen()
            if all(map(operator.is_, seen, self._seen())):
                break
        batches, ahead, datasets, shares, next_worker = handed
        generators = self._generators(drawn, capture)
        state = make_state(
            self._loader,
            phase="middle",
            **self.fixed,
            order=order,
            generators=generators,
            drawn=drawn[0],
            ended=ended,
            # Not simply the first: this thread may look between the two steps of handed_over().
            sampler=next(
                (snapshot for snapshot in reversed(snapshots) if snapshot["drawn"] <= batches), None
            ),
            handed_over=batches,
            ahead=sorted(ahead),
            workers=list(shares) or None,
            next_worker=next_worker,
            datasets=list(datasets) if any(datasets) else None,
            last=self._last_batch(drawn),
        )
        return copy.deepcopy(state)
