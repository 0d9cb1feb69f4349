"""Many paths in little memory: for data sets of millions of files.

A Python list of 1,000,000 ``(path, class)`` pairs is some 200 MB of small objects. Every process that reads one counts
a reference in it, so forked workers copy its pages one by one; threads without the GIL contend for the counts. A
``PathTable`` is a handful of objects, their content never written again: names one after the other in one ``bytes``,
where each begins in one array, directories (stored once each) likewise.
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

    Picklable; forked processes share its memory.

    Args:
        paths: the paths, ``str``.
        class_ids: as many integers, asked for once all paths have been.

    Raises ``ValueError`` if there are not as many class numbers as paths.
    """

    __slots__ = ("_directories", "_directory_ids", "_names", "class_ids")

    class_ids: np.ndarray
    """The class number of each path: int64, read-only, shape (len(self),)."""

    def __init__(self, paths: Iterable[str], class_ids: Iterable[int]) -> None:
        directories: dict[str, int] = {}
        directory_ids = array("i")

        def names() -> Iterator[str]:
            for path in paths:
                # Cut after the last separator, so that joining is adding: whatever the path looks like,
                # it comes back character by character.
                cut = path.rfind(os.sep) + 1
                directory_ids.append(directories.setdefault(path[:cut], len(directories)))
                yield path[cut:]

        packed = _packed(names())
        numbers = np.fromiter(class_ids, np.int64)
        if len(numbers) != len(directory_ids):
            raise ValueError(f"{len(numbers)} class numbers were given for {len(directory_ids)} paths")
        self.__setstate__((packed, _packed(directories), np.array(directory_ids, np.int32), numbers))

    def __len__(self) -> int:
        return len(self.class_ids)

    def path(self, index: int) -> str:
        """The path at *index*, 0 <= index < len(self). Raises ``IndexError`` else."""
        if not 0 <= index < len(self):
            raise IndexError(f"path {index} of {len(self)}")
        return _string(self._directories, self._directory_ids[index]) + _string(self._names, index)

    def __getstate__(self) -> tuple:
        return self._names, self._directories, self._directory_ids, self.class_ids

    def __setstate__(self, state: tuple) -> None:
        self._names, self._directories, self._directory_ids, self.class_ids = state
        for part in (self._names[1], self._directories[1], self._directory_ids, self.class_ids):
            part.flags.writeable = False  # NumPy forgets this in a pickle


type _Strings = tuple[bytes, np.ndarray]
"""One after the other, and where each ends."""


def _packed(strings: Iterable[str]) -> _Strings:
    content, ends = bytearray(), array("q")
    for string in strings:
        content += string.encode(*_ENCODING)
        ends.append(len(content))
    return bytes(content), np.array(ends, np.int64)


def _string(strings: _Strings, index: int) -> str:
    content, ends = strings
    return content[ends[index - 1] if index else 0 : ends[index]].decode(*_ENCODING)
