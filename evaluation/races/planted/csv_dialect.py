"""Tables with various delimiters: the dialect "table" is registered in the csv module,
for all threads.
"""

import csv
import io

import numpy as np
from torch.utils.data import Dataset


class Tables(Dataset):
    def __init__(self, tables):
        self.tables = tables

    def __len__(self):
        return len(self.tables)

    def __getitem__(self, index):
        text, delimiter = self.tables[index]
        csv.register_dialect("table", delimiter=delimiter)
        rows = list(csv.reader(io.StringIO(text), "table"))
        return np.array([[float(field) for field in row] for row in rows])


def table(number):
    delimiter = ";,\t|"[number % 4]
    return "\n".join(
        delimiter.join(str(number + row * column) for column in range(5)) for row in range(10)
    ), delimiter


dataset = Tables([table(number) for number in range(500)])
