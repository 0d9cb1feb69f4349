"""Rows of a log, read with a regular expression, a Struct and a table
for translate() that all threads use.
"""

import re
import struct

import torch
from torch.utils.data import Dataset


class Log(Dataset):
    def __init__(self, lines):
        self.lines = lines
        self.pattern = re.compile(r"(?P<host>[\w.]+) \[(?P<time>\d+)\] (?P<code>\w+)")
        self.layout = struct.Struct("<II")
        self.table = str.maketrans("abc", "xyz")

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, index):
        match = self.pattern.match(self.lines[index])
        time, size = self.layout.unpack(bytes.fromhex(match["code"]))
        return match["host"].translate(self.table), torch.tensor([int(match["time"]), time, size])


dataset = Log(
    [f"cab{i % 9}.host [{i * 37}] {struct.pack('<II', i * 11, i * i).hex()}" for i in range(400)]
)
