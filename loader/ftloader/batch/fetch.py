"""From what the sampler yielded to a batch: ``dataset[i]`` and collate.

The same contract as ``torch.utils.data._utils.fetch``, with what all three kinds of iterators (serial, threads,
processes) add to it: random numbers of the sample (``rng.sample``), the error policy (``batch.errors``), a
note that names the failing sample, and the question, between two samples, whether the epoch is still wanted. Here is
what they have in common, and map-style datasets; iterable-style ones are fetched in ``ftloader.batch.iterable``.
"""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from torch.utils.data import StackDataset, Subset

from ftloader.batch.errors import SKIP, ErrorPolicy, Skipped, annotate_sample
from ftloader.compat.torch_private import pin_memory
from ftloader.current import CurrentSample, enter_sample, this_thread


class _Empty(enum.Enum):
    """One member, which stays the same object through pickling."""

    EMPTY = "empty"


EMPTY: Final = _Empty.EMPTY
"""In place of a sample that was skipped, and of the data of a batch all of whose samples were; iterators go on to the
next. (A dataset may give ``SKIP`` by mistake, which is for ``on_error``.)"""


class Cancelled(Exception):
    """The consumer has left this epoch; the batch is no longer wanted."""


@dataclass(eq=False, slots=True)
class Epoch:
    """One pass over the data, as the workers see it.

    ``cancelled`` goes from False to True once. Anyone may set it and workers read it without a lock: a late reader
    merely loads one sample too many. An epoch refers to nothing of the user's, so it may be held by anyone for any
    time.

    Args:
        base_seed: the iterator's, as torch draws it (an int64).
        number: which of the iterator's epochs this is, from 0; more than one with persistent workers only.
    """

    base_seed: int = 0
    number: int = 0
    cancelled: bool = field(default=False, init=False)

    def check(self) -> None:
        """Raises ``Cancelled`` if the epoch is no longer wanted."""
        if self.cancelled:
            raise Cancelled


@dataclass(slots=True)
class Fetched:
    """A batch and what came about on the way to it."""

    data: Any
    """What ``collate_fn`` made, or ``EMPTY``."""
    skipped: tuple[Skipped, ...] = ()
    state: Any = None
    """Iterable-style: where the worker stands after this batch, if somebody asked."""
    ended: bool = False
    """Iterable-style: no batch at all, but the end of the worker's share."""

    def pin_memory(self) -> "Fetched":
        """Called by torch's memory pinning thread, as for any custom batch type."""
        self.data = pin_memory(self.data)
        return self


class Fetcher(Protocol):
    def fetch(self, index: Any, epoch: Epoch) -> Fetched: ...


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a loader makes batches of samples; shared by its workers."""

    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    policy: ErrorPolicy


class MapFetcher:
    """Batches of a map-style dataset (``__getitem__``, ``__getitems__`` if there is one)."""

    def __init__(self, recipe: Recipe, dataset: Any) -> None:
        self._recipe, self._policy = recipe, recipe.policy
        self._dataset = dataset
        self._loading = CurrentSample()

    def fetch(self, index: Any, epoch: Epoch) -> Fetched:
        """The batch for *index*, which is a list of indices with automatic batching.

        Raises ``Cancelled``, or whatever the dataset or collate_fn raises.
        """
        skipped: list[Skipped] = []
        here, dataset = self._loading, self._dataset
        # As sample_scope, for less: this object is used by one thread at a time.
        outer, this_thread.sample = this_thread.sample, here
        try:
            if not self._recipe.auto_collation:
                samples = load_sample(dataset, index, epoch, self._policy, skipped)
            elif has_getitems(dataset):
                samples = self._load_at_once(index, epoch, skipped)
            elif self._policy.raises:
                keys = index if type(index) is list else list(index)
                here.enter_all(epoch, keys, rest := iter(keys))
                samples = [dataset[key] for key in rest if not epoch.cancelled]
            else:
                loaded = (load_sample(dataset, key, epoch, self._policy, skipped) for key in index)
                samples = [sample for sample in loaded if sample is not EMPTY]
        except BaseException as error:
            # No key has been taken if an interruption strikes before the first.
            if taken := here.taken():
                annotate_sample(error, here.key[taken - 1])
            raise
        finally:
            here.leave()
            this_thread.sample = outer
        epoch.check()
        if skipped and (samples is EMPTY or not len(samples)):
            return Fetched(EMPTY, tuple(skipped))
        return Fetched(self._recipe.collate_fn(samples), tuple(skipped))

    def _load_at_once(self, index: Any, epoch: Epoch, skipped: list[Skipped]) -> Any:
        enter_sample(epoch, tuple(index) if type(index) is list else index)  # which the dataset may change
        try:
            return self._dataset.__getitems__(index)
        except Exception as error:
            if self._policy.raises:
                raise
            # The dataset builds batches only: they are skipped whole.
            substitute = self._policy.resolve(error, index)
            if substitute is SKIP:
                skipped.append(Skipped.because_of(error, index))
                return []
            return substitute


def has_getitems(dataset: Any) -> bool:
    """Whether a map-style dataset loads batches at once. As in torch it may switch that off by setting ``__getitems__``
    to None.

    torch's own wrappers have ``__getitems__`` only to pass it on: they load batches at once if what they wrap does. (A
    subclass that overrides ``__getitem__`` alone is asked for batches, as torch does, which ignores the override.)
    """
    if not getattr(dataset, "__getitems__", None):
        return False
    own: Any = type(dataset)
    for wrapper, wrapped in _WRAPPERS.items():
        if (
            issubclass(own, wrapper)
            and "__getitems__" not in vars(dataset)
            and own.__getitems__ is wrapper.__getitems__
            and own.__getitem__ is wrapper.__getitem__
        ):
            return any(map(has_getitems, wrapped(dataset)))
    return True


_WRAPPERS: Final[dict[Any, Callable[[Any], Iterable]]] = {
    Subset: lambda dataset: [dataset.dataset],  # random_split's too
    StackDataset: lambda dataset: dataset.datasets.values() if isinstance(dataset.datasets, dict) else dataset.datasets,
}


def load_sample(dataset: Any, index: Any, epoch: Epoch, policy: ErrorPolicy, skipped: list[Skipped]) -> Any:
    """``dataset[index]`` with its random numbers and the error policy; EMPTY if skipped."""
    epoch.check()
    enter_sample(epoch, index)
    try:
        return dataset[index]
    except BaseException as error:
        annotate_sample(error, index)
        if policy.raises or not isinstance(error, Exception):
            raise
        substitute = policy.resolve(error, index)
        if substitute is not SKIP:
            return substitute
        skipped.append(Skipped.because_of(error, index))
        return EMPTY
