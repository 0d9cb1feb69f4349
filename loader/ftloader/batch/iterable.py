"""Fetchers (builders of batches) for datasets whose state is saved:
iterable-style, or map-style in processes.

To resume, a fetcher does as torchdata does: it loads the dataset's state, calls ``iter(dataset)``,
then loads the iterator's state. If the dataset is its own iterator, its state from the middle of an
epoch is loaded after ``iter()``. New states travel to the consumer with the batches
(``Fetched.state``). ``state.format`` describes the states.
"""

import copy
import time
from collections.abc import Iterator, Mapping
from types import GeneratorType
from typing import Any

from ftloader.batch.errors import MOST_FAILURES_IN_A_ROW, SKIP, Skipped
from ftloader.batch.fetch import (
    EMPTY,
    BatchSettings,
    Epoch,
    Fetched,
    MapFetcher,
    collated,
    load_one,
)
from ftloader.current import enter_sample, sample_scope
from ftloader.diagnosis.exceptions import annotate, text_of
from ftloader.errors import Cancelled, Exhausted
from ftloader.protocols import is_stateful
from ftloader.state.format import (
    FailedState,
    WorkerState,
    dataset_state,
    fresh_share,
    require_stateful,
    state_of,
)


class IterableFetcher:
    """Builder of batches for one worker and one pass over an iterable-style dataset. The pass
    starts at *state*.
    """

    def __init__(
        self, settings: BatchSettings, dataset: Any, worker_id: int, state: WorkerState
    ) -> None:
        self._settings = settings
        self._dataset = dataset
        self._worker_id = worker_id
        self._every = state.every or 1
        self._lives_on = state.lives_on
        share = state.share or fresh_share()
        self._batches = share["batches"]
        self._behind = share["batches"] - (share["snapshot_at"] or 0)
        self._after = share["after"]
        snapshot = share["snapshot"] or {"states": {}, "position": 0}
        _load(dataset, "dataset", snapshot["states"])
        if self._after and share["snapshot"] is not None:
            iter(dataset)  # for the pass that has ended: see state.format
        self._iterator: Iterator = iter(dataset)
        _load(self._iterator, "iterator", snapshot["states"])
        self._position = snapshot["position"]  # number of samples that the iterator was asked for
        self._skipped: list[Skipped] = []  # left out of the batch that is being built
        self._failures_in_a_row = 0
        self._ended = False  # True once the iterator has no samples left
        self.raises = settings.policy.raises
        parts: dict[str, Any] = {"iterator": self._iterator}
        if dataset is not self._iterator:
            parts["dataset"] = dataset
        self._parts = {name: part for name, part in parts.items() if is_stateful(part)}

    def fetch(self, index: Any, epoch: Epoch) -> Fetched:
        """Return the next batch: ``len(index)`` samples or,
        without automatic batching, one sample.
        """
        self._catch_up(index, epoch)
        self._skipped = []
        started = time.perf_counter()
        try:
            samples = self._samples(index, epoch)
        except Exhausted:
            return self._end()
        fetched = collated(self._settings, samples, tuple(self._skipped), started)
        self._batches += 1
        self._after = 0
        # After the first batch too: without it the state
        # at the start of the epoch may not be known.
        due = self._batches == 1 or self._batches % self._every == 0
        if self._parts and due and not self._ended:
            fetched.state = {
                "states": {name: state_of(part) for name, part in self._parts.items()},
                "position": self._position,
            }
        return fetched

    def _catch_up(self, index: Any, epoch: Epoch) -> None:
        """Load and drop the batches that the saved run handed over after its snapshot,
        to reach the saved position.
        """
        behind, self._behind = self._behind, 0
        for missing in range(behind, 0, -1):
            try:
                self._samples(index, epoch)
            except Cancelled:
                raise
            except Exhausted:
                raise ValueError(
                    f"the dataset ended {missing} batches before the point that the state is from: "
                    "was the state saved with another dataset?"
                ) from None
            except Exception:  # already raised in the training loop, when the batch was first built
                continue

    def _end(self) -> Fetched:
        if self._after and not self._position:
            raise ValueError(
                "the dataset gave no sample after the state was loaded that it had at the end of a "
                f"pass: let {type(self._dataset).__name__}.state_dict() say there where the next "
                "pass begins, or save the loader's state within an epoch"
            )
        state = None
        if self._lives_on:
            state = dataset_state(self._dataset)
        return Fetched(EMPTY, tuple(self._skipped), state, ended=True)

    def _samples(self, index: Any, epoch: Epoch) -> Any:
        """Return the samples of the next batch. Raise ``Exhausted`` at the end of the share."""
        if self._ended:
            raise Exhausted
        with sample_scope():
            if not self._settings.auto_collation:
                return self._next_sample(epoch)
            samples: list = []
            while len(samples) < len(index):
                epoch.check()
                try:
                    sample = self._next_sample(epoch)
                except Exhausted:
                    break
                if sample is not EMPTY:
                    samples.append(sample)
        if not samples or (self._settings.drop_last and len(samples) < len(index)):
            raise Exhausted
        return samples

    def _next_sample(self, epoch: Epoch) -> Any:
        """Return the next sample, or EMPTY if ``on_error`` left it out. Raise ``Exhausted`` at the
        end of the share.
        """
        key = (self._worker_id, self._position)
        enter_sample(epoch, key)
        failures = self._failures_in_a_row
        # At the end next() returns its second argument: the key,
        # a new object that no dataset can have.
        sample = load_one(next, self._iterator, key, self, _annotate_position)
        if sample is key:
            self._ended = True
            raise Exhausted
        self._position = key[1] + 1
        if self._failures_in_a_row == failures:
            self._failures_in_a_row = 0
        return sample

    def resolve(self, error: Exception, key: Any) -> Any:
        """Return a sample in place of the failed one,
        or EMPTY to leave it out. See ``ErrorPolicy.resolve``.
        """
        self._position += 1
        self._failures_in_a_row += 1
        if self._failures_in_a_row >= MOST_FAILURES_IN_A_ROW:
            self._ended = True
            raise RuntimeError(
                f"the dataset's iterator raised {self._failures_in_a_row} times in a row, the "
                f"last time {text_of(error)}; on_error goes on no longer"
            ) from error
        sample = self._settings.policy.resolve(error, key)
        # A generator has ended with its exception, so no policy can keep the samples after it.
        ended = type(self._iterator) is GeneratorType and self._iterator.gi_frame is None
        if sample is SKIP or ended:
            self._skipped.append(Skipped.because_of(error, key, with_the_rest=ended))
        if sample is SKIP:
            return EMPTY
        return sample


