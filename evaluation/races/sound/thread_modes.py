"""Features with no_grad, numpy.errstate and a decimal context: these modes belong to the thread."""

import decimal

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset


class Features(Dataset):
    def __init__(self, images, prices):
        self.images = images
        self.prices = prices
        torch.manual_seed(0)
        self.network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten()).eval()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        with torch.no_grad():
            features = self.network(self.images[index : index + 1])[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.nan_to_num(np.log(np.arange(16.0)) / index)
        with decimal.localcontext() as context:
            context.prec = 4 + index % 20
            price = str(self.prices[index] / 3)
        return features, ratio, price


images = torch.linspace(0, 1, 300 * 256).sin().reshape(300, 1, 16, 16)
dataset = Features(images, [decimal.Decimal(number) for number in range(300)])
