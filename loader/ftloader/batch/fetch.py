"""Builds a batch of a map-style dataset from the sampler's indices:
``dataset[i]`` for each, then ``collate_fn``.

The contract is that of ``torch.utils.data._utils.fetch``. Added are random numbers for each sample
(``rng.sample``), the error policy (``batch.errors``), notes that name a failing sample, and checks
for a cancelled epoch.
"""

import enum
import operator
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch

from ftloader.batch.errors import SKIP, ErrorPolicy, Skipped, annotate_sample, split_skipped
from ftloader.batch.size import nbytes_of
from ftloader.compat.torch_private import pin_memory
from ftloader.current import CurrentSample, this_thread
from ftloader.diagnosis.recording import WorkerTimes
from ftloader.errors import Cancelled
from ftloader.protocols import has_getitems

_Empty = enum.Enum("_Empty", ["EMPTY"])  # an enum's member stays the same object through pickling
EMPTY: Final = _Empty.EMPTY
"""``Fetched.data`` if all samples were left out, or the worker has no batch left. Iterators do not
hand it over.
"""
# Not ``SKIP``: a dataset may return that by mistake.


# what __getitems__ returns, whose length is asked without user code
_BATCHES = (list, tuple, np.ndarray, torch.Tensor)


@dataclass(eq=False, slots=True)
class Epoch:
    """One pass over the data, with a seed, a number, and ``cancelled``, which ends the pass early.

    ``cancelled`` changes from False to True once. Any thread may set it. Workers read it without a
    lock: a worker that sees the change late only loads one more sample. An epoch refers to no
    user-supplied object.
    """

    base_seed: int = 0  # an int64, drawn by torch
    number: int = 0  # counts the iterator's epochs from 0; more than 0 only with persistent workers
    cancelled: bool = field(default=False, init=False)

    def check(self) -> None:
        """Raise ``Cancelled`` if the epoch is cancelled."""
        if self.cancelled:
            raise Cancelled


@dataclass(slots=True)
class Fetched:
    """A batch from a worker, with records of the samples left out
    of it and the state of the worker's dataset.
    """

    # the result of collate_fn; or Slots, from which the consumer makes the batch; or EMPTY
    data: Any
    skipped: tuple[Skipped, ...] = ()
    # iterable-style: state of the worker's dataset after this batch, if one is due
    state: Any = None
    # iterable-style: True if this is no batch, but the end of the worker's share
    ended: bool = False
    # The number of samples; and, unless several threads built the batch, the times that it took.
    times: WorkerTimes = field(default_factory=WorkerTimes)
    nbytes: int = 0  # of the batch: see ``batch.size``
    began: float = 0.0  # from worker processes: ``perf_counter`` when the worker began the batch

    def pin_memory(self) -> "Fetched":
        """Pin the data. torch's memory pinning thread calls this, as for any custom batch type."""
        self.data = pin_memory(self.data)
        return self


@dataclass(frozen=True, slots=True)
class BatchFailure:
    """An exception to raise in the consumer, in place of a batch."""

    exception: BaseException


Outcome = Fetched | BatchFailure  # result of building one batch


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The loader's arguments for building a batch from samples. All workers share this object."""

    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    policy: ErrorPolicy


def load_one(
    load: Callable[[Any, Any], Any],
    source: Any,
    key: Any,
    policy: Any,
    note: Callable[[BaseException, Any], None] | None = annotate_sample,
) -> Any:
    """Return ``load(source, key)``. If that raises, *policy* decides:
    raise, or return a substitute or ``Skipped``.
    """
    # *policy* has the interface of ``ErrorPolicy``: ``raises`` and ``resolve()``. *note* adds a
    # note with the sample to an error. If all errors are raised, callers may use a faster list
    # comprehension instead of this function.
    try:
        return load(source, key)
    except BaseException as error:
        if note is not None:
            note(error, key)
        if policy.raises or not isinstance(error, Exception):
            raise
        sample = policy.resolve(error, key)
        if sample is SKIP:
            return Skipped.because_of(error, key)
        return sample


class MapFetcher:
    """Builder of batches from a map-style dataset (``__getitem__``, or ``__getitems__`` if the
    dataset has it).
    """

    def __init__(self, settings: BatchSettings, dataset: Any) -> None:
        self._settings = settings
        self._dataset = dataset
        self._current = CurrentSample()

    def fetch(self, index: Any, epoch: Epoch) -> Fetched:
        """Return the batch for *index*: a list of indices or,
        without automatic batching, one index.
        """
        settings, dataset, sample_state = self._settings, self._dataset, self._current
        policy = settings.policy
        skipped: tuple[Skipped, ...] = ()
        samples: Any
        started = time.perf_counter()
        # Like sample_scope(), but cheaper: one thread uses this object at a time,
        # so it keeps its CurrentSample.
        outer, this_thread.sample = this_thread.sample, sample_state
        try:
            if not settings.auto_collation:
                epoch.check()
                sample_state.enter(epoch, index)
                samples = load_one(operator.getitem, dataset, index, policy)
            elif has_getitems(dataset):
                # A copy, since the dataset may change the list that it is given.
                sample_state.enter(epoch, tuple(index) if type(index) is list else index)
                samples = load_one(
                    lambda source, keys: source.__getitems__(keys),
                    dataset,
                    index,
                    policy,
                    note=None,
                )
            elif policy.raises:
                keys = index
                if type(index) is not list:
                    keys = list(index)
                sample_state.enter_all(epoch, keys, rest := iter(keys))
                samples = [dataset[key] for key in rest if not epoch.cancelled]
            else:
                loaded = []
                for key in index:
                    epoch.check()
                    sample_state.enter(epoch, key)
                    loaded.append(load_one(operator.getitem, dataset, key, policy))
                samples, skipped = split_skipped(loaded)
                if skipped and not samples:
                    samples = EMPTY
            if type(samples) is Skipped:
                # all of the index was loaded in one call, so all of it is left out
                samples, skipped = EMPTY, (samples,)
        except BaseException as error:
            # No key has been taken if an interruption strikes before the first.
            if sample_state.rest is not None and (
                left := operator.length_hint(sample_state.rest)
            ) < len(sample_state.key):
                annotate_sample(error, sample_state.key[-1 - left])
            raise
        finally:
            sample_state.leave()
            this_thread.sample = outer
        epoch.check()
        return collated(settings, samples, skipped, started)


def collated(
    settings: BatchSettings, samples: Any, skipped: tuple[Skipped, ...], started: float
) -> Fetched:
    """Return the batch made of *samples*, which may be EMPTY. *started*: ``perf_counter`` when
    their loading began.
    """
    if samples is EMPTY:
        return Fetched(EMPTY, skipped)
    loaded = time.perf_counter()
    number = 1
    if settings.auto_collation and type(samples) in _BATCHES:
        number = len(samples)
    data = settings.collate_fn(samples)
    times = WorkerTimes(
        loading=loaded - started, collating=time.perf_counter() - loaded, samples=number
    )
    return Fetched(data, skipped, times=times, nbytes=nbytes_of(data))
