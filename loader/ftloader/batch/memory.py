"""The memory of batches, used again once nobody can reach it any more.

A fresh batch of 100 MB costs tens of thousands of page faults, about as much time as filling it. So the memory of an
earlier batch is taken where it is free, and that is known from its reference counts alone, whatever the consumer did
with the batch: every tensor, view, NumPy array, memoryview or DLPack capsule on it keeps torch's storage (a C++ object)
or its Python object alive. Nobody can get a new reference to a storage that only the pool refers to, so there is no gap
between looking and taking.

Two uses of memory go unseen by reference counts, and such memory is given up:

- a storage moved into shared memory (sent through a ``torch.multiprocessing`` queue) is mapped by another process;
- a pinned batch may be the source of a copy that the GPU has not finished. Pinned memory is therefore never kept here:
  torch's caching host allocator, which records those copies, makes taking it cheap.
"""

import sys
import weakref
from typing import Any

import torch

from ftloader import fork
from ftloader.batch.malloc import advise_huge_pages
from ftloader.compat.torch_private import storage_use_count


class Buffer:
    """A storage and who fills it. Made and lent by a ``BufferPool``.

    The one reference to ``storage`` that lasts is this object's own; all others that this package makes are dropped by
    the thread that made them. So its count is right at once: without the GIL, a reference that another thread drops
    counts until the thread that made it comes round to it (biased reference counting, PEP 703).
    """

    __slots__ = ("_filler", "last_taken", "storage")

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.storage = storage
        self._filler: weakref.ref | None = None
        self.last_taken = 0  # by the pool's count

    def lend_to(self, filler: Any) -> None:
        """*filler* fills it: until ``release()``, or until *filler* is gone."""
        self._filler = weakref.ref(filler)

    def release(self) -> None:
        """It has been filled, and is free once all tensors on it are gone."""
        self._filler = None

    def is_free(self) -> bool:
        """Whether nobody fills it, nobody can reach it and no other process maps it."""
        filler = self._filler
        if filler is not None and filler() is not None:
            return False
        # Python's count first: with that at its lowest, nobody can make another tensor.
        return (
            sys.getrefcount(self.storage) == _PYTHON_REFERENCES
            and storage_use_count(self.storage._cdata) == _TENSOR_REFERENCES
            and not self.storage.is_shared()
        )


class BufferPool:
    """Storages on the CPU by size in bytes, those of a DataLoader for as long as it lives.

    One lock guards the list and the lending; it is held for a few reference counts or one allocation.

    Args:
        batches: how many batches are in use at a time. The pool remembers the storages of as many. If the consumer
            keeps more, the oldest are forgotten (and freed when the consumer drops them). A size that has not been
            asked for while so many batches were made four times over is freed.
        pinned: take page-locked memory; none is remembered then.
    """

    def __init__(self, batches: int, pinned: bool = False) -> None:
        self._batches = batches
        self._pinned = pinned
        self._lock = fork.lock()  # a child may use the loader
        self._buffers: list[Buffer] = []
        self._most = batches
        self._taken = 0

    def take(self, nbytes: int, filler: Any, per_batch: int = 1) -> Buffer:
        """Memory of *nbytes* (> 0) bytes, of any content, for *filler* to fill; the batch takes *per_batch* such."""
        if self._pinned:
            pinned = torch.empty(nbytes, dtype=torch.uint8, device="cpu", pin_memory=True)
            return Buffer(pinned.untyped_storage())
        with self._lock:
            self._most = max(self._most, self._batches * per_batch)
            self._taken += 1
            buffer = next((b for b in self._buffers if b.storage.nbytes() == nbytes and b.is_free()), None)
            if buffer is None:
                if len(self._buffers) >= self._most:
                    # Rather one of a size that is no longer asked for than one in use.
                    free = (n for n, other in enumerate(self._buffers) if other.is_free())
                    del self._buffers[next(free, 0)]
                buffer = Buffer(torch.UntypedStorage(nbytes))
                advise_huge_pages(buffer.storage.data_ptr(), nbytes)
                self._buffers.append(buffer)
            buffer.lend_to(filler)
            buffer.last_taken = self._taken
            if self._taken % (4 * self._most) == 0:
                self._tidy_up()
            return buffer

    def _tidy_up(self) -> None:
        """Forgets what nobody has asked for in a long time, and what another process maps."""
        long_ago = self._taken - 4 * self._most
        self._buffers = [
            b for b in self._buffers if not b.storage.is_shared() and (b.last_taken > long_ago or not b.is_free())
        ]

    def __len__(self) -> int:
        """How many storages are remembered."""
        with self._lock:
            return len(self._buffers)


def _references_of_a_free_one() -> tuple[int, int]:
    """What the two counts say of a storage that only a buffer refers to; measured, since it depends on the
    interpreter's calling convention."""
    buffer = Buffer(torch.UntypedStorage(1))
    return (sys.getrefcount(buffer.storage), storage_use_count(buffer.storage._cdata))


_PYTHON_REFERENCES, _TENSOR_REFERENCES = _references_of_a_free_one()
