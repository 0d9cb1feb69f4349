"""torch's ConcatDataset of two TensorDatasets."""

import torch
from torch.utils.data import ConcatDataset, TensorDataset

dataset = ConcatDataset(
    [TensorDataset(torch.arange(300.0)), TensorDataset(torch.arange(300.0, 500.0))]
)
