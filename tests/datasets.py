"""Datasets, samplers and generators that tests of several folders share.
All of them can be pickled.
"""

import threading
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def my_share() -> tuple[int, int]:
    """Return the worker's number and the number of workers; (0, 1) without workers."""
    info = get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


class Rows(Dataset):
    """Map-style dataset: ``self[i] == make(i)``, or i without *make*."""

    def __init__(self, size: int = 20, make: Callable[[Any], Any] | None = None) -> None:
        self.size, self.make = size, make

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        return index if self.make is None else self.make(index)


class Batches(Rows):
    """Rows that load a batch at a time."""

    def __getitems__(self, indices: Any) -> Any:
        return [self[i] for i in indices]


class Failing(Rows):
    """Rows that raise *error*, or what *error* makes of the index, for the indices *at*."""

    def __init__(
        self,
        error: Any,
        size: int = 20,
        at: Container[int] = (7,),
        make: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(size, make)
        self.error, self.at = error, at

    def __getitem__(self, index: Any) -> Any:
        if index in self.at:
            self.explode(index)
        return super().__getitem__(index)

    def explode(self, index: Any) -> None:
        raise self.error if isinstance(self.error, BaseException) else self.error(index)


class FailingBatches(Failing):
    """Rows that load a batch at a time, and fail for the batch."""

    __getitems__ = Batches.__getitems__


class Gated(Rows):
    """Rows whose sample *at* is not loaded before *gate* is set."""

    def __init__(self, gate: Any = None, size: int = 20, at: int = 0) -> None:
        super().__init__(size)
        self.gate, self.at = gate or threading.Event(), at

    def __getitem__(self, index: Any) -> Any:
        if index == self.at:
            assert self.gate.wait(60)
        return index


class Stream(IterableDataset):
    """Iterable-style dataset: ``make(i)`` for each i below *size*, shared out among the workers."""

    def __init__(self, size: int = 20, make: Callable[[int], Any] | None = None) -> None:
        self.size, self.make = size, make

    def __iter__(self) -> Iterator[Any]:
        worker, workers = my_share()
        numbers = range(worker, self.size, workers)
        return iter(numbers) if self.make is None else map(self.make, numbers)


class Whole(IterableDataset):
    """Iterable-style dataset that gives all *samples* in every worker."""

    def __init__(self, samples: Iterable[Any]) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[Any]:
        return iter(self.samples)


class Shares(IterableDataset):
    """Iterable-style dataset: worker w gives [w, 0], [w, 1], ... as often as ``sizes[w]`` says."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes

    def __iter__(self) -> Iterator[list[int]]:
        worker, _ = my_share()
        return ([worker, i] for i in range(self.sizes[worker]))


class FailingStream(IterableDataset):
    """The numbers below *size* in every worker; raises *error* in place of those in *at*, and goes
    on after it.
    """

    def __init__(self, error: type[Exception], size: int = 20, at: Container[int] = (7,)) -> None:
        self.error, self.size, self.at = error, size, at

    def __iter__(self) -> Iterator[int]:
        return _Steps(self)


class _Steps:
    """Iterator that goes on after an exception, as a generator cannot."""

    def __init__(self, stream: FailingStream) -> None:
        self.stream, self.position = stream, -1

    def __iter__(self) -> "_Steps":
        return self

    def __next__(self) -> int:
        self.position += 1
        if self.position in self.stream.at:
            raise self.stream.error(f"bad {self.position}")
        if self.position >= self.stream.size:
            raise StopIteration
        return self.position


class FailingSampler:
    """Yields the numbers below *after*, then raises *error*."""

    def __init__(self, error: BaseException, after: int) -> None:
        self.error, self.after = error, after

    def __iter__(self) -> Iterator[int]:
        yield from range(self.after)
        raise self.error


class ReusedList:
    """Batch sampler that yields the same list each time, with other indices."""

    def __init__(self, size: int = 40, batch_size: int = 5) -> None:
        self.size, self.batch_size = size, batch_size

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for start in range(0, self.size, self.batch_size):
            batch[:] = range(start, start + self.batch_size)
            yield batch

    def __len__(self) -> int:
        return self.size // self.batch_size
