"""Series with a flag for gaps, from the parser's warnings: catch_warnings is the process's, so
flags are mixed up.
"""

import warnings

import numpy as np
from torch.utils.data import Dataset


def parse(line):
    """Numbers with commas between them; a gap is a warning, and zero."""
    values = []
    for field in line.split(","):
        if not field:
            warnings.warn("gap in the series", stacklevel=2)
        values.append(float(field or 0))
    return np.array(values)


class Series(Dataset):
    def __init__(self, lines):
        self.lines = lines

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, index):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            values = parse(self.lines[index])
        return values, len(caught)


dataset = Series(
    [",".join("" if (i * k) % 17 == 1 else str(k) for k in range(40)) for i in range(500)]
)
