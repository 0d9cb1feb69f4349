"""Augmentations that do not depend on the workers: the random numbers belong to the sample.

sample_rng() gives each sample generators of its own, seeded from the loader's base seed, the epoch and the index.
"""

import hashlib

import numpy as np
import torch
from torch.utils.data import Dataset

from ftloader import DataLoader, sample_rng


class Augmented(Dataset):
    """Dataset of images that are flipped, shifted and made noisy at random."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        image = np.full((16, 16), index, np.float32)
        image[:, :8] += 100
        rng = sample_rng()
        if rng.python.random() < 0.5:  # a random.Random
            image = image[:, ::-1]
        image = np.roll(image, rng.numpy.integers(16), axis=1)  # a numpy.random.Generator
        return torch.from_numpy(image) + torch.randn(
            16, 16, generator=rng.torch
        )  # a torch.Generator


def checksums(seed: int, **workers) -> list[str]:
    """Return a checksum of all augmented images, for each of two epochs."""
    loader = DataLoader(
        Augmented(),
        batch_size=8,
        shuffle=True,
        generator=torch.Generator().manual_seed(seed),
        **workers,
    )
    return [
        hashlib.sha256(b"".join(batch.numpy().tobytes() for batch in loader)).hexdigest()[:12]
        for _epoch in range(2)
    ]


def main() -> None:
    ways = {
        "no workers": {},
        "1 thread": {"num_workers": 1, "worker_method": "thread"},
        "2 threads": {"num_workers": 2, "worker_method": "thread"},
        "2 processes": {"num_workers": 2, "worker_method": "process"},
    }
    found = []
    for name, arguments in ways.items():
        found.append(checksums(seed=7, **arguments))
        print(f"seed 7, {name:11}: epochs {' and '.join(found[-1])}")
    print(
        "the same augmentations every time"
        if all(each == found[0] for each in found)
        else "THEY DIFFER"
    )
    print(f"seed 8, {'no workers':11}: epochs {' and '.join(checksums(seed=8))}")


if __name__ == "__main__":
    main()
