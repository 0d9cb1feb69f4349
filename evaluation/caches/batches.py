"""Measure 4 MB samples from the page cache into batches: by threads, and by torch's processes with
and without cache.

    ./twins exec gil python evaluation/caches/batches.py --directory /dev/shm
    ./twins exec ft python evaluation/caches/batches.py --directory /dev/shm threads

All read the same bytes: candidates of the cache the same segments, "files" a file a sample with
numpy.fromfile. Each round has all candidates in random order. The first round is a warm-up.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from paced import Paced
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset

from ftloader import DataLoader
from ftloader.cache import GrowingCache, RawArray


class Files(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return np.fromfile(self.paths[index], np.float32)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ways", nargs="*", default=["threads", "torch", "files"])
    parser.add_argument("--directory", required=True)
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    source = Paced(4_000_000, 1e12)
    count = given.samples
    source.keys = lambda: map(str, range(count))
    with tempfile.TemporaryDirectory(dir=given.directory) as folder:
        with GrowingCache(
            source,
            Path(folder, "cache"),
            3 * count * 4e6,
            2,
            min_samples=count,
            decode=RawArray(np.float32),
        ) as cache:
            cache.set_epoch(0)
            paths = [Path(folder, str(index)) for index in range(count)]
            for index, path in enumerate(paths):
                path.write_bytes(source.content(cache.key(index)))
            common = {
                "batch_size": given.batch,
                "num_workers": given.workers,
                "persistent_workers": True,
            }
            ways = {
                "threads": lambda: DataLoader(cache, worker_method="thread", **common),
                "torch": lambda: TorchLoader(cache, **common),
                "files": lambda: TorchLoader(Files(paths), **common),
            }
            loaders = {way: ways[way]() for way in given.ways}
            rates = {way: [] for way in given.ways}
            for number in range(given.rounds + 1):
                for way in random.sample(given.ways, len(given.ways)):
                    begin = time.perf_counter()
                    seen = sum(len(batch) for batch in loaders[way])
                    assert seen == count
                    if number:
                        rates[way].append(count * 4e6 / (time.perf_counter() - begin) / 1e9)
            del loaders
            for way, found in rates.items():
                print(
                    f"| {'gil' if sys._is_gil_enabled() else 'ft'} | {way} | "
                    f"{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f}) GB/s |"
                )
            print(f"load {os.getloadavg()[0]:.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()
