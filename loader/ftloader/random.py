"""Random numbers that belong to the sample: ``sample_rng()``.

A dataset that draws from torch's, NumPy's or Python's global generators gets numbers
that depend on which worker loads a sample and when. ``sample_rng()`` gives the sample
being loaded its own generators, seeded from

    BLAKE2b(base seed of the iterator, number of its epoch, key of the sample)

so the same augmentations come out with 0, 1 or N workers, threads or processes, in any
order of completion. The key is what the sampler yielded for the sample; for
iterable-style datasets it is the worker's id and the position in its share.

The fetchers say which sample a thread is in. That costs a few stores per sample: nothing
is hashed or created before ``sample_rng()`` is called. Each thread has its own slot, no
other thread ever sees it; hence no lock.
"""

import hashlib
import random
import threading
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
import torch

from ftloader import fork_locks
from ftloader.canonical import canonical_bytes
from ftloader.torch_generator import make_torch_generator


class SeededEpoch(Protocol):
    """What is needed of an epoch: torch's base seed and which epoch of the iterator it is."""

    base_seed: int
    number: int


class GlobalRandomWarning(UserWarning):
    """A worker used a global random generator: one line of code with ``DataLoader(strict_rng=True)``, or the samples as
    such where ``worker_method="auto"`` took threads."""


class _NoSample:
    def __repr__(self) -> str:
        return "<no sample>"


_NO_SAMPLE: Final = _NoSample()


class SampleRNG:
    """The random generators of one sample, made when they are first asked for.

    The three are independent streams. A generator goes on where it was left when it is
    asked for again within the sample. They are for the thread that loads the sample;
    share them with other threads only one at a time.
    """

    __slots__ = ("_numpy", "_python", "_root", "_torch")

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._numpy: np.random.Generator | None = None
        self._torch: torch.Generator | None = None
        self._python: random.Random | None = None

    @property
    def numpy(self) -> np.random.Generator:
        """NumPy's generator, PCG64."""
        if self._numpy is None:
            self._numpy = np.random.Generator(np.random.PCG64(self._number(b"numpy", 16)))
        return self._numpy

    @property
    def torch(self) -> torch.Generator:
        """torch's generator on the CPU, for the ``generator`` argument of its functions."""
        if self._torch is None:
            self._torch = make_torch_generator(self._digest(b"torch", 32))
        return self._torch

    @property
    def python(self) -> random.Random:
        """The standard library's generator, with the methods of the module ``random``."""
        if self._python is None:
            self._python = random.Random(self._number(b"python", 16))
        return self._python

    @property
    def seed(self) -> int:
        """A number in [0, 2**63), always the same for the sample, for libraries that want
        a seed and for generators on other devices."""
        return self._number(b"seed", 8) >> 1

    def __repr__(self) -> str:
        return f"<SampleRNG, seed {self.seed}>"

    def _digest(self, stream: bytes, size: int) -> bytes:
        return hashlib.blake2b(self._root, digest_size=size, person=stream).digest()

    def _number(self, stream: bytes, size: int) -> int:
        return int.from_bytes(self._digest(stream, size), "big")


class _OneOf:
    """The sample of *keys* that comes after those *loaded*, which other code appends to."""

    __slots__ = ("_keys", "_loaded", "_seen")

    def __init__(self, keys: Sequence[Any], loaded: list) -> None:
        self._keys, self._loaded, self._seen = keys, loaded, -1

    def moved_on(self) -> bool:
        """Whether it is another sample than when this was last asked."""
        seen, self._seen = self._seen, len(self._loaded)
        return seen != self._seen

    def key(self) -> Any:
        return self._keys[len(self._loaded)]


class _Slot:
    """Which sample a thread is in."""

    __slots__ = ("epoch", "key", "rng")

    def __init__(self) -> None:
        self.epoch: SeededEpoch | None = None
        self.key: Any = _NO_SAMPLE
        self.rng: SampleRNG | None = None


class _PerThread(threading.local):
    def __init__(self) -> None:  # runs once in each thread that asks
        self.slot = _Slot()


_per_thread = _PerThread()


def sample_rng() -> SampleRNG:
    """The random generators of the sample that this thread is loading.

    For use in a dataset's ``__getitem__``, ``__iter__`` or transforms. Every call within
    one sample returns the same object; the next sample has another one.

    Raises:
        RuntimeError: if this thread is not loading a sample for a ``ftloader.DataLoader``.
        TypeError: if the sampler yielded a key that has no stable form
            (see ``ftloader.canonical.canonical_bytes``).
    """
    slot = _per_thread.slot
    key = slot.key
    if type(key) is _OneOf:
        if key.moved_on():
            slot.rng = None
        key = key.key()
    rng = slot.rng
    if rng is None:
        if key is _NO_SAMPLE:
            raise RuntimeError(
                "sample_rng() was called in a thread that is not loading a sample. It answers "
                "in a dataset's __getitem__ and transforms while a ftloader.DataLoader loads the "
                "sample. In a thread that the dataset started itself, pass it the generators: "
                "call sample_rng() before, in the thread of the sample. To try a dataset without "
                "a loader, iterate ftloader.DataLoader(dataset, batch_size=None)"
            )
        epoch = slot.epoch
        # Whoever sets a key sets the epoch first.
        origin = canonical_bytes((epoch.base_seed, epoch.number, key))  # type: ignore[union-attr]
        rng = slot.rng = SampleRNG(hashlib.blake2b(origin, person=b"loader.sample").digest())
    return rng


def enter_sample(epoch: SeededEpoch, key: Any) -> None:
    """From now on this thread loads the sample *key* of *epoch*."""
    slot = _per_thread.slot
    if slot.epoch is not epoch:  # its reference count is shared by all workers
        slot.epoch = epoch
    slot.key = key
    slot.rng = None


def enter_samples(epoch: SeededEpoch, keys: Sequence[Any], loaded: list) -> None:
    """From now on this thread loads the samples *keys* of *epoch*, one after the other, into *loaded*, which is empty.

    Which of them it is in tells the length of *loaded*, so the loop has nothing to say for each sample.
    """
    enter_sample(epoch, _OneOf(keys, loaded))


def leave_sample() -> None:
    """From now on this thread loads no sample, and nothing of the last one is held."""
    slot = _per_thread.slot
    slot.key = _NO_SAMPLE
    slot.rng = None


class sample_scope:
    """A block in which this thread may enter samples. After it the thread is in the sample
    again that it was in before, or in none.

    A dataset may iterate a loader inside its ``__getitem__``, in the same thread.
    """

    __slots__ = ("_outer",)

    def __enter__(self) -> None:
        slot = _per_thread.slot
        self._outer = slot.epoch, slot.key, slot.rng
        leave_sample()

    def __exit__(self, *exc_info: object) -> None:
        slot = _per_thread.slot
        slot.epoch, slot.key, slot.rng = self._outer


# A process forked in the midst of a sample must not repeat the draws of its parent.
fork_locks.register(after_in_child=leave_sample)
