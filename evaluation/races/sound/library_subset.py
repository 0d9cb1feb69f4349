"""torch's random_split, which gives a Subset of a TensorDataset."""

import torch
from torch.utils.data import TensorDataset, random_split

whole = TensorDataset(torch.arange(500.0).reshape(500, 1), torch.arange(500) % 10)
dataset, validation = random_split(whole, [400, 100], generator=torch.Generator().manual_seed(0))
