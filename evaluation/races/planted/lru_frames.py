"""Frames of videos with an OrderedDict as LRU cache: a clip is evicted by one thread while another
one uses it.
"""

from collections import OrderedDict

import numpy as np
import torch
from torch.utils.data import Dataset

CLIPS, FRAMES = 60, 10


class Frames(Dataset):
    def __init__(self, keep=8):
        self.keep = keep
        self._clips = OrderedDict()

    def __len__(self):
        return CLIPS * FRAMES

    def _decode(self, clip):
        return np.random.default_rng(clip).integers(0, 256, (FRAMES, 24, 24), dtype=np.uint8)

    def __getitem__(self, index):
        clip, frame = divmod(index, FRAMES)
        if clip in self._clips:
            self._clips.move_to_end(clip)
        else:
            self._clips[clip] = self._decode(clip)
            if len(self._clips) > self.keep:
                self._clips.popitem(last=False)
        return torch.from_numpy(self._clips[clip][frame])


dataset = Frames()
