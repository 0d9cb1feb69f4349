"""The state of an iterable-style dataset in a worker, and of a map-style one in a process.

An iterable-style dataset shares itself out among the workers, and each worker goes through
its share in its own order. So a state of it is one state per worker: how many batches of
the share have been handed over and, if the dataset or its iterator has ``state_dict()`` and
``load_state_dict()``, a snapshot of those from ``snapshot_every_n_steps`` batches of this
worker ago at most. A resumed worker loads the snapshot (else it begins at the begin) and
goes past the batches since, which loads their samples and collates nothing.

As in torchdata the state of the dataset is loaded before ``iter(dataset)`` is called, that
of the iterator after it; of a dataset that is its own iterator only the latter is used.

What is here runs where the worker runs: in the process, or in the thread, which owns its
copy of an iterable-style dataset. The snapshots travel with the batches (``Fetched.state``).
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from loader.fetch import Cancelled, Epoch, Exhausted, Fetched, Fetcher, IterableFetcher
from loader.state.format import is_stateful


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What one worker of a resumed iterator begins with. Picklable as the states are."""

    share: Mapping[str, Any] | None = None
    """Iterable-style: the worker's part of ``workers`` of the state."""
    dataset: Any = None
    """Map-style: the state of the dataset in this worker, or None."""
    every: int | None = 1
    """``snapshot_every_n_steps``."""


class StatefulIterableFetcher:
    """An ``IterableFetcher`` that begins where *state* says and takes snapshots.

    Args:
        make: makes the fetcher, which calls ``iter(dataset)``.

    Raises ``ValueError`` if the dataset has no ``load_state_dict()`` for the state.
    """

    def __init__(
        self, dataset: Any, make: Callable[[], IterableFetcher], state: WorkerState
    ) -> None:
        share = state.share or {"batches": 0, "snapshot": None, "snapshot_at": 0}
        snapshot = share["snapshot"] or {"states": {}}
        _load(dataset, "dataset", snapshot["states"])
        self._fetcher = make()
        _load(self._fetcher.iterator, "iterator", snapshot["states"])
        if share["snapshot"] is not None:
            self._fetcher.position = snapshot["position"]
            self._fetcher.ended = snapshot["ended"]
        self._batches = share["snapshot_at"]
        self._behind = share["batches"] - share["snapshot_at"]
        self._every = state.every
        self._parts = {
            name: part
            for name, part in (("dataset", dataset), ("iterator", self._fetcher.iterator))
            if is_stateful(part)
        }
        if len(self._parts) == 2 and dataset is self._fetcher.iterator:
            del self._parts["dataset"]

    def fetch(self, index: Any, epoch: Epoch) -> Fetched:
        """As the fetcher's. Raises ``ValueError`` also if the share is shorter than what of
        it has been handed over."""
        while self._behind:
            self._pass_one(index, epoch)
        fetched = self._fetcher.fetch(index, epoch)
        self._batches += 1
        if self._parts and self._every and self._batches % self._every == 0:
            fetched.state = {
                # Copies, since a state may be the dataset's own dictionary.
                "states": {k: copy.deepcopy(p.state_dict()) for k, p in self._parts.items()},
                "position": self._fetcher.position,
                "ended": self._fetcher.ended,
            }
        return fetched

    def _pass_one(self, index: Any, epoch: Epoch) -> None:
        try:
            self._fetcher.skip(index, epoch)
        except Cancelled:
            raise
        except Exhausted:
            missing, self._behind = self._behind, 0
            raise ValueError(
                f"the dataset ended {missing} batches before the point that the state is from: "
                "was the state saved with another dataset?"
            ) from None
        except Exception:
            pass  # the loop was given this exception when the batch was first built
        self._behind -= 1
        self._batches += 1


class StatefulMapFetcher:
    """A fetcher of a map-style dataset that adds the dataset's state to each batch."""

    def __init__(self, dataset: Any, fetcher: Fetcher, state: WorkerState) -> None:
        _load(dataset, "dataset", {} if state.dataset is None else {"dataset": state.dataset})
        self._dataset = dataset
        self._fetcher = fetcher

    def fetch(self, index: Any, epoch: Epoch) -> Fetched:
        fetched = self._fetcher.fetch(index, epoch)
        if is_stateful(self._dataset):
            fetched.state = copy.deepcopy(self._dataset.state_dict())
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
