"""The state of an iterable-style dataset in a worker, and of a map-style one in a process.

A state of an iterable-style dataset is one per worker (``ftloader.state.shares``): how many
batches have been handed over and, if the dataset or its iterator has ``state_dict()`` and
``load_state_dict()``, a snapshot of those from ``snapshot_every_n_steps`` batches of this
worker ago at most. A resumed worker loads the snapshot (else it begins at the begin) and
goes past the batches since, which loads their samples and collates nothing. A snapshot is
never of a pass that has ended, so that a dataset is always seen to end by itself.

As in torchdata the state of the dataset is loaded before ``iter(dataset)`` is called, that
of the iterator after it; of a dataset that is its own iterator only the latter is used.

What is here runs where the worker runs: in the process, or in the thread, which owns its
copy of an iterable-style dataset. The snapshots travel with the batches (``Fetched.state``).
"""

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import GeneratorType
from typing import Any

from ftloader.fetch import Cancelled, Epoch, Exhausted, Fetched, Fetcher, IterableFetcher
from ftloader.on_error import MOST_FAILURES_IN_A_ROW
from ftloader.state.format import dataset_state, is_stateful
from ftloader.state.shares import Share, begun


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What one worker of a resumed iterator begins with. Picklable as the states are."""

    share: Share | None = None
    """Iterable-style: what the worker goes on from; None: from what the dataset is."""
    index: Any = None
    """Iterable-style: what the sampler yields for every batch."""
    dataset: Any = None
    """Map-style: the state of the dataset in this worker, or None."""
    every: int | None = None
    """``snapshot_every_n_steps``. None: an iterable-style dataset's state is taken after each
    batch, as torchdata does, since going on without it loads samples; a map-style one's only
    at the epoch's begin."""


class StatefulIterableFetcher:
    """An ``IterableFetcher`` that begins where *state* says and takes snapshots.

    Args:
        make: makes the fetcher, which calls ``iter(dataset)``.
        epoch: may be cancelled while earlier passes are gone through.

    Raises ``ValueError`` if the dataset has no ``load_state_dict()`` for the state,
    ``Cancelled``, and what the dataset raises.
    """

    def __init__(
        self, dataset: Any, make: Callable[[], IterableFetcher], state: WorkerState, epoch: Epoch | None = None
    ) -> None:
        self._dataset = dataset
        self._make = make
        self._every = state.every or 1
        share = state.share or begun()
        self._batches = share["batches"]
        self._behind = share["batches"] - share["snapshot_at"]
        if share["snapshot"] is None and share["before"] is not None:
            self._go_through(share["before"], state.index, epoch or Epoch())
        self._fetcher = self._make_at(share["snapshot"])
        parts = {"dataset": dataset, "iterator": self._fetcher.iterator}
        if dataset is self._fetcher.iterator:
            del parts["dataset"]
        self._parts = {name: part for name, part in parts.items() if is_stateful(part)}

    def _make_at(self, snapshot: Mapping[str, Any] | None) -> IterableFetcher:
        if snapshot is None:
            return self._make()
        _load(self._dataset, "dataset", snapshot["states"])
        fetcher = self._make()
        _load(fetcher.iterator, "iterator", snapshot["states"])
        fetcher.position = snapshot["position"]
        return fetcher

    def fetch(self, index: Any, epoch: Epoch) -> Fetched:
        """As the fetcher's. Raises ``ValueError`` also if the share is shorter than what of
        it has been handed over."""
        behind, self._behind = self._behind, 0
        if missing := _go_past(self._fetcher, behind, index, epoch):
            raise ValueError(
                f"the dataset ended {missing} batches before the point that the state is from: "
                "was the state saved with another dataset?"
            )
        fetched = self._fetcher.fetch(index, epoch)
        self._batches += 1
        # The first too: the next epochs of this dataset are to begin from one.
        due = self._batches == 1 or self._batches % self._every == 0
        if self._parts and due and not self._fetcher.ended:
            fetched.state = {
                # Copies, since a state may be the dataset's own dictionary.
                "states": {k: copy.deepcopy(p.state_dict()) for k, p in self._parts.items()},
                "position": self._fetcher.position,
            }
        return fetched

    def _go_through(self, before: Mapping[str, Any], index: Any, epoch: Epoch) -> None:
        """The passes that the dataset has seen before this epoch."""
        snapshot = before["snapshot"]
        for batches in before["passes"]:
            fetcher = self._make_at(snapshot)
            snapshot = None
            _go_past(fetcher, batches, index, epoch)
            iterator = fetcher.iterator
            if isinstance(iterator, GeneratorType) and inspect.getgeneratorstate(iterator) == inspect.GEN_CREATED:
                # With its first step it takes up what was loaded; else the next pass would.
                _go_past(fetcher, 1, index[:1] if isinstance(index, list) else index, epoch)


def _go_past(fetcher: IterableFetcher, batches: int | None, index: Any, epoch: Epoch) -> int:
    """Goes past so many batches, None: past all; returns how many there were not."""
    failures = 0
    while batches is None or batches > 0:
        try:
            fetcher.skip(index, epoch)
            failures = 0
        except Cancelled:
            raise
        except Exhausted:
            break
        except Exception:  # the loop was given it when the batch was first built
            failures += 1
            if batches is None and failures == MOST_FAILURES_IN_A_ROW:
                raise  # if all fails from here on there is no end
        if batches is not None:
            batches -= 1
    return batches or 0


class StatefulMapFetcher:
    """A fetcher of a map-style dataset that adds the dataset's state to the first batch, as it
    was before it, and to every so many after it."""

    def __init__(self, dataset: Any, fetcher: Fetcher, state: WorkerState) -> None:
        _load(dataset, "dataset", {} if state.dataset is None else {"dataset": state.dataset})
        self._dataset = dataset
        self._fetcher = fetcher
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
    if name not in states:
        return
    if not is_stateful(part):
        raise ValueError(
            f"the state holds one of the {name}'s, but the {name} ({type(part).__name__}) has no "
            "state_dict() and load_state_dict(): use the dataset that the state was saved with"
        )
    part.load_state_dict(copy.deepcopy(states[name]))
