"""Warns about handles (files, cursors, readers) among a dataset's attributes,
which worker threads would share.

A read in one thread moves a file's position for all threads. So code that is right in processes may
give wrong samples. Types are compared by name, of the attributes of the dataset and of a dataset
that it wraps. The audit looks deeper.
"""

from typing import Any, Final

from torch.utils.data import Dataset

from ftloader.diagnosis.lookups import attributes_of, is_a, optional

# Package and class. Exact types, so that no code of a user's subclass is called. lmdb's classes in
# C have no module.
_FILES: Final = frozenset(
    "_io.BufferedReader _io.BufferedRandom _io.FileIO _io.TextIOWrapper gzip.GzipFile bz2.BZ2File "
    "lzma.LZMAFile tempfile._TemporaryFileWrapper tarfile.TarFile zipfile.ZipFile socket.socket "
    "sqlite3.Connection sqlite3.Cursor cv2.VideoCapture decord.VideoReader av.InputContainer "
    "builtins.Cursor builtins.Transaction".split()
)
# In an object with one of these, the lock guards the file, or the map is read instead of it.
_GUARDS: Final = frozenset(
    "_thread.lock _thread.RLock threading.Condition multiprocessing.Lock multiprocessing.RLock "
    "mmap.mmap".split()
)
_WARNING: Final = (
    "that all workers of this DataLoader share, since they are threads (worker_method='auto' chose "
    "so): what one thread reads moves its position for all, or it is for one thread at a time. "
    "Open one for each thread, as an attribute of a threading.local(), or one for each sample. "
    "`./twins audit FILE.py:NAME` shows which lines use it. copy_dataset=True, with what cannot be "
    "pickled left out by __getstate__, or worker_method='process' gives each worker a copy of the "
    "dataset; worker_method='thread' leaves this warning out."
)


def warning_of_handles(dataset: Any) -> str | None:
    """Return the text of a warning if *dataset* has handles
    that worker threads would share, else None.
    """
    handles = handles_of(dataset)
    if not handles:
        return None
    return f"{', '.join(handles[:5])} {_WARNING}"


def handles_of(dataset: Any, path: str = "dataset", depth: int = 5) -> list[str]:
    """Return "dataset.archive is a zipfile.ZipFile" for each handle in *dataset*, and in up to
    *depth* wrapped ones.
    """
    # A copy, since a worker may change the attributes now. No dict,
    # since a key may have a hash of its own.
    attributes = [
        (name, value, _kind(value)) for name, value in attributes_of(dataset).copy().items()
    ]
    if any(kind in _GUARDS for _, _, kind in attributes):
        return []
    handles = []
    for name, value, kind in attributes:
        if kind in _FILES and optional(value, "closed") is not True and _is_read(value):
            handles.append(f"{path}.{name} is a {kind}")
        elif is_a(value, Dataset) and depth:
            handles += handles_of(value, f"{path}.{name}", depth - 1)
    return handles


def _kind(value: Any) -> str:
    package = str(optional(type(value), "__module__")).partition(".")[0]
    return f"{package}.{optional(type(value), '__name__')}"


def _is_read(value: Any) -> bool:
    # of a log, which threads may share
    return not str(optional(value, "mode", "r")).startswith(("w", "a", "x"))
