"""The memory of batches, used again once nobody can reach it any more.

A fresh batch of 100 MB costs tens of thousands of page faults, about as much time as
filling it. So the memory of an earlier batch is taken where it is free, and that is known
from its reference counts alone, whatever the consumer did with the batch: every tensor,
view, NumPy array, memoryview or DLPack capsule on it keeps torch's storage (a C++ object)
or its Python object alive. Nobody can get a new reference to a storage that only the pool
refers to, so there is no gap between looking and taking.

Two uses of memory go unseen by reference counts, and such memory is given up:

- a storage moved into shared memory (sent through a ``torch.multiprocessing`` queue) is
  mapped by another process;
- a pinned batch may be the source of a copy that the GPU has not finished. Pinned memory
  is therefore never kept here: torch's caching host allocator, which records those copies,
  makes taking it cheap.
"""

import sys
import threading

import torch


class BufferPool:
    """Storages on the CPU by size in bytes.

    One lock guards the list; it is held for a few reference counts or one allocation.

    Args:
        most: how many storages to remember. If the consumer keeps more batches than
            that, the oldest are forgotten (and freed when the consumer drops them).
        pinned: take page-locked memory; none is remembered then.
    """

    def __init__(self, most: int, pinned: bool = False) -> None:
        self._most = most
        self._pinned = pinned
        self._lock = threading.Lock()
        self._storages: list[torch.UntypedStorage] = []

    def take(self, nbytes: int) -> torch.UntypedStorage:
        """A storage of *nbytes* bytes, of any content; *nbytes* > 0.

        It is taken for as long as the object returned, or any tensor on it, is alive.
        """
        if self._pinned:
            return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True).untyped_storage()
        with self._lock:
            storages = self._storages
            for position in range(len(storages)):
                if storages[position].nbytes() == nbytes and _is_free(storages, position):
                    return storages[position]
            if len(storages) >= self._most:
                # Rather one of a size that is no longer asked for than one in use.
                free = (p for p in range(len(storages)) if _is_free(storages, p))
                del storages[next(free, 0)]
            storage = torch.UntypedStorage(nbytes)
            storages.append(storage)
            return storage

    def __len__(self) -> int:
        """How many storages are remembered."""
        with self._lock:
            return len(self._storages)


def _is_free(storages: list[torch.UntypedStorage], position: int) -> bool:
    """Whether *storages* holds the only reference to the one at *position*, and no other
    process maps it."""
    # Python's reference count first: with that at its lowest, nobody can make another tensor.
    return (
        sys.getrefcount(storages[position]) == _PYTHON_REFERENCES
        and torch._C._storage_Use_Count(storages[position]._cdata) == _TENSOR_REFERENCES
        and not storages[position].is_shared()
    )


def _references_of_a_free_one() -> tuple[int, int]:
    """What the two counts say of a storage that only a list refers to; measured, since it
    depends on the interpreter's calling convention."""
    storages = [torch.UntypedStorage(1)]
    return (
        sys.getrefcount(storages[0]),
        torch._C._storage_Use_Count(storages[0]._cdata),
    )


_PYTHON_REFERENCES, _TENSOR_REFERENCES = _references_of_a_free_one()
