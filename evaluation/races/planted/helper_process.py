"""Records decoded by a helper process, as exiftool -stay_open:
a thread reads the answer to another's question.
"""

import os
import subprocess
import sys

import torch
from torch.utils.data import Dataset

HELPER = (
    "import sys\nfor line in sys.stdin: print(*(int(word) ** 2 for word in line.split()), "
    "flush=True)"
)


class Decoded(Dataset):
    def __init__(self, lines):
        self.lines = lines
        self._helper = self._owner = None

    def __len__(self):
        return len(self.lines)

    def _start(self):
        if self._owner != os.getpid():
            pipes = {
                "stdin": subprocess.PIPE,
                "stdout": subprocess.PIPE,
                "text": True,
                "bufsize": 1,
            }
            self._helper = subprocess.Popen([sys.executable, "-c", HELPER], **pipes)
            self._owner = os.getpid()

    def __getitem__(self, index):
        self._start()
        self._helper.stdin.write(self.lines[index] + "\n")
        return torch.tensor([int(word) for word in self._helper.stdout.readline().split()])


dataset = Decoded([f"{number} {number + 1} {number * 3}" for number in range(300)])
