"""Lines of a JSONL file by their offsets; each access opens the file, and the JSON decoder is
shared, without state.
"""

import json
import tempfile
from pathlib import Path

import torch
from torch.utils.data import Dataset


class Instructions(Dataset):
    def __init__(self, path):
        self.path, self.decoder = path, json.JSONDecoder()
        self.offsets = [0]
        with open(path, "rb") as file:
            for line in file:
                self.offsets.append(self.offsets[-1] + len(line))

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, index):
        with open(self.path, encoding="utf-8") as file:
            file.seek(self.offsets[index])
            row = self.decoder.decode(file.readline())
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
