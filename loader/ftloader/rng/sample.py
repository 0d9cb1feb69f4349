"""Random numbers that belong to the sample: ``sample_rng()``.

A dataset that draws from torch's, NumPy's or Python's global generators gets numbers that depend on which worker loads
a sample and when. ``sample_rng()`` gives the sample being loaded its own generators, seeded from

    BLAKE2b(base seed of the iterator, number of its epoch, key of the sample)

so the same augmentations come out with 0, 1 or N workers, threads or processes, in any order of completion. The key is
what the sampler yielded for the sample; for iterable-style datasets it is the worker's id and the position in its
share.

The fetchers say which sample a thread is in (``Loading``). That costs a few stores per sample: nothing is hashed or
created before ``sample_rng()`` is called. Each thread has its own, which no other ever sees; hence no lock.
"""

import hashlib
import operator
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
import torch

from ftloader import fork
from ftloader.rng.canonical import canonical_bytes
from ftloader.rng.torch_generator import make_torch_generator


class SeededEpoch(Protocol):
    """What is needed of an epoch: torch's base seed and which epoch of the iterator it is."""

    base_seed: int
    number: int


class GlobalRandomWarning(UserWarning):
    """The samples of a loader use a random generator of the program, and ``worker_method="auto"`` took threads."""


_NO_SAMPLE: Final = object()


class SampleRNG:
    """The random generators of one sample, made when they are first asked for.

    The three are independent streams. A generator goes on where it was left when it is asked for again within the
    sample. They are for the thread that loads the sample; share them with other threads only one at a time.
    """

    def __init__(self, root: bytes) -> None:
        self._root = root

    @cached_property
    def numpy(self) -> np.random.Generator:
        """NumPy's generator, PCG64."""
        return np.random.Generator(np.random.PCG64(self._number(b"numpy", 16)))

    @cached_property
    def torch(self) -> torch.Generator:
        """torch's generator on the CPU, for the ``generator`` argument of its functions."""
        return make_torch_generator(self._digest(b"torch", 32))

    @cached_property
    def python(self) -> random.Random:
        """The standard library's generator, with the methods of the module ``random``."""
        return random.Random(self._number(b"python", 16))

    @property
    def seed(self) -> int:
        """A number in [0, 2**63), always the same for the sample, for libraries that want a seed and for generators on
        other devices."""
        return self._number(b"seed", 8) >> 1

    def __repr__(self) -> str:
        return f"<SampleRNG, seed {self.seed}>"

    def _digest(self, stream: bytes, size: int) -> bytes:
        return hashlib.blake2b(self._root, digest_size=size, person=stream).digest()

    def _number(self, stream: bytes, size: int) -> int:
        return int.from_bytes(self._digest(stream, size), "big")


class Loading:
    """What one thread is loading, and where it will be written."""

    __slots__ = ("epoch", "given", "key", "position", "rest", "rng", "seen", "slots")

    epoch: SeededEpoch | None
    key: Any
    rest: Iterator | None
    seen: int
    """How many keys were left in ``rest`` when ``sample_rng`` was last asked."""
    rng: SampleRNG | None
    slots: Any
    """A ``Slots``. None also once ``empty_sample`` has given a slot of them away."""
    position: int
    given: int | None
    """The leaf whose slot that was."""

    def __init__(self) -> None:
        self.epoch = None
        self.leave()

    def enter(self, epoch: SeededEpoch, key: Any, slots: Any = None, position: int = 0) -> None:
        """From now on it is the sample *key* of *epoch*, which goes to *position* of *slots*, if any."""
        if self.epoch is not epoch:  # its reference count is shared by all workers
            self.epoch = epoch
        self.key, self.rest, self.rng = key, None, None
        self.slots, self.position, self.given = slots, position, None

    def enter_all(self, epoch: SeededEpoch, keys: Sequence[Any], rest: Iterator) -> None:
        """From now on it is one of the samples *keys*, a list or tuple, of *epoch*, after the other, as they are taken
        from *rest*, an iterator over them: which one it tells, so the loop has nothing to say for each sample."""
        if self.epoch is not epoch:
            self.epoch = epoch
        self.key, self.rest, self.rng, self.seen = keys, rest, None, -1

    def leave(self) -> None:
        """From now on it is no sample, and nothing of the last one is held."""
        self.key, self.rest, self.rng = _NO_SAMPLE, None, None
        self.slots, self.position, self.given = None, 0, None


class PerThread(threading.local):
    def __init__(self) -> None:  # runs once in each thread that asks
        self.loading = Loading()


this_thread = PerThread()


def sample_rng() -> SampleRNG:
    """The random generators of the sample that this thread is loading.

    For use in a dataset's ``__getitem__``, ``__iter__`` or transforms. Every call within one sample returns the same
    object; the next sample has another one.

    Raises:
        RuntimeError: if this thread is not loading a sample for a ``ftloader.DataLoader``.
        TypeError: if the sampler yielded a key that has no stable form (see ``ftloader.rng.canonical``).
    """
    here = this_thread.loading
    key = here.key
    if here.rest is not None:
        left = operator.length_hint(here.rest)
        if left != here.seen:
            here.seen, here.rng = left, None
        key = key[-1 - left]
    rng = here.rng
    if rng is None:
        if key is _NO_SAMPLE:
            raise RuntimeError(
                "sample_rng() was called in a thread that is not loading a sample. It answers "
                "in a dataset's __getitem__ and transforms while a ftloader.DataLoader loads the "
                "sample. In a thread that the dataset started itself, pass it the generators: "
                "call sample_rng() before, in the thread of the sample. To try a dataset without "
                "a loader, iterate ftloader.DataLoader(dataset, batch_size=None)"
            )
        epoch = here.epoch
        # Whoever sets a key sets the epoch first.
        origin = canonical_bytes((epoch.base_seed, epoch.number, key))  # type: ignore[union-attr]
        rng = here.rng = SampleRNG(hashlib.blake2b(origin, person=b"loader.sample").digest())
    return rng


def enter_sample(epoch: SeededEpoch, key: Any) -> None:
    """From now on this thread loads the sample *key* of *epoch*."""
    this_thread.loading.enter(epoch, key)


def leave_sample() -> None:
    """From now on this thread loads no sample, and nothing of the last one is held."""
    this_thread.loading.leave()


@contextmanager
def sample_scope() -> Iterator[None]:
    """A block in which this thread may enter samples. After it the thread is in the sample again that it was in before,
    or in none. A dataset may iterate a loader inside its ``__getitem__``, in the same thread."""
    outer, this_thread.loading = this_thread.loading, Loading()
    try:
        yield
    finally:
        this_thread.loading = outer


# A process forked in the midst of a sample must not repeat the draws of its parent.
fork.call_in_child(leave_sample)
