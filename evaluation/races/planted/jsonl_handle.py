"""Lines of a JSONL file by their offsets: seek() and readline() on one text file,
whose buffer all threads share.
"""

import json
import os
import tempfile
from pathlib import Path

import torch
from torch.utils.data import Dataset


class Instructions(Dataset):
    def __init__(self, path):
        self.path, self.handles = path, {}
        self.offsets = []
        with open(path, encoding="utf-8") as file:
            while True:
                offset = file.tell()
                if not file.readline():
                    break
                self.offsets.append(offset)

    def __len__(self):
        return len(self.offsets)

    def __getitem__(self, index):
        pid = os.getpid()  # a handle for each worker
        if pid not in self.handles:
            self.handles[pid] = open(self.path, encoding="utf-8")
        self.handles[pid].seek(self.offsets[index])
        row = json.loads(self.handles[pid].readline())
        return row["prompt"], torch.tensor(row["tokens"])


path = Path(tempfile.mkdtemp()) / "train.jsonl"
with open(path, "w", encoding="utf-8") as file:
    for number in range(400):
        tokens = [number * k % 50 for k in range(number % 40)]
        print(
            json.dumps({"prompt": f"Übung {number}", "tokens": tokens}, ensure_ascii=False),
            file=file,
        )
dataset = Instructions(path)
