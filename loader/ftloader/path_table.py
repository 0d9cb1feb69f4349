"""Many paths in little memory: for data sets of millions of files.

A Python list of 1,000,000 ``(path, class)`` pairs is some 200 MB of small objects. Every
process that reads one counts a reference in it, so forked workers copy its pages one by one;
threads without the GIL contend for the counts. A ``PathTable`` is a handful of objects, their
content never written again: names one after the other in one ``bytes``, where each begins in
one array, directories (stored once each) likewise.
"""

import os
from array import array
from collections.abc import Iterable, Iterator

import numpy as np

# Every str there is can be stored and comes back the same, also file names that are not valid
# UTF-8 (which os.fsdecode gives as lone surrogates).
_ENCODING = "utf-8", "surrogatepass"


class PathTable:
    """An immutable table of paths, each with a class number. Safe to read from any thread.

    Immutable after construction, so it needs no lock. Picklable; forked processes share its
    memory. Build it from paths, or folder by folder with a ``PathTableBuilder``.

    Args:
        paths: the paths, ``str``.
        class_ids: as many integers; without them every class number is 0.

    Raises ``ValueError`` if there are not as many class numbers as paths.
    """

    __slots__ = ("_class_ids", "_directories", "_directory_ids", "_names")

    def __init__(self, paths: Iterable[str], class_ids: Iterable[int] | None = None) -> None:
        builder = PathTableBuilder()
        if class_ids is None:
            for path in paths:
                builder.add(path, 0)
        else:
            for path, class_id in zip(paths, class_ids, strict=True):
                builder.add(path, class_id)
        self.__setstate__(builder.state())

    def __len__(self) -> int:
        return len(self._class_ids)

    def path(self, index: int) -> str:
        """The path at *index*, 0 <= index < len(self). Raises ``IndexError`` else."""
        if not 0 <= index < len(self._class_ids):
            raise IndexError(f"path {index} of {len(self)}")
        return self._directories[self._directory_ids[index]] + self._names[index]

    def paths(self) -> Iterator[str]:
        """All paths in order."""
        return map(self.path, range(len(self)))

    @property
    def class_ids(self) -> np.ndarray:
        """The class number of each path: int64, read-only, shape (len(self),)."""
        return self._class_ids

    @property
    def nbytes(self) -> int:
        """The memory that the table takes, in bytes, a few hundred for its objects left out."""
        return self._names.nbytes + self._directories.nbytes + self._directory_ids.nbytes + self._class_ids.nbytes

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PathTable):
            return NotImplemented
        # The same paths give the same state, however they were added.
        return (
            self._names == other._names
            and self._directories == other._directories
            and np.array_equal(self._directory_ids, other._directory_ids)
            and np.array_equal(self._class_ids, other._class_ids)
        )

    def __repr__(self) -> str:
        return f"<PathTable: {len(self)} paths, {self.nbytes} bytes>"

    def __getstate__(self) -> tuple:
        return self._names, self._directories, self._directory_ids, self._class_ids

    def __setstate__(self, state: tuple) -> None:
        self._names, self._directories, self._directory_ids, self._class_ids = state
        # NumPy forgets this in a pickle.
        self._directory_ids.flags.writeable = False
        self._class_ids.flags.writeable = False


class PathTableBuilder:
    """Collects paths for one ``PathTable``. For one thread."""

    def __init__(self) -> None:
        self._names = _StringsBuilder()
        self._directories = _StringsBuilder()
        self._directory_ids = array("i")
        self._class_ids = array("q")
        self._known: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._class_ids)

    def add(self, path: str, class_id: int) -> None:
        """Appends *path* (``str``) with its class number."""
        # Cut after the last separator, so that joining is adding: whatever the path looks like,
        # it comes back character by character.
        cut = path.rfind(os.sep) + 1
        directory = path[:cut]
        number = self._known.get(directory)
        if number is None:
            number = self._known[directory] = len(self._known)
            self._directories.add(directory)
        self._names.add(path[cut:])
        self._directory_ids.append(number)
        self._class_ids.append(class_id)

    def build(self) -> PathTable:
        """The table of what was added so far."""
        table = PathTable.__new__(PathTable)
        table.__setstate__(self.state())
        return table

    def state(self) -> tuple:
        return (
            self._names.build(),
            self._directories.build(),
            np.array(self._directory_ids, np.int32),
            np.array(self._class_ids, np.int64),
        )


class _Strings:
    """Immutable strings, one after the other in one ``bytes``."""

    __slots__ = ("_blob", "_ends")

    def __init__(self, blob: bytes, ends: np.ndarray) -> None:
        self.__setstate__((blob, ends))

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> str:
        begin = self._ends[index - 1] if index else 0
        return self._blob[begin : self._ends[index]].decode(*_ENCODING)

    @property
    def nbytes(self) -> int:
        return len(self._blob) + self._ends.nbytes

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Strings):
            return NotImplemented
        return self._blob == other._blob and np.array_equal(self._ends, other._ends)

    def __getstate__(self) -> tuple:
        return self._blob, self._ends

    def __setstate__(self, state: tuple) -> None:
        self._blob, self._ends = state
        self._ends.flags.writeable = False


class _StringsBuilder:
    def __init__(self) -> None:
        self._blob = bytearray()
        self._ends = array("q")

    def add(self, string: str) -> None:
        self._blob += string.encode(*_ENCODING)
        self._ends.append(len(self._blob))

    def build(self) -> _Strings:
        return _Strings(bytes(self._blob), np.array(self._ends, np.int64))
