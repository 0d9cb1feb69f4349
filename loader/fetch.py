"""From what the sampler yielded to a batch: ``dataset[i]`` and collate.

The same contract as ``torch.utils.data._utils.fetch``, with three differences that
threads need: the epoch is asked between two samples whether it is still wanted, the
end of an iterable dataset has its own exception (so a ``StopIteration`` from user
code is never mistaken for it), and a failing sample is named in its exception.
"""

import contextlib
import reprlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

# Short, and never fails whatever the index is (its own repr() may raise).
_index_repr = reprlib.Repr(maxlist=8, maxtuple=8).repr


class Cancelled(Exception):
    """The consumer has left this epoch; the batch is no longer wanted."""


class Exhausted(Exception):
    """This worker's share of an iterable dataset has ended."""


class Epoch:
    """One pass over the data, as the workers see it.

    ``cancelled`` goes from False to True once. Anyone may set it and workers read it
    without a lock: a late reader merely loads one sample too many. An epoch refers to
    nothing of the user's, so it may be held by anyone for any time.
    """

    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False

    def check(self) -> None:
        """Raises ``Cancelled`` if the epoch is no longer wanted."""
        if self.cancelled:
            raise Cancelled


class Fetcher(Protocol):
    def fetch(self, index: Any, epoch: Epoch) -> Any: ...


class MapFetcher:
    """Batches of a map-style dataset (``__getitem__``, ``__getitems__`` if there is one)."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable) -> None:
        self._dataset = dataset
        self._auto_collation = auto_collation
        self._collate_fn = collate_fn

    def fetch(self, index: Any, epoch: Epoch) -> Any:
        return self._collate_fn(self._load(index, epoch))

    def _load(self, index: Any, epoch: Epoch) -> Any:
        if not self._auto_collation:
            return self._sample(index)
        # As in torch: a dataset may switch the batched way off by setting it to None.
        if getattr(self._dataset, "__getitems__", None):
            return self._dataset.__getitems__(index)
        samples = []
        for i in index:
            epoch.check()
            samples.append(self._sample(i))
        return samples

    def _sample(self, index: Any) -> Any:
        try:
            return self._dataset[index]
        except BaseException as error:
            annotate(error, f"raised while loading dataset[{_index_repr(index)}]")
            raise


class IterableFetcher:
    """Batches of an iterable-style dataset; one instance makes one pass."""

    def __init__(
        self, dataset: Any, auto_collation: bool, collate_fn: Callable, drop_last: bool
    ) -> None:
        self._samples: Iterator = iter(dataset)
        self._auto_collation = auto_collation
        self._collate_fn = collate_fn
        self._drop_last = drop_last
        self._ended = False

    def fetch(self, index: Any, epoch: Epoch) -> Any:
        return self._collate_fn(self._load(index, epoch))

    def _load(self, index: Any, epoch: Epoch) -> Any:
        if self._ended:
            raise Exhausted
        if not self._auto_collation:
            return self._next_sample()
        samples: list = []
        for _ in index:
            epoch.check()
            try:
                samples.append(self._next_sample())
            except Exhausted:
                break
        if not samples or (self._drop_last and len(samples) < len(index)):
            raise Exhausted
        return samples

    def _next_sample(self) -> Any:
        try:
            return next(self._samples)
        except StopIteration:
            self._ended = True
            raise Exhausted from None


def annotate(error: BaseException, note: str) -> None:
    """Adds *note* to *error*, unless its class uses ``__notes__`` for something else."""
    with contextlib.suppress(TypeError):
        error.add_note(note)


def describe_index(index: Any) -> str:
    """What the sampler yielded for a batch, in a few words for a note."""
    if index is None or (isinstance(index, list) and all(i is None for i in index)):
        return "of the worker's share"  # iterable-style: there are no indices
    size = f" ({len(index)} samples)" if isinstance(index, (list, tuple)) else ""
    return f"from samples {_index_repr(index)}{size}"
