"""Find out whether a dataset is safe under threads: one with a bug, and the same one mended.

The same from the command line, where a crash of the dataset ends in a report too:

    ./twins audit examples/audit_dataset.py:broken
    ./twins audit examples/audit_dataset.py:mended
"""

import os
import tempfile

import numpy as np
from torch.utils.data import Dataset

from ftsafety.audit import audit

RECORDS = 64
SIZE = 4096


def generate() -> str:
    """Write a file of records; all bytes of record i are i."""
    with tempfile.NamedTemporaryFile(prefix="records-", delete=False) as file:
        file.write(np.repeat(np.arange(RECORDS, dtype=np.uint8), SIZE).tobytes())
    return file.name


class Broken(Dataset):
    """Dataset whose threads share one file and its position, which may move between seek() and read()."""

    def __init__(self, path: str):
        self.file = open(path, "rb")

    def __len__(self):
        return RECORDS

    def __getitem__(self, index):
        self.file.seek(index * SIZE)
        return np.frombuffer(self.file.read(SIZE), np.uint8)


class Mended(Broken):
    """Dataset that reads with os.pread(), which moves no position."""

    def __getitem__(self, index):
        return np.frombuffer(os.pread(self.file.fileno(), SIZE, index * SIZE), np.uint8)


def broken():
    return Broken(generate())


def mended():
    return Mended(generate())


def main() -> None:
    for make in (broken, mended):
        dataset = make()
        report = audit(dataset, seconds=2)
        print(f"=== {make.__name__}: {'ok' if report.ok else 'NOT SAFE'}\n{report}\n")
        os.unlink(dataset.file.name)


if __name__ == "__main__":
    main()
