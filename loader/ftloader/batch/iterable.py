"""Fetching from an iterable-style dataset, and from a map-style one in a process, with the state of it.

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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import GeneratorType
from typing import Any

from ftloader.batch.errors import MOST_FAILURES_IN_A_ROW, SKIP, Skipped, annotate
from ftloader.batch.fetch import EMPTY, Cancelled, Epoch, Fetched, MapFetcher, Recipe
from ftloader.current import enter_sample, sample_scope
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


class Exhausted(Exception):
    """This worker's share of an iterable-style dataset has ended: not to be mistaken for a ``StopIteration`` of user
    code."""


class IterableFetcher:
    """Batches of an iterable-style dataset; one instance makes one pass, begins where *state* says and takes snapshots.
    Owned by the one worker that uses it.

    Raises ``ValueError`` if the dataset has no ``load_state_dict()`` for the state, and what the dataset raises.
    """

    def __init__(self, recipe: Recipe, dataset: Any, worker_id: int, state: WorkerState) -> None:
        self._recipe, self._policy = recipe, recipe.policy
        self._dataset = dataset
        self._worker_id = worker_id
        self._every = state.every or 1
        self._lives_on = state.lives_on
        share = state.share or begun()
        self._batches = share["batches"]
        self._behind = share["batches"] - (share["snapshot_at"] or 0)
        self._after = share["after"]
        snapshot = share["snapshot"] or {"states": {}, "position": 0}
        _load(dataset, "dataset", snapshot["states"])
        if self._after and share["snapshot"] is not None:
            iter(dataset)
        self._iterator: Iterator = iter(dataset)
        _load(self._iterator, "iterator", snapshot["states"])
        self._position = snapshot["position"]
        """How many samples were asked of the iterator."""
        self._failures_in_a_row = 0
        self._ended = False
        """Whether the iterator has none left."""
        parts: dict[str, Any] = {"iterator": self._iterator}
        if dataset is not self._iterator:
            parts["dataset"] = dataset
        self._parts = {name: part for name, part in parts.items() if is_stateful(part)}

    def fetch(self, index: Any, epoch: Epoch) -> Fetched:
        """The next batch, of ``len(index)`` samples with automatic batching, else of one.

        Raises ``Cancelled``, what the dataset or collate_fn raises, and ``ValueError`` if the share is shorter than
        what of it has been handed over.
        """
        behind, self._behind = self._behind, 0
        for missing in range(behind, 0, -1):
            try:
                self._samples(index, epoch, [])
            except Cancelled:
                raise
            except Exhausted:
                raise ValueError(
                    f"the dataset ended {missing} batches before the point that the state is from: "
                    "was the state saved with another dataset?"
                ) from None
            except Exception:  # the loop was given it when the batch was first built
                continue
        skipped: list[Skipped] = []
        try:
            samples = self._samples(index, epoch, skipped)
        except Exhausted:
            fetched = Fetched(EMPTY, tuple(skipped), ended=True)
        else:
            fetched = Fetched(EMPTY if samples is EMPTY else self._recipe.collate_fn(samples), tuple(skipped))
        if fetched.ended:
            if self._after and not self._position:
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
        if self._parts and due and not self._ended:
            fetched.state = {
                "states": {name: state_of(part) for name, part in self._parts.items()},
                "position": self._position,
            }
        return fetched

    def _samples(self, index: Any, epoch: Epoch, skipped: list[Skipped]) -> Any:
        """Those of the next batch. Raises ``Exhausted`` at the end."""
        if self._ended:
            raise Exhausted
        with sample_scope():
            if not self._recipe.auto_collation:
                return self._next_sample(epoch, skipped)
            samples: list = []
            while len(samples) < len(index):
                epoch.check()
                try:
                    sample = self._next_sample(epoch, skipped)
                except Exhausted:
                    break
                if sample is not EMPTY:
                    samples.append(sample)
        if not samples or (self._recipe.drop_last and len(samples) < len(index)):
            raise Exhausted
        return samples

    def _next_sample(self, epoch: Epoch, skipped: list[Skipped]) -> Any:
        key = (self._worker_id, self._position)
        enter_sample(epoch, key)
        try:
            sample = next(self._iterator)
        except StopIteration:
            self._ended = True
            raise Exhausted from None
        except BaseException as error:
            annotate(error, f"raised by the dataset's iterator, asked for its sample {key[1]}")
            if self._policy.raises or not isinstance(error, Exception):
                raise
            self._position += 1
            return self._after_failure(error, key, skipped)
        self._failures_in_a_row = 0
        self._position += 1
        return sample

    def _after_failure(self, error: Exception, key: Any, skipped: list[Skipped]) -> Any:
        self._failures_in_a_row += 1
        if self._failures_in_a_row >= MOST_FAILURES_IN_A_ROW:
            self._ended = True
            raise RuntimeError(
                f"the dataset's iterator raised {self._failures_in_a_row} times in a row, the "
                f"last time {type(error).__name__}: {error}; on_error goes on no longer"
            ) from error
        sample = self._policy.resolve(error, key)
        # A generator has ended with its exception, so no policy can keep what came after.
        ended = isinstance(self._iterator, GeneratorType) and self._iterator.gi_frame is None
        if sample is SKIP or ended:
            skipped.append(Skipped.because_of(error, key, with_the_rest=ended))
        return EMPTY if sample is SKIP else sample


class StatefulMapFetcher(MapFetcher):
    """Adds the dataset's state to the first batch, as it was before it, and to every so many after it."""

    def __init__(self, recipe: Recipe, dataset: Any, state: WorkerState) -> None:
        _load(dataset, "dataset", {} if state.dataset is None else {"dataset": state.dataset})
        super().__init__(recipe, dataset)
        self._every = state.every
        self._batches = 0
        self._due = dataset_state(dataset) if self._every != 1 else None

    def fetch(self, index: Any, epoch: Epoch) -> Fetched:
        fetched = super().fetch(index, epoch)
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
