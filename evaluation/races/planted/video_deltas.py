"""Frames of videos that store differences: one decoder seeks to the key frame and decodes forwards,
for all threads.
"""

import numpy as np
import torch
from torch.utils.data import Dataset

GROUP = 10


class Decoder:
    """Decodes packets; each changes the picture of the one before."""

    def __init__(self, packets):
        self.packets = packets
        self.position = 0
        self.picture = None

    def seek(self, frame):
        self.position = frame // GROUP * GROUP
        self.picture = np.zeros((16, 16), dtype=np.int16)

    def decode(self):
        self.picture += self.packets[self.position]
        self.position += 1
        return self.position - 1, self.picture


class Frames(Dataset):
    def __init__(self, videos):
        self.decoders = [Decoder(packets) for packets in videos]
        self.index = [
            (video, frame) for video, packets in enumerate(videos) for frame in range(len(packets))
        ]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, index):
        video, wanted = self.index[index]
        decoder = self.decoders[video]
        decoder.seek(wanted)
        while True:
            number, picture = decoder.decode()
            if number >= wanted:
                return torch.from_numpy(picture.copy())


rng = np.random.default_rng(0)
dataset = Frames([rng.integers(-5, 6, (60, 16, 16), dtype=np.int16) for _ in range(4)])
