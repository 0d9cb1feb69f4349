"""Warns about handles (files, cursors, readers) among a dataset's attributes, which worker threads would share.

A read in one thread moves a file's position for all threads. So code that is right in processes may give wrong samples.
The search covers the attributes of the dataset, of datasets that it wraps and of objects of user-defined classes. In a
container, the first elements are searched. An object that also has a lock or a memory map is assumed to be safe.
Libraries are recognised by the names of their classes; none is imported.
"""

import collections
import io
import itertools
import mmap
import multiprocessing.synchronize
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import Dataset

from ftloader.diagnosis.call_site import is_user_code
from ftloader.diagnosis.lookups import attributes_of, is_a

_OBJECTS: Final = 300  # most objects that are looked at
_ELEMENTS: Final = 8  # of a container
_ATTRIBUTES: Final = 100  # of an object

_POSITION: Final = "what one thread reads moves its position for all, so that others read the wrong bytes"
_ONE_THREAD: Final = "it is for one thread at a time"
_TURNS: Final = "its library lets one thread read at a time, of whichever file, so that more threads read no faster"
_NOTHING: Final = ""
_REMEDY: Final = "Open one for each thread, as an attribute of a threading.local(), or one for each sample. "

_CLASSES: Final[dict[str, str]] = {
    _POSITION: "tempfile._TemporaryFileWrapper tarfile.TarFile sqlite3.Cursor cv2.VideoCapture decord.VideoReader "
    "av.InputContainer",
    # lmdb's classes in C have no module.
    _ONE_THREAD: "sqlite3.Connection lmdb.Cursor lmdb.Transaction builtins.Cursor builtins.Transaction tables.File "
    "netCDF4.Dataset rasterio.DatasetReader",
    _TURNS: "h5py.File h5py.Group h5py.Dataset",
    "it counts its open members without a lock, and may be closed while others read": "zipfile.ZipFile",
    "what one thread receives is missing for the others": "socket.socket",
    "it keeps what it drew for one sample where another thread's sample finds it": "monai.Randomizable",
    _NOTHING: "monai.Compose",
}
"""For each problem of sharing an object among threads, the classes that have it: top-level package and class name."""
_TROUBLES: Final = {name: trouble for trouble, names in _CLASSES.items() for name in names.split()}
_LOOKED_INTO: Final = ("monai.",)  # installed libraries whose objects are searched like those of user-defined classes
FILES: Final = (io.IOBase,)
"""File objects, which have a position. A memory map has one too, but is read by slices, which do not use it."""
_LEAVES: Final = frozenset({str, bytes, int, float, bool, type(None), torch.Tensor, np.ndarray})
_LOCKS: Final = (
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Condition,
    threading.Semaphore,
    multiprocessing.synchronize.SemLock,
)


def warning_of_handles(dataset: Any) -> str | None:
    """Return the text of a warning if *dataset* has handles that worker threads would share, else None."""
    handles = list(handles_of(dataset))
    if not handles:
        return None
    (path, kind, trouble), *more = handles
    likewise = f"Likewise {', '.join(path for path, *_ in more[:5])}. " if more else ""
    return (
        f"{path} is a {kind} that all workers of this DataLoader share, since they are threads "
        f"(worker_method='auto' chose so): {trouble}. {likewise}{'' if trouble is _TURNS else _REMEDY}"
        "`./twins audit FILE.py:NAME` shows which lines use it. worker_method='process' gives each worker a copy "
        "of the dataset; worker_method='thread' leaves this warning out."
    )


def handles_of(dataset: Any) -> Iterator[tuple[str, str, str]]:
    """Yield, for each handle in *dataset*, (path such as "dataset.archive", class name, problem with sharing it)."""
    queue = collections.deque([("dataset", dataset)])
    seen = {id(dataset)}
    while queue:
        path, value = queue.popleft()
        try:
            trouble = _trouble(value)
        except Exception:  # a detached stream, say
            continue
        if trouble is not None:
            kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
            yield path, kind, trouble
            continue
        for name, child in _children(value):
            if type(child) not in _LEAVES and id(child) not in seen and len(seen) < _OBJECTS:
                seen.add(id(child))
                queue.append((path + name, child))


def _trouble(value: Any) -> str | None:
    """Return the problem that sharing *value* among threads causes, or None."""
    if is_a(value, FILES):
        # A log is only written. A file in memory mostly belongs to one sample.
        mostly_fine = is_a(value, (io.BytesIO, io.StringIO)) or value is sys.stdin or value is sys.__stdin__
        if mostly_fine or _is_closed(value):
            return None
        if not _is_of_users_class(value) and (not value.readable() or "a" in str(getattr(value, "mode", ""))):
            return None
        return _POSITION
    if type(value) is types.GeneratorType:
        ended = value.gi_frame is None
        return None if ended else "a second thread that asks it for a value at the same time gets an error"
    for cls in type(value).__mro__:
        trouble = _TROUBLES.get(f"{cls.__module__.partition('.')[0]}.{cls.__name__}")
        if trouble is not None:
            return None if trouble == _NOTHING or _is_closed(value) else trouble
    return None


def _is_closed(value: Any) -> bool:
    """Return True if *value*, an object of a library, is closed. A user's class is not asked: it counts as open."""
    if _is_of_users_class(value):
        return False
    # Files, archives and h5py's objects each have their own way to show it.
    return getattr(value, "closed", None) is True or getattr(value, "fp", value) is None or not value


def _children(value: Any) -> list[tuple[str, Any]]:
    """Return (name, object) of each element or attribute of *value* that must be searched for handles."""
    try:
        if type(value) in (list, tuple):
            return [(f"[{number}]", child) for number, child in enumerate(value[:_ELEMENTS])]
        if type(value) is dict:
            items = list(itertools.islice(value.items(), _ELEMENTS))
            # A dict with numbers as keys mostly has one handle for each worker or thread.
            return [(f"[{key[:40]!r}]", child) for key, child in items if isinstance(key, str)]
        if not is_a(value, Dataset) and not _is_of_users_class(value):
            return []
        attributes = list(itertools.islice(attributes_of(value).copy().items(), _ATTRIBUTES))
    except Exception:  # a worker is changing it, or its class is an odd one
        return []
    if any(is_a(child, (*_LOCKS, mmap.mmap)) for _, child in attributes):
        return []  # the lock guards the handle, or the map is read instead of the file
    return [(f".{name}", child) for name, child in attributes]


def _is_of_users_class(value: Any) -> bool:
    if is_a(value, (type, threading.local)) or type(value).__module__ in sys.builtin_module_names:
        return False
    if type(value).__module__.startswith(_LOOKED_INTO):
        return True
    module = sys.modules.get(type(value).__module__)
    return is_user_code(getattr(module, "__file__", None) or "")
