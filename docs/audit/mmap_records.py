"""Records in a memory-mapped file: read through the map's position, into a buffer that is kept, and by slices.

./twins audit docs/audit/mmap_records.py:by_position
./twins audit docs/audit/mmap_records.py:into_buffer
./twins audit docs/audit/mmap_records.py:by_slice
"""

import mmap
import tempfile
from pathlib import Path

import numpy as np

RECORDS, VALUES = 64, 1024


def records() -> Path:
    path = Path(tempfile.mkdtemp(prefix="audit-")) / "records.bin"
    np.repeat(np.arange(RECORDS, dtype=np.float32), VALUES).tofile(path)
    return path


class ByPosition:
    """seek() and read() of one map: its position is one for all threads."""

    def __init__(self, path: Path):
        with open(path, "rb") as file:
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self):
        return RECORDS

    def __getitem__(self, index):
        self.map.seek(index * VALUES * 4)
        return np.frombuffer(self.map.read(VALUES * 4), np.float32)


class BySlice(ByPosition):
    """Slices of a numpy.memmap, which have no position."""

    def __init__(self, path: Path):
        self.data = np.memmap(path, np.float32, "r", shape=(RECORDS, VALUES))

    def __getitem__(self, index):
        return np.array(self.data[index])


class IntoBuffer(BySlice):
    """Scaled in an array that is allocated once, to save the allocation."""

    def __init__(self, path: Path):
        super().__init__(path)
        self.scaled = np.empty(VALUES, np.float32)

    def __getitem__(self, index):
        np.multiply(self.data[index], 2, out=self.scaled)
        return self.scaled.copy()


def by_position():
    return ByPosition(records())


def into_buffer():
    return IntoBuffer(records())


def by_slice():
    return BySlice(records())
