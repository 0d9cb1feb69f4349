"""Many paths in little memory: for data sets of millions of files.

A Python list of 1,000,000 ``(path, class)`` pairs is some 200 MB of small objects. Every process that reads one counts
a reference in it, so forked workers copy its pages one by one; threads without the GIL contend for the counts. A
``PathTable`` is a handful of objects, their content never written again: names one after the other in one ``bytes``,
where each begins in one array, directories (stored once each) likewise.
"""

import os
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

# Every str there is can be stored and comes back the same, also file names that are not valid
# UTF-8 (which os.fsdecode gives as lone surrogates).
_ENCODING = "utf-8", "surrogatepass"


class PathTable:
    """An immutable table of paths, each with a class number. Safe to read from any thread.

    Picklable; forked processes share its memory.

    Args:
        paths: the paths, ``str``.
        class_ids: as many integers, asked for once all paths have been; without them every class number is 0.

    Raises ``ValueError`` if there are not as many class numbers as paths.
    """

    __slots__ = ("_class_ids", "_directories", "_directory_ids", "_names")

    def __init__(self, paths: Iterable[str], class_ids: Iterable[int] | None = None) -> None:
        names, directories, directory_ids = _StringsBuilder(), _StringsBuilder(), array("i")
        known: dict[str, int] = {}
        for path in paths:
            # Cut after the last separator, so that joining is adding: whatever the path looks like,
            # it comes back character by character.
            cut = path.rfind(os.sep) + 1
            number = known.setdefault(path[:cut], len(known))
            if number == len(directories.ends):
                directories.add(path[:cut])
            names.add(path[cut:])
            directory_ids.append(number)
        numbers = np.zeros(len(directory_ids), np.int64) if class_ids is None else np.fromiter(class_ids, np.int64)
        if len(numbers) != len(directory_ids):
            raise ValueError(f"{len(numbers)} class numbers were given for {len(directory_ids)} paths")
        self.__setstate__((names.build(), directories.build(), np.array(directory_ids, np.int32), numbers))

    def __len__(self) -> int:
        return len(self._class_ids)

    def path(self, index: int) -> str:
        """The path at *index*, 0 <= index < len(self). Raises ``IndexError`` else."""
        if not 0 <= index < len(self._class_ids):
            raise IndexError(f"path {index} of {len(self)}")
        return _string(self._directories, self._directory_ids[index]) + _string(self._names, index)

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
        return sum(len(part) if isinstance(part, bytes) else part.nbytes for part in self._parts())

    def _parts(self) -> tuple[Any, ...]:
        return *self._names, *self._directories, self._directory_ids, self._class_ids

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PathTable):
            return NotImplemented
        return all(map(np.array_equal, self._parts(), other._parts()))  # the same paths give the same parts

    def __repr__(self) -> str:
        return f"<PathTable: {len(self)} paths, {self.nbytes} bytes>"

    def __getstate__(self) -> tuple:
        return self._names, self._directories, self._directory_ids, self._class_ids

    def __setstate__(self, state: tuple) -> None:
        self._names, self._directories, self._directory_ids, self._class_ids = state
        for part in self._parts():
            if isinstance(part, np.ndarray):
                part.flags.writeable = False  # NumPy forgets this in a pickle


type _Strings = tuple[bytes, np.ndarray]
"""One after the other, and where each ends."""


def _string(strings: _Strings, index: int) -> str:
    content, ends = strings
    return content[ends[index - 1] if index else 0 : ends[index]].decode(*_ENCODING)


class _StringsBuilder:
    def __init__(self) -> None:
        self._content = bytearray()
        self.ends = array("q")

    def add(self, string: str) -> None:
        self._content += string.encode(*_ENCODING)
        self.ends.append(len(self._content))

    def build(self) -> _Strings:
        return bytes(self._content), np.array(self.ends, np.int64)
