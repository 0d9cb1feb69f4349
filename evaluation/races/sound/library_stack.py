"""torch's StackDataset of images and masks."""

import torch
from torch.utils.data import StackDataset, TensorDataset

images = torch.linspace(0, 1, 300 * 64).reshape(300, 8, 8)
dataset = StackDataset(image=TensorDataset(images), mask=TensorDataset(images > 0.5))
