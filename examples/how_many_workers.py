"""Load the same samples with 1, 2, 4, ... threads, and with "auto", which finds the number while it runs.

Each sample waits for 10 ms, as for a disk or a network, so that more threads than CPUs help.
"""

import time
import warnings

import torch
from torch.utils.data import Dataset

from ftloader import DataLoader

WAIT = 0.01


class Remote(Dataset):
    """Dataset of 4,096 samples that wait. Put yours in its place."""

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        time.sleep(WAIT)
        return torch.full((3,), float(index))


def rate(num_workers: int | str, seconds: float) -> tuple[float, int]:
    """Return samples/s over at least this time, and the number of workers at the end."""
    loader = DataLoader(Remote(), batch_size=32, num_workers=num_workers, worker_method="thread")
    samples, begin = 0, time.perf_counter()
    for batch in loader:
        samples += len(batch)
        if time.perf_counter() - begin > seconds:
            break
    return samples / (time.perf_counter() - begin), loader.statistics().num_workers


def main() -> None:
    # torch warns of more workers than CPUs, which is no advice for samples that wait.
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    for number in (1, 2, 4, 8, 16, 32):
        samples_per_second, _ = rate(number, seconds=1)
        print(f"num_workers={number}: {samples_per_second:.0f} samples/s")
    samples_per_second, number = rate("auto", seconds=8)
    print(f'num_workers="auto": {samples_per_second:.0f} samples/s on average, {number} at the end')


if __name__ == "__main__":
    main()
