"""Time a loader with 0, 1, 2, ... workers, and draw the times with error bars: the standard
deviation of five passes, after one that does not count.

The dataset has a folder for each person, as Labelled Faces in the Wild has. Put yours in its place with --folder.
The transforms are torchvision's.
"""

import argparse
import tempfile
import time
from pathlib import Path

import matplotlib
import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset
from torchvision import transforms

from ftloader import DataLoader

matplotlib.use("Agg")  # draws without a display
from matplotlib import pyplot as plt  # noqa: E402


class Faces(Dataset):
    """Dataset of the images PERSON/PERSON_NUMBER.jpg in a folder."""

    def __init__(self, folder: Path, transform) -> None:
        self.paths = sorted(folder.glob("*/*.jpg"))
        self.transform = transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        with Image.open(self.paths[index]) as image:
            return self.transform(image.convert("RGB"))


def write_noise(folder: Path, people: int = 8, images: int = 16) -> None:
    """Write images of noise in the form of the dataset, for each person."""
    for person in range(people):
        (folder / f"Person_{person}").mkdir()
        for number in range(1, images + 1):
            pixels = np.random.default_rng([person, number]).integers(0, 256, (25, 25, 3), np.uint8)
            image = Image.fromarray(pixels).resize((250, 250))
            image.save(folder / f"Person_{person}" / f"Person_{person}_{number:04}.jpg")


def seconds(loader: DataLoader, batches: int, repetitions: int) -> np.ndarray:
    """Return the time for the first batches of an epoch, once for each repetition."""
    times = []
    for _ in range(1 + repetitions):
        start = time.perf_counter()
        for number, _batch in enumerate(loader, 1):
            if number == batches:
                break
        times.append(time.perf_counter() - start)
    return np.array(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description="Time a loader with 0 to N workers.")
    parser.add_argument("--folder", type=Path, help="PERSON/*.jpg (default: generated images)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="the most workers")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--plot", type=Path, default=Path("loading_time.png"))
    options = parser.parse_args()

    transform = transforms.Compose(
        [
            transforms.RandomAffine(degrees=(-5, 5), translate=(0.1, 0.1), scale=(0.5, 2.0)),
            transforms.Resize((64, 64)),
            transforms.ToTensor(),
        ]
    )
    with tempfile.TemporaryDirectory() as generated:
        if options.folder is None:
            write_noise(Path(generated))
        dataset = Faces(options.folder or Path(generated), transform)
        if len(dataset) < options.batches * options.batch_size:
            parser.error(f"{len(dataset)} images are fewer than --batches times --batch-size")
        numbers = range(options.workers + 1)
        means, deviations = [], []
        for number in numbers:
            loader = DataLoader(dataset, batch_size=options.batch_size, num_workers=number)
            times = seconds(loader, options.batches, repetitions=5)
            means.append(times.mean())
            deviations.append(times.std(ddof=1))
            print(f"num_workers={number}: {times.mean():.3f} s +- {times.std(ddof=1):.3f} s")

    plt.errorbar(numbers, means, yerr=deviations, capsize=4, marker="o")
    plt.xticks(numbers)
    plt.ylim(bottom=0)
    plt.xlabel("workers")
    plt.ylabel(f"seconds for {options.batches} batches")
    plt.savefig(options.plot)


if __name__ == "__main__":
    main()
