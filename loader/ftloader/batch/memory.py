"""Memory for batches. It is reused as soon as nothing refers to the batch that it held before.

New memory for a batch of 100 MB costs tens of thousands of page faults, about as much time as
filling it. So the pool reuses a torch storage once its reference counts show that it is free: every
tensor, view, NumPy array, memoryview or DLPack capsule on the memory keeps the storage (a C++
object) or its Python object alive. No other code can get a new reference to a storage that only the
pool refers to. So a storage that is found free stays free until the pool lends it.

Memory whose use does not show in reference counts is not reused: storages in shared memory, which
other processes map, and pinned storages, from which a GPU may still copy. torch's allocator reuses
pinned memory: it knows which copies run.
"""

import contextlib
import ctypes
import functools
import mmap
import sys
import weakref
from typing import Any

import numpy as np
import torch

from ftloader import fork
from ftloader.compat.torch_private import storage_use_count


class Buffer:
    """A torch storage and the batch that is filling it. A ``BufferPool`` makes and lends buffers.

    This object holds the only lasting reference to ``storage``. A thread of this package that makes
    another reference also drops it. So the reference count is always up to date. Without the GIL,
    it would lag behind if another thread dropped the reference (biased reference counting, PEP
    703).
    """

    __slots__ = ("filler", "last_taken", "storage")

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.storage = storage
        # fills the storage until ``release()``, or until the filler is gone
        self.filler: weakref.ref | None = None
        self.last_taken = 0  # value of the pool's counter ``_taken``

    def release(self) -> None:
        """Record that no batch fills the storage any more. The storage is free once all tensors on
        it are gone.
        """
        self.filler = None

    def is_free(self) -> bool:
        """Return True if no batch fills the storage, only the pool refers to it,
        and it is not in shared memory.
        """
        filler = self.filler
        if filler is not None and filler() is not None:
            return False
        # Python's count first: if only the pool refers to the storage,
        # no code can make another tensor.
        return (
            sys.getrefcount(self.storage) == _PYTHON_REFERENCES
            and storage_use_count(self.storage._cdata) == _TENSOR_REFERENCES
            and not self.storage.is_shared()
        )


class MemoryUse:
    """The most bytes that a ``BufferPool`` has held at once, for reports that outlive the pool."""

    peak = 0


class BufferPool:
    """Pool of CPU storages for one DataLoader's batches. A free storage of the wanted size in bytes
    is used again.

    The pool keeps storages for up to *batches* batches. If the consumer holds more batches, the
    pool forgets its oldest storages. It frees storages of a size that was not used in the last 4 *
    *batches* batches. One lock guards the list of storages and the lending.
    """

    def __init__(self, batches: int = 1) -> None:
        self._batches = batches
        self._lock = fork.rlock()  # a child may use the loader
        self._buffers: list[Buffer] = []
        self._most = batches
        self._taken = 0
        self.use = MemoryUse()

    def keep(self, batches: int) -> None:
        """Set the number of batches whose storages are kept."""
        with self._lock:
            self._batches = batches

    @property
    def nbytes(self) -> int:
        """Bytes of the storages that the pool keeps, free or in use."""
        with self._lock:
            return sum(buffer.storage.nbytes() for buffer in self._buffers)

    def take(self, nbytes: int, filler: Any, per_batch: int = 1, pinned: bool = False) -> Buffer:
        """Return a buffer of *nbytes* (> 0) bytes for the object *filler*.
        Each batch takes *per_batch* buffers.

        The buffer is lent until its ``release()``, or until *filler*, which fills it, no longer
        exists. A *pinned* buffer is always a new one, which the pool does not keep.
        """
        if pinned:
            memory = torch.empty(nbytes, dtype=torch.uint8, device="cpu", pin_memory=True)
            return Buffer(memory.untyped_storage())
        with self._lock:
            self._most = max(self._most, self._batches * per_batch)
            self._taken += 1
            buffer = next(
                (b for b in self._buffers if b.storage.nbytes() == nbytes and b.is_free()), None
            )
            if buffer is None:
                buffer = self._add(nbytes)
            buffer.filler = weakref.ref(filler)
            buffer.last_taken = self._taken
            if self._taken % (4 * self._most) == 0:
                # Forget sizes that were not asked for since the last time,
                # and memory that another process maps.
                long_ago = self._taken - 4 * self._most
                self._buffers = [
                    b
                    for b in self._buffers
                    if not b.storage.is_shared() and (b.last_taken > long_ago or not b.is_free())
                ]
            return buffer

    def _add(self, nbytes: int) -> Buffer:
        """Add a new buffer, in place of another one if the pool is full. The caller must hold the
        lock.
        """
        if len(self._buffers) >= self._most:
            # Forget a free buffer, whose size is no longer taken,
            # rather than a buffer in use.
            free = (n for n, other in enumerate(self._buffers) if other.is_free())
            del self._buffers[next(free, 0)]
        buffer = Buffer(torch.UntypedStorage(nbytes))
        advise_huge_pages(buffer.storage.data_ptr(), nbytes)
        self._buffers.append(buffer)
        self.use.peak = max(self.use.peak, self.nbytes)
        return buffer


# The reference counts, Python's and torch's, of a storage that only a buffer refers to.
_free = Buffer(torch.UntypedStorage(1))
_PYTHON_REFERENCES, _TENSOR_REFERENCES = (
    sys.getrefcount(_free.storage),
    storage_use_count(_free.storage._cdata),
)

# bytes; the largest that raises glibc's thresholds (DEFAULT_MMAP_THRESHOLD_MAX on 64 bits)
_LARGEST_BLOCK = 32 << 20
_HEADER = 1 << 16  # bytes; more than malloc adds to a block, rounding to pages included


@functools.cache
def keep_freed_memory() -> None:
    """Make glibc's malloc keep freed blocks of up to 32 MiB for reuse,
    instead of returning them to the system.
    """
    # glibc gives freed memory back to the system above two thresholds, which start at 128 KiB and
    # follow the largest block freed, up to 32 and 64 MiB (mallopt(3), M_MMAP_THRESHOLD and
    # M_TRIM_THRESHOLD). Freeing one block of the largest size raises both at once. At the low ones
    # every image of 1 MB is given back and faulted in again: a third of the time of a worker that
    # decodes JPEGs (``docs/profile.md``). The block is never touched, so it costs two system calls.
    # A program that has set the thresholds itself is not affected, nor is another allocator. A
    # thread keeps at most 64 MiB. Forked processes inherit the effect.
    with contextlib.suppress(MemoryError):
        # of a process with a limit, in which a worker may load all the same
        np.empty(_LARGEST_BLOCK - _HEADER, np.uint8)


# bytes; NumPy's limit for its own arrays (``NUMPY_MADVISE_HUGEPAGE``)
_SMALLEST_OF_HUGE_PAGES = 4 << 20


def advise_huge_pages(address: int, nbytes: int) -> None:
    """Ask the kernel to use huge pages for this memory. If it does, 100 MB cause 50 page faults
    instead of 25,600.
    """
    # NumPy does the same for large arrays, and torch on ``THP_MEM_ALLOC_ENABLE=1``.
    if nbytes < _SMALLEST_OF_HUGE_PAGES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    begin = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (address + nbytes - begin) // mmap.PAGESIZE * mmap.PAGESIZE
    ctypes.CDLL(None).madvise(
        ctypes.c_void_p(begin), ctypes.c_size_t(length), ctypes.c_int(mmap.MADV_HUGEPAGE)
    )
