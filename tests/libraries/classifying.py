"""What the programs of torchvision and timm share: a folder of images, and the training of a
classifier on it.
"""

import numpy as np
import torch
from PIL import Image


def write_images(folder, number=24, classes=3):
    """Write images of noise, in a folder for each class; return *folder*."""
    for position in range(number):
        (folder / f"{position % classes}").mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(position).integers(0, 256, (40, 30, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{position % classes}" / f"{position:02}.png")
    return folder


def losses(model, criterion, optimizer, train, test, scheduler=None):
    """Train for two epochs, with an evaluation after each; return the loss of every batch."""
    of_batches = []
    for _epoch in range(2):
        model.train()
        for image, target in train:
            loss = criterion(model(image), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            of_batches.append(loss.item())
        if scheduler:
            scheduler.step()
        model.eval()
        with torch.inference_mode():
            of_batches += [criterion(model(image), target).item() for image, target in test]
    return of_batches
