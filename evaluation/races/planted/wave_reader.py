"""Clips of a WAV file by one reader of the module wave:
setpos() and readframes() share the reader's position.
"""

import tempfile
import wave
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


class Speech(Dataset):
    def __init__(self, path, clip):
        self.path, self.clip = str(path), clip
        self._reader = None
        with wave.open(self.path) as reader:
            self.length = reader.getnframes() // clip

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self._reader is None:
            self._reader = wave.open(self.path)
        self._reader.setpos(index * self.clip)
        frames = self._reader.readframes(self.clip)
        return torch.from_numpy(np.frombuffer(frames, dtype=np.int16) / np.float32(32768))


path = Path(tempfile.mkdtemp()) / "speech.wav"
with wave.open(str(path), "wb") as writer:
    writer.setnchannels(1)
    writer.setsampwidth(2)
    writer.setframerate(16000)
    writer.writeframes(
        np.random.default_rng(0).integers(-9000, 9000, 300 * 800, dtype=np.int16).tobytes()
    )
dataset = Speech(path, 800)
