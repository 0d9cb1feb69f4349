"""The state of an iterable-style dataset in a worker, and of a map-style one in a process.

An iterable-style dataset shares itself out among the workers. Each share is a dictionary:

=============== ==========================================================================
``batches``     of this epoch, handed over
``snapshot``    the latest state of the worker's dataset and its iterator, or None: the
                dataset as the loader's own is
``snapshot_at`` after how many batches it was taken; None if it is not known where the epoch
                began, and no snapshot has come since
``after``       how many batches the pass before had whose end the snapshot is from, else 0
=============== ==========================================================================

A resumed worker loads the snapshot and goes past the batches since, which loads their samples and collates nothing. In
an epoch a snapshot is never of a pass that has ended, so that a dataset is always seen to end by itself. With
``num_workers=0`` and in persistent workers a dataset lives on: the next epoch begins with the state that it has at the
end of a pass. As in torchdata, ``iter(dataset)`` is then called for the pass that has ended, and once more.

As in torchdata the state of the dataset is loaded before ``iter(dataset)`` is called, that of the iterator after it; in
an epoch, of a dataset that is its own iterator only the latter is used.

What is here runs where the worker runs: in the process, or in the thread, which owns its copy of an iterable-style
dataset. The snapshots travel with the batches (``Fetched.state``).
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ftloader.fetch import Cancelled, Epoch, Exhausted, Fetched, IterableFetcher, MapFetcher, Recipe
from ftloader.state.format import Untaken, dataset_state, is_stateful, require_stateful, state_of

Share = Mapping[str, Any]


def begun(dataset: Any = None, known: bool = True, after: int = 0) -> dict[str, Any]:
    """The share of a worker of which nothing has been handed over. *dataset* is the state that its dataset had at the
    end of a pass of so many batches."""
    snapshot = None if dataset is None else {"states": {"dataset": dataset}, "position": 0}
    return {"batches": 0, "snapshot": snapshot, "snapshot_at": 0 if known else None, "after": after}


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What one worker of a resumed iterator begins with. Picklable as the states are."""

    share: Share | None = None
    """Iterable-style: what the worker goes on from; None: from what the dataset is."""
    dataset: Any = None
    """Map-style: the state of the dataset in this worker, or None."""
    every: int | None = None
    """``snapshot_every_n_steps``. None: an iterable-style dataset's state is taken after each batch, as torchdata does,
    since going on without it loads samples; a map-style one's only at the epoch's begin."""
    lives_on: bool = False
    """Iterable-style: the next epoch is of the same dataset."""


class StatefulIterableFetcher:
    """An ``IterableFetcher`` that begins where *state* says and takes snapshots.

    Raises ``ValueError`` if the dataset has no ``load_state_dict()`` for the state, and what the dataset raises.
    """

    def __init__(self, recipe: Recipe, dataset: Any, worker_id: int, state: WorkerState) -> None:
        self._dataset = dataset
        self._every = state.every or 1
        self._lives_on = state.lives_on
        share = state.share or begun()
        self._batches = share["batches"]
        self._behind = share["batches"] - (share["snapshot_at"] or 0)
        self._after = share["after"]
        snapshot = share["snapshot"]
        if snapshot is not None:
            _load(dataset, "dataset", snapshot["states"])
            if self._after:
                iter(dataset)
        self._fetcher = IterableFetcher(recipe, dataset, worker_id)
        if snapshot is not None:
            _load(self._fetcher.iterator, "iterator", snapshot["states"])
            self._fetcher.position = snapshot["position"]
        parts: dict[str, Any] = {"iterator": self._fetcher.iterator}
        if dataset is not self._fetcher.iterator:
            parts["dataset"] = dataset
        self._parts = {name: part for name, part in parts.items() if is_stateful(part)}

    def fetch(self, index: Any, epoch: Epoch) -> Fetched:
        """As the fetcher's. Raises ``ValueError`` also if the share is shorter than what of it has been handed over."""
        behind, self._behind = self._behind, 0
        for missing in range(behind, 0, -1):
            try:
                self._fetcher.skip(index, epoch)
            except Cancelled:
                raise
            except Exhausted:
                raise ValueError(
                    f"the dataset ended {missing} batches before the point that the state is from: "
                    "was the state saved with another dataset?"
                ) from None
            except Exception:  # the loop was given it when the batch was first built
                continue
        fetched = self._fetcher.fetch(index, epoch)
        if fetched.ended:
            if self._after and not self._fetcher.position:
                raise ValueError(
                    f"the dataset gave no sample after the state was loaded that it had at the end of a pass: let "
                    f"{type(self._dataset).__name__}.state_dict() say there where the next pass begins, or save the "
                    "loader's state within an epoch"
                )
            if self._lives_on:
                fetched.state = dataset_state(self._dataset)
            return fetched
        self._batches += 1
        self._after = 0
        # The first too: where the epoch began may not be known.
        due = self._batches == 1 or self._batches % self._every == 0
        if self._parts and due and not self._fetcher.ended:
            fetched.state = {
                "states": {name: state_of(part) for name, part in self._parts.items()},
                "position": self._fetcher.position,
            }
        return fetched


class StatefulMapFetcher:
    """A ``MapFetcher`` that adds the dataset's state to the first batch, as it was before it, and to every so many
    after it."""

    def __init__(self, recipe: Recipe, dataset: Any, state: WorkerState) -> None:
        _load(dataset, "dataset", {} if state.dataset is None else {"dataset": state.dataset})
        self._dataset = dataset
        self._fetcher = MapFetcher(recipe, dataset)
        self._every = state.every
        self._batches = 0
        self._due = dataset_state(dataset) if self._every != 1 else None

    def fetch(self, index: Any, epoch: Epoch) -> Fetched:
        fetched = self._fetcher.fetch(index, epoch)
        self._batches += 1
        if self._every and self._batches % self._every == 0:
            self._due = dataset_state(self._dataset)
        fetched.state, self._due = self._due, None
        return fetched


def _load(part: Any, name: str, states: Mapping[str, Any]) -> None:
    if name not in states or type(states[name]) is Untaken:  # then from what it is
        return
    require_stateful(part, name)
    part.load_state_dict(copy.deepcopy(states[name]))
