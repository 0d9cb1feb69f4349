"""Reviews of a database: each thread has a connection of its own, and each sample a cursor."""

import sqlite3
import tempfile
import threading
from pathlib import Path

import torch
from torch.utils.data import Dataset


class Reviews(Dataset):
    def __init__(self, path):
        self.path = path
        self._local = threading.local()

    def __len__(self):
        return 500

    def __getitem__(self, index):
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = sqlite3.connect(self.path)
        row = connection.execute(
            "SELECT text, stars FROM reviews WHERE id = ?", (index,)
        ).fetchone()
        return torch.tensor([len(word) for word in row[0].split()]), row[1]


def fill(path):
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE reviews (id INTEGER PRIMARY KEY, text TEXT, stars INTEGER)"
        )
        rows = [
            (i, " ".join("x" * (1 + (i * k) % 13) for k in range(1, 9)), i % 5) for i in range(500)
        ]
        connection.executemany("INSERT INTO reviews VALUES (?, ?, ?)", rows)
    return path


dataset = Reviews(fill(Path(tempfile.mkdtemp()) / "reviews.db"))
