"""Neighbourhoods of a graph, their nodes renumbered with searchsorted
in arrays of the sample's own.
"""

import numpy as np
import torch
from torch.utils.data import Dataset

NODES, DEGREE = 300, 6


class Neighbourhoods(Dataset):
    def __init__(self, neighbours, features):
        self.neighbours, self.features = neighbours, features

    def __len__(self):
        return NODES

    def __getitem__(self, index):
        near = self.neighbours[index]
        nodes = np.unique(np.concatenate([[index], near, self.neighbours[near].ravel()]))
        edges = np.stack([np.repeat(near, DEGREE), self.neighbours[near].ravel()])
        return torch.from_numpy(self.features[nodes]), torch.from_numpy(
            np.searchsorted(nodes, edges)
        )


rng = np.random.default_rng(0)
dataset = Neighbourhoods(
    rng.integers(0, NODES, (NODES, DEGREE)), rng.random((NODES, 4), dtype=np.float32)
)
