"""Captions of a database that the constructor opens:
the connection refuses every thread but its own.
"""

import sqlite3

import torch
from torch.utils.data import Dataset


class Captions(Dataset):
    def __init__(self, captions):
        self.count = len(captions)
        self.database = sqlite3.connect(":memory:")
        self.database.execute("create table captions (number integer primary key, text text)")
        self.database.executemany("insert into captions values (?, ?)", enumerate(captions))

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        row = self.database.execute(
            "select text from captions where number = ?", (index,)
        ).fetchone()
        return torch.tensor(list(row[0].encode()))


dataset = Captions([f"a picture of {number} things" for number in range(200)])
