"""Neighbourhoods of a graph, their nodes renumbered with one array for all of the graph's nodes."""

import numpy as np
import torch
from torch.utils.data import Dataset

NODES, DEGREE = 300, 6


class Neighbourhoods(Dataset):
    def __init__(self, neighbours, features):
        self.neighbours, self.features = neighbours, features
        self.assoc = np.full(NODES, -1, dtype=np.int64)

    def __len__(self):
        return NODES

    def __getitem__(self, index):
        nodes = np.unique(
            np.concatenate(
                [[index], self.neighbours[index], self.neighbours[self.neighbours[index]].ravel()]
            )
        )
        self.assoc[nodes] = np.arange(len(nodes))
        sources = np.repeat(self.neighbours[index], DEGREE)
        targets = self.neighbours[self.neighbours[index]].ravel()
        edges = np.stack([self.assoc[sources], self.assoc[targets]])
        return torch.from_numpy(self.features[nodes]), torch.from_numpy(edges)


rng = np.random.default_rng(0)
dataset = Neighbourhoods(
    rng.integers(0, NODES, (NODES, DEGREE)), rng.random((NODES, 4), dtype=np.float32)
)
