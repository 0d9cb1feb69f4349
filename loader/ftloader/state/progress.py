"""How far an epoch has been handed over: what ``state_dict()`` reads.

One ``EpochProgress`` per epoch. Only the thread that is inside the iterator's ``__next__`` or ``_reset`` writes it,
and read by anyone at any time, also by a signal handler and when the iterator is gone. Each attribute is replaced
whole, in one step, by an object that nobody changes. So there is no lock, and a batch costs two such steps. It refers
to the indices of the batch last drawn and to states: neither to the iterator nor to the dataset.

Numbers of batches are absolute: they count from the begin of the epoch, also if it is resumed, while a resumed iterator
numbers its own from 0.
"""

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ftloader.state.format import NOTHING, SavedState, make_state
from ftloader.state.samplers import digest
from ftloader.state.shares import Share, fresh_share

# Tuples without names, which cost a third of those with them, for each batch.
Drawn = tuple[int, int, Any]
"""How many batches have been drawn from the sampler, number and indices of the last of them (-1, None: none yet)."""
HandedOver = tuple[int, frozenset[int], tuple, tuple[Share, ...], int]
"""What the consumer has been given. Map-style: all batches before this number; with ``in_order=False`` these too; in
processes the state of each worker's dataset (None of one that has not said anything). Iterable-style: each worker's
share, and whose turn it is."""


class EpochProgress:
    """The state of one epoch in the making.

    Args:
        loader: ``format.describe_loader``.
        fixed: the parts of the state that do not change in the epoch.
        shares: iterable-style: each worker's, of one at least; else empty.
        copies: how many workers have a copy of a map-style dataset (processes), else 0.
        turns: how many workers take turns, else 0.
        resume: the state from which the epoch goes on, if that is in the middle of it.
    """

    def __init__(
        self,
        loader: Mapping[str, Any],
        fixed: Mapping[str, Any],
        shares: Sequence[Share] = (),
        copies: int = 0,
        turns: int = 0,
        resume: SavedState = NOTHING,
    ) -> None:
        resume = resume if resume.mid_epoch else NOTHING
        self._loader, self.fixed, self._turns = loader, fixed, turns
        self._start, self._skips = resume.handed_over, tuple(sorted(resume.ahead))
        self._resumed_last = resume.last
        self._failed: list[tuple[int, int]] = []
        self._ends: dict[int, Any] = {}  # by worker: the state of its dataset after the pass
        self.finished = False
        """Whether the iterator has raised ``StopIteration``."""
        self.drawing = False
        """Whether the sampler is being asked, so its generators may be on the way from one state to another."""
        self.order = resume.order or {"generators": {}, "epochs": {}}
        """What the order comes from: see ``samplers``."""
        self.drawn: Drawn = resume.drawn, -1, None
        self.ended = resume.ended
        """Whether the sampler has."""
        self.snapshots: tuple[Mapping[str, Any], ...] = () if resume.sampler is None else (resume.sampler,)
        """Of the samplers; of those that are not ahead of what was handed over only the newest."""
        datasets = tuple(resume.dataset_of(worker_id, copies) for worker_id in range(copies))
        self._handed: HandedOver = (
            resume.handed_over,
            frozenset(resume.ahead),
            datasets,
            tuple(shares),
            resume.next_worker,
        )

    # Written by the iterator

    def handed_over(self, number: int, worker_id: int = 0, state: Any = None) -> None:
        """The consumer is given the iterator's batch *number* (or goes past it, since all of it was skipped), of this
        worker, where that matters; *state* is ``Fetched.state``."""
        handed = self._handed
        for failed in self._failed:
            handed = self._after(handed, *failed)
        self._handed = handed = self._after(handed, number, worker_id, state)
        self._failed = []
        while len(self.snapshots) > 1 and self.snapshots[1]["drawn"] <= handed[0]:
            self.snapshots = self.snapshots[1:]

    def failed(self, number: int, worker_id: int = 0) -> None:
        """The consumer is given an exception in place of batch *number*: it has not been handed over, so a state from
        right after the exception tries it again. Once a later batch is handed over it counts as done with, as it does
        for the iterator."""
        self._failed.append((number, worker_id))

    def worker_ended(self, worker_id: int, state: Any) -> None:
        """The worker's share has ended; *state* is that of its dataset then, or None."""
        self._ends[worker_id] = state

    def _after(self, handed: HandedOver, number: int, worker_id: int, state: Any = None) -> HandedOver:
        batches, ahead, datasets, shares, next_worker = handed
        if self._turns:
            next_worker = (worker_id + 1) % self._turns
        if shares:
            share = {**shares[worker_id], "batches": shares[worker_id]["batches"] + 1}
            if state is not None:
                share |= {"snapshot": state, "snapshot_at": share["batches"], "after": 0}
            return batches, ahead, datasets, (*shares[:worker_id], share, *shares[worker_id + 1 :]), next_worker
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
        """The workers' shares at this moment."""
        return self._handed[3]

    def next_shares(self) -> list[Share]:
        """With which the next epoch of the same workers begins."""
        if self.fixed["dataset"] is None:  # nothing was to be kept
            return [fresh_share()] * len(self.shares())
        ends = [(self._ends.get(worker_id), share["batches"]) for worker_id, share in enumerate(self.shares())]
        return [fresh_share(end, known=self.finished and end is not None, after=batches) for end, batches in ends]

    def _seen(self) -> tuple:
        return self.snapshots, self._handed, self.drawn, self.order, self.ended

    def state(self, capture: Callable[[], Mapping]) -> dict[str, Any]:
        """The state, of which nothing is shared with the running epoch. *capture* gives the states of the loader's and
        its samplers' own generators."""
        while True:  # until no batch came between
            snapshots, handed, drawn, order, ended = seen = self._seen()
            if all(map(operator.is_, seen, self._seen())):
                break
        batches, ahead, datasets, shares, next_worker = handed
        drawing = self.drawing
        generators = None if drawing else capture()
        if self.drawing or self.drawn is not drawn:
            generators = None
        parts = {
            "phase": "middle",
            **self.fixed,
            "order": order,
            "generators": generators,
            "drawn": drawn[0],
            "ended": ended,
            "sampler": snapshots[0] if snapshots else None,
            "handed_over": batches,
            "ahead": sorted(ahead),
            "workers": list(shares) or None,
            "next_worker": next_worker,
            "datasets": list(datasets) if any(datasets) else None,
            "last": self._resumed_last,
        }
        if drawn[1] >= 0:
            parts["last"] = {"batch": drawn[1], "digest": digest(drawn[2])}
        return copy.deepcopy(make_state(self._loader, **parts))
