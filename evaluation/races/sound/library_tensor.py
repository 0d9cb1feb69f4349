"""torch's TensorDataset."""

import torch
from torch.utils.data import TensorDataset

dataset = TensorDataset(torch.arange(500.0).reshape(500, 1), torch.arange(500) % 10)
