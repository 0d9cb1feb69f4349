"""Reviews of a database: the threads share one cursor,
so a thread fetches the row that another one asked for.
"""

import sqlite3
import tempfile
from pathlib import Path

import torch
from torch.utils.data import Dataset


class Reviews(Dataset):
    def __init__(self, path):
        self.path = path
        self._cursor = None

    def __len__(self):
        return 500

    def __getitem__(self, index):
        if self._cursor is None:
            self._cursor = sqlite3.connect(self.path, check_same_thread=False).cursor()
        self._cursor.execute("SELECT text, stars FROM reviews WHERE id = ?", (index,))
        text, stars = self._cursor.fetchone()
        return torch.tensor([len(word) for word in text.split()]), stars


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
