"""The batch order of one epoch of a map-style dataset:
drawn from the sampler, or rebuilt from a saved state.
"""

import copy
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, RandomSampler

from ftloader.compat.torch_private import StandIn
from ftloader.protocols import has_getitems, is_stateful
from ftloader.rng import generators
from ftloader.state import samplers
from ftloader.state.format import SavedState, state_of
from ftloader.state.progress import EpochProgress


class IndexStream:
    """Source of each batch's indices in one epoch, drawn from the sampler. An ``EpochProgress``
    records the draws.

    Only the thread inside the iterator's ``__next__`` or ``_reset`` uses this object. Other threads
    read the progress.
    """

    def __init__(self, loader: Any, resume: SavedState) -> None:
        self._index_sampler = loader._index_sampler
        # torch's own BatchSampler makes a new list for each batch; others may reuse one.
        self._copies = type(self._index_sampler) is not BatchSampler
        # A dataset that is given the whole index may change it (``indices.sort()``).
        self._change = loader.batch_size is None or has_getitems(loader.dataset)
        self._generators = samplers.OwnGenerators(loader)
        self._elastic = samplers.elastic(self._index_sampler) is not None
        samplers.check_skipping(self._index_sampler)
        # Number of batches between two states of the samplers;
        # 0: one state, at the start of the epoch.
        self._every = 1 if self._elastic else loader.snapshot_every_n_steps or 0
        self._resume = resume
        self._progress: EpochProgress  # set by report_to()
        self._batches: Iterator | None = None  # None before the first draw
        self._samples: Iterator = iter(())
        # batches that were drawn again and are not yet returned
        self._waiting: deque[Any] = deque()
        self._failure: Exception | None = None  # raised by the sampler after the waiting batches
        self._states: Mapping[str, Any] | None = None  # sampler states at the start of the epoch
        self._drawn = 0
        if not resume.mid_epoch and resume.sampler is not None:
            if self._elastic:
                self._states = resume.sampler["states"]  # loaded by _begin()
            else:
                self._load_samplers(resume.sampler)
        self.iterating()

    def _load_samplers(self, snapshot: Mapping[str, Any]) -> None:
        """Load the samplers' states in *snapshot*.

        If the snapshot's epoch has ended, also draw the batches after the snapshot. The samplers
        then have the state of the epoch's end.
        """
        states_now = self._generators.now()
        try:
            samplers.load(self._index_sampler, snapshot["states"])
            if self._resume.phase == "end":
                self._open(iter(self._index_sampler), {})
                self._load_iterator(snapshot)
                deque(self._batches, maxlen=0)  # type: ignore[arg-type]  # made by _open()
        finally:
            generators.load(states_now)
        self._batches, self._drawn = None, 0

    def iterating(self) -> None:
        """Save the generators' states, since ``iter(sampler)`` may draw. A ``BatchSampler`` does
        not: save None.
        """
        if type(self._index_sampler) is BatchSampler:
            self._at_iter = None
        else:
            self._at_iter = self._generators.save()

    def report_to(self, progress: EpochProgress) -> None:
        """Report draws to *progress* from now on.
        Call this after torch has called ``iter(sampler)``.
        """
        self._progress = progress
        if not self._resume.mid_epoch:  # else the loaded state has it
            if self._states is None:  # torch's iterator of processes starts its first epoch twice
                self._states = samplers.next_pass_states(
                    samplers.stateful_samplers(self._index_sampler)
                )
            self._report_begin(self._origin(), self._states)

    def _report_begin(self, order: Mapping[str, Any], states: Mapping[str, Any]) -> None:
        snapshots: tuple[Mapping[str, Any], ...] = ()
        if states:
            snapshots = ({"drawn": self._drawn, "states": states},)
        self._progress.snapshots = snapshots
        self._progress.order = order

    def _origin(self) -> dict[str, Any]:
        """Return the values from which the batch order can be rebuilt.
        Call this before the first draw.
        """
        generators = self._generators.save()
        order: dict[str, Any] = {
            "generators": generators,
            "epochs": samplers.epochs(self._index_sampler),
        }
        order["ranks"] = samplers.ranks(self._index_sampler)
        if self._at_iter not in (None, generators):
            order["generators_at_iter"] = self._at_iter
        return order

    def next(self, torchs: Iterator) -> Any:
        """Return the indices of the next batch. *torchs* is the iterator
        that torch has made from the sampler.
        """
        if self._batches is None:
            self._batches = iter(())  # if the next steps fail, the sampler counts as ended
            self._progress.drawing = True
            if self._resume.mid_epoch:
                self._find_again(self._resume)
            else:
                self._begin(torchs)
        if self._waiting:
            return self._waiting.popleft()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return self._draw()

    def _begin(self, torchs: Iterator) -> None:
        sampler = samplers.innermost(self._index_sampler)
        order: dict[str, Any] = self._origin()
        if samplers.draws_from_default(sampler):
            if type(sampler) is RandomSampler and sampler.generator is None:
                # Drawn as the sampler would draw it in its first step. Reading the default
                # generator's state instead would be wrong if another thread drew in between.
                order["seed"] = int(torch.empty((), dtype=torch.int64).random_().item())
            else:
                order["default"] = generators.save(torch.default_generator)
        if self._elastic and self._resume.sampler is not None:
            # Only now: torch may have called iter(sampler) twice, and the first call uses up an
            # empty rest of an epoch.
            samplers.load(self._index_sampler, self._resume.sampler["states"])
            torchs = iter(self._index_sampler)
        self._open(torchs, {"seed": order["seed"]} if "seed" in order else {})
        states = self._states or {}
        if is_stateful(self._samples):
            states = {**states, samplers.ITERATOR: state_of(self._samples)}
        self._states = None
        self._report_begin(order, states)

    def _open(self, torchs: Iterator, order: Mapping[str, Any]) -> None:
        """Make the iterators ``_samples`` (of indices) and ``_batches`` (of lists of indices).

        If *order* has a seed or a state of the default generator, the indices come from a copy of
        the sampler. The copy has a generator of its own with this seed or state.
        """
        outer = self._index_sampler
        sampler = samplers.innermost(outer)
        has_generators = "seed" in order or "default" in order
        if has_generators:
            sampler = copy.copy(sampler)
            sampler.generator = torch.Generator()
            if "seed" in order:
                sampler.generator.manual_seed(order["seed"])
            else:
                generators.load([(sampler.generator, order["default"])])
        if type(outer) is BatchSampler:
            self._samples = iter(sampler)
            self._batches = BatchSampler.__iter__(StandIn(outer, sampler=self._samples))
        elif has_generators:
            self._samples = self._batches = iter(sampler)
        else:
            self._samples = self._batches = torchs

    def _load_iterator(self, snapshot: Mapping[str, Any]) -> None:
        self._drawn = snapshot["drawn"]
        if samplers.ITERATOR in snapshot["states"]:
            if not is_stateful(self._samples):
                raise samplers.lacking(samplers.ITERATOR)
            self._samples.load_state_dict(copy.deepcopy(snapshot["states"][samplers.ITERATOR]))  # type: ignore[attr-defined]

    def _find_again(self, resume: SavedState) -> None:
        """Rebuild the batch order saved in *resume*:
        draw again the batches that the saved run had drawn.
        """
        order, left = resume.order, None
        samplers.set_epochs(self._index_sampler, order["epochs"], distributed=True)
        nothing = resume.drawn == 0 and not resume.ended
        states_now = self._generators.now()
        try:
            self._generators.load(order.get("generators_at_iter", order["generators"]))
            if resume.sampler is not None:
                # Before their iterators are made, which start where the samplers stand.
                samplers.load(self._index_sampler, resume.sampler["states"])
                self._states = resume.sampler["states"]
            self.iterating()
            torchs = iter(self._index_sampler)
            if not nothing:
                if resume.sampler is None:
                    self._generators.load(order["generators"])
                self._open(torchs, order)
                if resume.sampler is not None:
                    self._load_iterator(resume.sampler)
                ended, last = self._draw_again(resume)
                if resume.generators is None:  # the saved state lacks the generators' states
                    left = self._generators.save()
        finally:
            generators.load(states_now)
        if nothing:
            # the order starts from the generators as they are now, if the saved state knew them
            if resume.generators is None:
                self._generators.load(order["generators"])
            self._begin(torchs)
            return
        if left is not None:
            self._generators.load(left)
        self._progress.drawn = self._drawn, *last
        self._progress.ended = ended
        self._progress.drawing = False

    def _draw_again(self, resume: SavedState) -> tuple[bool, tuple[int, Any]]:
        """Draw the saved batches again. Return (True if the sampler ended,
        (number, indices) of the last batch).
        """
        last: tuple[int, Any] = (-1, None)
        while resume.ended or self._drawn < resume.drawn:
            try:
                last = number, index = self._drawn, self._step()
            except StopIteration:
                if self._drawn < resume.handed_over or self._drawn <= resume.last_batch:
                    raise ValueError(
                        f"the sampler ended after {self._drawn} batches, but had given more when "
                        "the state was made: was it saved with another dataset or sampler?"
                    ) from None
                self._batches = iter(())
                return True, last
            except Exception as error:
                if self._drawn <= resume.handed_over:
                    continue  # the training loop got this exception before, and went on
                self._failure = error
                return False, last
            if resume.last is not None and number == resume.last["batch"]:
                _check_order(index, resume.last)
            if number >= resume.handed_over and number not in resume.ahead:
                self._waiting.append(_copied(index))
        return False, last

    def _step(self) -> Any:
        """Draw the next batch's indices, which the caller must not change.
        If due, also save the samplers' states.
        """
        try:
            index = next(self._batches)  # type: ignore[arg-type]  # made by _open()
        except Exception as error:
            # the iterator counts a failure as a batch
            self._drawn += not isinstance(error, StopIteration)
            raise
        self._drawn += 1
        if self._every and self._drawn % self._every == 0:
            self._save_samplers()
        # The sampler may reuse its object for the next batch while this one is still on its way to
        # a worker thread, or in a queue that pickles it later.
        if self._copies:
            return _copied(index)
        return index

    def _save_samplers(self) -> None:
        """Add the samplers' present states to the progress."""
        parts = samplers.stateful_samplers(self._index_sampler)
        if is_stateful(self._samples):
            parts[samplers.ITERATOR] = self._samples
        if parts:
            states = {name: state_of(part) for name, part in parts.items()}
            snapshot = {"drawn": self._drawn, "states": states}
            self._progress.snapshots = (*self._progress.snapshots, snapshot)

    def _draw(self) -> Any:
        """Draw the indices of the next batch, record the draw in the progress,
        and return the indices.
        """
        progress = self._progress
        progress.drawing = True
        try:
            index = recorded = self._step()
            if self._change:
                recorded = _copied(index)
            progress.drawn = self._drawn, self._drawn - 1, recorded
            return index
        except StopIteration:
            progress.ended = True
            raise
        except Exception:
            progress.drawn = self._drawn, *progress.drawn[1:]
            raise
        finally:
            progress.drawing = False


def _copied(index: Any) -> Any:
    """Return a copy of *index*, or *index* itself if its type is immutable."""
    if type(index) in (list, np.ndarray):
        return index.copy()
    if type(index) is torch.Tensor:
        return index.clone()
    return index


def _check_order(index: Any, last: Mapping[str, Any]) -> None:
    """Compare *index*, a batch drawn again, with the saved digest in *last*. Raise ``ValueError``
    if they differ.
    """
    if last["digest"] is not None and samplers.digest(index) != last["digest"]:
        raise ValueError(
            "the sampler does not give the order again that the state is from: batch "
            f"{last['batch']} consists of other samples. Was the state saved with another dataset, "
            "sampler or seed? If the sampler draws from the program's generators (torch's, "
            "NumPy's, Python's), give it a generator of its own. If it draws as it yields, give it "
            "state_dict() and load_state_dict(); if its state changes during the epoch, also give "
            "the DataLoader snapshot_every_n_steps=1"
        )
