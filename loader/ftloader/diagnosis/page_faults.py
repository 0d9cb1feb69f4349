"""Page faults of worker threads, and the note that they cost much.

Without the GIL, CPython allocates with mimalloc, which gives freed memory back to the system after
10 ms. A dataset that makes large objects of Python then faults the same memory in for each sample.
Only the variable MIMALLOC_PURGE_DELAY changes that, and the interpreter reads it when it starts.
Its functions are not exported.
"""

import functools
import mmap
import sysconfig

try:
    import resource

    _THREAD: int | None = resource.RUSAGE_THREAD
except (ImportError, AttributeError):  # neither Windows nor macOS counts the faults of a thread
    _THREAD = None

# system time of a fault, measured with JPEGs of 640x408 (``docs/profile.md``)
_FAULT_SECONDS = 3.5e-6
_COSTLY = 0.05  # share of the CPU time; faults that take less make no note


def faults_of_this_thread() -> int:
    """Return the calling thread's number of page faults without input or output; 0 where the system
    does not tell.
    """
    if _THREAD is None:
        return 0
    return resource.getrusage(_THREAD).ru_minflt


def faults_note(faults: int, samples: int, cpu: float, own_memory: int) -> str | None:
    """Return a sentence with a remedy if page faults take much of the workers' CPU time, else None.

    Args:
        faults: of the workers, while they loaded *samples*.
        cpu: CPU time of the workers, in seconds.
        own_memory: bytes that the loader took for batches. Workers fault them in once, which no
            setting avoids.
    """
    avoidable = faults - own_memory // mmap.PAGESIZE
    seconds = avoidable * _FAULT_SECONDS
    # Short epochs may end before a worker has read its CPU time.
    if not samples or not cpu or seconds < _COSTLY * cpu or not _gives_memory_back():
        return None
    return (
        f"{avoidable / samples:.0f} page faults a sample take about {seconds / cpu:.0%} of the "
        "workers' CPU time. If they come from memory that Python frees and takes again, start "
        "Python with MIMALLOC_PURGE_DELAY=1000"
    )


@functools.cache
def _gives_memory_back() -> bool:
    """Return True if this is a free-threaded build
    that was started without MIMALLOC_PURGE_DELAY.
    """
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    try:
        # As it was at the start: a value that the program has put into os.environ
        # since has no effect.
        with open("/proc/self/environ", "rb") as file:
            return b"\0MIMALLOC_PURGE_DELAY=" not in b"\0" + file.read().upper()
    except OSError:
        return False
