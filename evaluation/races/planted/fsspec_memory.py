"""Documents in fsspec's memory file system: each open() of a file rewinds
and returns one and the same object.
"""

import fsspec
import torch
from torch.utils.data import Dataset

PARTS = 20


class Documents(Dataset):
    def __init__(self, paths):
        self.paths = paths
        self.fs = fsspec.filesystem("memory")

    def __len__(self):
        return len(self.paths) * PARTS

    def __getitem__(self, index):
        number, part = divmod(index, PARTS)
        file = self.fs.open(self.paths[number], "rb")
        file.seek(part * 64)
        return torch.tensor(list(file.read(64)))


fs = fsspec.filesystem("memory")
for number in range(15):
    fs.pipe(
        f"/corpus/{number}.txt",
        b"".join(b"%02d.%02d " % (number, part) * 11 for part in range(PARTS))[: 64 * PARTS],
    )
dataset = Documents([f"/corpus/{number}.txt" for number in range(15)])
