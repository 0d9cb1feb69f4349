"""Thread-safety limits of libraries, as their documentation states them."""

from typing import NamedTuple


class Limit(NamedTuple):
    """Documented limit of a library's thread safety."""

    says: str
    remedy: str
    source: str


LIMITS: dict[str, Limit] = {
    "h5py": Limit(
        "libhdf5 is not thread-safe, so h5py takes one lock for the whole interpreter around "
        "each of its calls: safe "
        "from several threads, but no two reads run at once, not even of different files",
        "if reading dominates, keep the arrays in another format (a memory-mapped .npy, zarr) "
        "or use processes",
        "https://docs.h5py.org/en/stable/threads.html",
    ),
    "tables": Limit(
        "PyTables is not thread-safe: file handles must never be shared across threads",
        "open the file again in each thread, and serialise opening and closing by a lock",
        "https://www.pytables.org/cookbook/threading.html",
    ),
    "netCDF4": Limit(
        "the C netCDF library is not thread-safe",
        "a lock around every call, over all files",
        "https://docs.unidata.ucar.edu/netcdf-c/current/faq.html",
    ),
    "sqlite3": Limit(
        "a connection refuses threads other than its own unless check_same_thread=False; then the "
        "user must serialise writing, and cursors and row_factory stay shared",
        "one connection per thread (threading.local); or check_same_thread=False, a cursor for "
        "each query, and one lock from each execute() to the last row",
        "https://docs.python.org/3/library/sqlite3.html#sqlite3.connect",
    ),
    "lmdb": Limit(
        "a transaction and its cursors must be used by one thread at a time",
        "share the environment, and begin a transaction in each __getitem__ (or one per thread, "
        "buffers=True with care)",
        "http://www.lmdb.tech/doc/starting.html",
    ),
    "PIL": Limit(
        "Pillow adds no locks around images: an image that threads share must be loaded first "
        "(load()), since loading reads its file, and no thread may modify it",
        "open images within __getitem__; of shared ones call load() before the threads start",
        "https://pillow.readthedocs.io/en/latest/handbook/thread-safety.html",
    ),
    "pandas": Limit(
        (
            "pandas is not 100% thread safe; the known trouble is with copy() of frames that "
            "threads share"
        ),
        "a lock around what copies a shared frame; or keep what threads read in NumPy or Arrow "
        "arrays",
        "https://pandas.pydata.org/docs/user_guide/gotchas.html#thread-safety",
    ),
    "matplotlib": Limit(
        "Matplotlib is not thread-safe: threads may draw separate figures, with a non-interactive "
        "backend, but there are known races, and pyplot has global state",
        "draw under a lock, without pyplot (matplotlib.figure.Figure)",
        "https://matplotlib.org/stable/users/faq.html#work-with-threads",
    ),
    "http": Limit(
        (
            "an HTTPConnection has one request at a time: its response must be read before the "
            "next request is sent"
        ),
        "one connection per thread (threading.local), or one per sample",
        "https://docs.python.org/3/library/http.client.html#http.client.HTTPConnection.getresponse",
    ),
    "zipfile": Limit(
        "a ZipFile guards the position of its file, but counts its open members without a "
        "lock: without the GIL a "
        'lost count closes the file while others read ("seek of closed file")',
        "a lock from opening a member to closing it, or a ZipFile for each thread "
        "(threading.local)",
        "https://github.com/python/cpython/blob/v3.13.5/Lib/zipfile/__init__.py (ZipFile.open, "
        "_fpclose)",
    ),
    "tarfile": Limit(
        "the members of a TarFile share its one file and its position, without a lock",
        "note each member's offset_data and size once, and read with os.pread(), which has no "
        "position",
        "https://docs.python.org/3/library/tarfile.html#tarfile.TarInfo.offset_data",
    ),
}

CONNECTIONS = Limit(
    "its threadsafety is 0 or 1: threads may not share its connections, nor their cursors",
    "one connection per thread (threading.local), opened in __getitem__; or a pool, from which "
    "each sample takes one",
    "https://peps.python.org/pep-0249/#threadsafety",
)
"""The limit of a database module with ``threadsafety`` 0 or 1."""

ONLY_SHARED = frozenset({"PIL", "http"})
"""Libraries whose limit matters only if the dataset refers to one of their objects,
which threads then share.
"""

IO_SOURCE = "https://docs.python.org/3/library/io.html#multi-threading"
"""Binary buffered files have a lock, so that one call is atomic; but seek() and read() are two
calls. Text files have no lock."""
NUMPY_SOURCE = "https://numpy.org/doc/stable/reference/thread_safety.html"
