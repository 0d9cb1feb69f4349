"""Training on a local cache that grows: threads of this process fetch samples, and each epoch has what is there.

    ./twins exec ft python examples/growing_cache.py [SAMPLES EPOCHS [MEGABYTES]]

The remote store is a directory here; any address that fsspec understands can take its place. docs/from-tfrecords.md
compares this program with tfrecords_and_processes.py, which does the same with worker processes.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from ftloader import DataLoader
from ftloader.cache import GrowingCache, RawArray

SAMPLES, EPOCHS = map(int, sys.argv[1:3] or (400, 6))
MEGABYTES = int(sys.argv[3]) if len(sys.argv) > 3 else 4000  # of the local disk
VALUES = 250_000  # of a sample, 1 MB


def write_samples(directory: Path) -> None:
    """Write the remote store: float32 arrays that start with their number and cannot be compressed."""
    chance = np.random.default_rng(0)
    for number in range(SAMPLES):
        sample = chance.random(VALUES, np.float32)
        sample[0] = number
        (directory / f"{number:06}").write_bytes(sample.tobytes())


class Training:
    """Consumer of the batches, in place of a model; prints what came."""

    def __init__(self) -> None:
        self.weights, self.seen = torch.rand(VALUES), set()
        self.began, self.samples = time.perf_counter(), 0

    def step(self, batch: torch.Tensor) -> None:
        self.seen.update(map(int, batch[:, 0]))
        self.samples += len(batch)
        batch @ self.weights

    def end_epoch(self, epoch: int) -> None:
        rate = self.samples / (time.perf_counter() - self.began)
        print(
            f"epoch {epoch}: {self.samples} samples, {rate:.0f} MB/s; {len(self.seen)} seen by now",
            flush=True,
        )
        self.began, self.samples = time.perf_counter(), 0


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        remote, directory = Path(folder, "remote"), Path(folder, "cache")
        remote.mkdir()
        write_samples(remote)
        training = Training()
        with GrowingCache(
            f"file://{remote}",
            directory,
            max_bytes=MEGABYTES * 1e6,
            fetchers=2,
            min_samples=16,
            decode=RawArray(np.float32),
        ) as cache:
            for epoch in range(EPOCHS):
                cache.set_epoch(epoch)  # what is complete now
                for batch in DataLoader(
                    cache, batch_size=16, shuffle=True, num_workers=2, worker_method="thread"
                ):
                    training.step(batch)
                training.end_epoch(epoch)


if __name__ == "__main__":
    main()
