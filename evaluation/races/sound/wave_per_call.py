"""Clips of a WAV file, each with a reader of its own."""

import tempfile
import wave
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


class Speech(Dataset):
    def __init__(self, path, clip):
        self.path, self.clip = str(path), clip
        with wave.open(self.path) as reader:
            self.length = reader.getnframes() // clip

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        with wave.open(self.path) as reader:
            reader.setpos(index * self.clip)
            frames = reader.readframes(self.clip)
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
