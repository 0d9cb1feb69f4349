"""Prices in decimals: the constructor sets the precision of its context,
which the loader's workers have too.
"""

import decimal

import torch
from torch.utils.data import Dataset


class Prices(Dataset):
    def __init__(self, cents):
        decimal.getcontext().prec = 6
        self.prices = [decimal.Decimal(value) / 100 for value in cents]

    def __len__(self):
        return len(self.prices)

    def __getitem__(self, index):
        with_tax = self.prices[index] * decimal.Decimal("1.07125")
        return torch.tensor(float(with_tax), dtype=torch.float64), str(with_tax)


dataset = Prices(range(100_000, 100_400))
