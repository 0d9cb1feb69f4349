"""Samples in a SQLite database: one connection for all threads, and one for each.

./twins audit docs/audit/sqlite_rows.py:bound
./twins audit docs/audit/sqlite_rows.py:shared
./twins audit docs/audit/sqlite_rows.py:per_thread
"""

import sqlite3
import tempfile
import threading
from pathlib import Path

import numpy as np

ROWS = 64


def database() -> Path:
    path = Path(tempfile.mkdtemp(prefix="audit-")) / "samples.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE samples (id INTEGER PRIMARY KEY, pixels BLOB)")
        connection.executemany(
            "INSERT INTO samples VALUES (?, ?)",
            ((i, np.full(256, i, np.uint8).tobytes()) for i in range(ROWS)),
        )
    connection.close()
    return path


class Shared:
    """One connection, and one cursor that is kept since making it seemed a waste."""

    def __init__(self, path: Path, **options):
        self.cursor = sqlite3.connect(path, **options).cursor()

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        self.cursor.execute("SELECT pixels FROM samples WHERE id = ?", (index,))
        (pixels,) = self.cursor.fetchone()
        return np.frombuffer(pixels, np.uint8)


class PerThread:
    """A connection for each thread."""

    def __init__(self, path: Path):
        self.path = path
        self.local = threading.local()

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        if not hasattr(self.local, "connection"):
            self.local.connection = sqlite3.connect(self.path)
        (pixels,) = self.local.connection.execute(
            "SELECT pixels FROM samples WHERE id = ?", (index,)
        ).fetchone()
        return np.frombuffer(pixels, np.uint8)


def bound():
    return Shared(database())


def shared():
    return Shared(database(), check_same_thread=False)


def per_thread():
    return PerThread(database())
