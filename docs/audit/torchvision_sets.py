"""Datasets and transforms of torchvision.

./twins audit docs/audit/torchvision_sets.py:folder
./twins audit docs/audit/torchvision_sets.py:augmented
./twins audit docs/audit/torchvision_sets.py:repeatable
./twins audit docs/audit/torchvision_sets.py:fake
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision import datasets, transforms

from ftloader import sample_draws

IMAGES = 64


def images() -> Path:
    root = Path(tempfile.mkdtemp(prefix="audit-"))
    for i in range(IMAGES):
        (root / f"class{i % 4}").mkdir(exist_ok=True)
        Image.fromarray(np.full((64, 64, 3), i, np.uint8)).save(root / f"class{i % 4}" / f"{i}.png")
    return root


def folder():
    """Files, decoded and resized: nothing is shared but the list of names."""
    return datasets.ImageFolder(
        images(), transforms.Compose([transforms.Resize(32), transforms.ToTensor()])
    )


CROPS = transforms.Compose(
    [
        transforms.RandomResizedCrop(32),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
    ]
)


def augmented():
    """Random crops, which draw from torch's global generator."""
    return datasets.ImageFolder(images(), CROPS)


def repeatable():
    """The same crops, drawn from the generator of each sample."""

    def of_the_sample(image: Image.Image) -> torch.Tensor:
        with sample_draws():
            return CROPS(image)

    return datasets.ImageFolder(images(), of_the_sample)


def fake():
    """FakeData seeds torch's global generator for each sample, draws, and puts its state back."""
    return datasets.FakeData(size=IMAGES, image_size=(3, 32, 32), transform=transforms.ToTensor())
