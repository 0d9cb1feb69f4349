"""Why samples are loaded into memory that the process has already.

glibc gives freed memory back to the system above two thresholds, which begin low (128 KiB) and follow the largest block
that the program has freed, up to 32 and 64 MiB (mallopt(3), M_MMAP_THRESHOLD and M_TRIM_THRESHOLD). A worker that loads
an image of 1 MB and frees it before the next one stays right at them: the memory of every sample is given back and
faulted in again. That was a third of the time of a worker that decodes JPEGs (``docs/profile.md``).
"""

import ctypes
import functools
import mmap

import numpy as np

_LARGEST_BLOCK = 32 << 20
"""Up to which glibc's thresholds follow (DEFAULT_MMAP_THRESHOLD_MAX of a 64-bit system)."""
_HEADER = 1 << 16
"""More than malloc adds to a block, rounding to pages included."""


@functools.cache
def keep_freed_memory() -> None:
    """Lets glibc's thresholds rise at once, by freeing one block of the largest size.

    The block is never touched, so it costs two system calls. A program that has set the thresholds itself (``mallopt``,
    ``MALLOC_TRIM_THRESHOLD_``) has ended their adjustment and is not affected; another allocator takes no notice. What
    a thread keeps is at most what it had in use at once, and at most 64 MiB. Once in a process; forked ones have it
    too.
    """
    np.empty(_LARGEST_BLOCK - _HEADER, np.uint8)


_SMALLEST_OF_HUGE_PAGES = 4 << 20
"""Bytes; NumPy's limit for its own arrays (``NUMPY_MADVISE_HUGEPAGE``)."""


def advise_huge_pages(address: int, nbytes: int) -> None:
    """Asks for transparent huge pages, where the system gives them on request.

    The first batches fault in their memory while they are filled: 25,600 times for 100 MB, or 50 times with pages of 2
    MiB. NumPy does the same for large arrays, and torch on ``THP_MEM_ALLOC_ENABLE=1``. Advice only: if the kernel
    refuses, pages are small.
    """
    if nbytes < _SMALLEST_OF_HUGE_PAGES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    begin = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (address + nbytes - begin) // mmap.PAGESIZE * mmap.PAGESIZE
    ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(length), ctypes.c_int(mmap.MADV_HUGEPAGE))
