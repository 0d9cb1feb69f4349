# /// script
# dependencies = ["tqdm>=4.60"]
# ///
"""A progress line (tqdm) with the share of the time that the loop waited for data.

    ./twins exec ft python examples/progress_line.py [WORKERS]

In the end it prints what to change.
"""

import sys
import time

import torch
from torch.utils.data import Dataset
from tqdm import tqdm

from ftloader import DataLoader


class Remote(Dataset):
    """Dataset of 320 samples that wait for 5 ms each, as for a disk or a network."""

    def __len__(self):
        return 320

    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.full((3,), float(index))


if __name__ == "__main__":
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 2  # "auto" would find a number of threads
    loader = DataLoader(Remote(), batch_size=16, num_workers=workers)
    with tqdm(loader) as progress:
        for batch in progress:
            batch.mean().item()
            time.sleep(0.02)  # a training step
            progress.set_postfix_str(
                f"waited {loader.statistics().waited_share:.0%}", refresh=False
            )
    print(loader.statistics())