def _annotate_position(error: BaseException, key: tuple[int, int]) -> None:
    annotate(error, f"raised by the dataset's iterator, asked for its sample {key[1]}")


class StatefulMapFetcher(MapFetcher):
    """Builder of batches from a worker's own map-style dataset.
    Some batches carry the dataset's state.

    With ``snapshot_every_n_steps=N``, every N-th batch carries the state that the dataset has after
    this batch. The first batch carries the state that the dataset had at the start, unless N is 1.
    """

    def __init__(self, settings: BatchSettings, dataset: Any, state: WorkerState) -> None:
        if state.dataset is not None:
            _load(dataset, "dataset", {"dataset": state.dataset})
        super().__init__(settings, dataset)
        self._every = state.every
        self._batches = 0
        self._due = None
        if self._every != 1:
            self._due = dataset_state(dataset)

    def fetch(self, index: Any, epoch: Epoch) -> Fetched:
        fetched = super().fetch(index, epoch)
        self._batches += 1
        if self._every and self._batches % self._every == 0:
            self._due = dataset_state(self._dataset)
        fetched.state, self._due = self._due, None
        return fetched


Fetcher = MapFetcher | IterableFetcher  # builder of batches from one dataset, used by one worker


def _load(part: Any, name: str, states: Mapping[str, Any]) -> None:
    # A part whose state could not be taken stays as it is.
    if name not in states or type(states[name]) is FailedState:
        return
    require_stateful(part, name)
    part.load_state_dict(copy.deepcopy(states[name]))
