"""A stream of log lines whose parser is an attribute of the class:
it is not copied with the dataset.
"""

import torch
from torch.utils.data import IterableDataset, get_worker_info


class KeyValues:
    """Parses key=value pairs and keeps them until the next line."""

    def parse(self, line):
        self.fields = {}
        for part in line.split():
            key, _, value = part.partition("=")
            self.fields[key] = float(value)

    def vector(self, keys):
        return torch.tensor([self.fields.get(key, -1.0) for key in keys])


class Logs(IterableDataset):
    parser = KeyValues()

    def __init__(self, lines, keys):
        self.lines = lines
        self.keys = keys

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for line in self.lines[first::step]:
            self.parser.parse(line)
            yield self.parser.vector(self.keys)


lines = [f"t={i} cpu={i % 7} mem={i * 3 % 11} disk={i * 5 % 13} net={i % 17}" for i in range(800)]
dataset = Logs(lines, ["t", "cpu", "mem", "disk", "net"])
