# /// script
# dependencies = ["timm==1.0.31"]
# ///
"""timm: its datasets, its loader and its models, as its train.py puts them together.

timm needs safetensors, which has no wheel for free-threaded builds, so it runs with the GIL alone.
"""

import numpy as np
import torch
from PIL import Image
from timm import create_model
from timm.data import create_dataset, create_loader
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2


def images(folder):
    for number in range(24):
        (folder / f"{number % 3}").mkdir(exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (40, 30, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{number % 3}" / f"{number:02}.png")
    return folder


def losses(folder, **options):
    torch.manual_seed(1)
    dataset = create_dataset("", root=images(folder))
    usual = {"input_size": (3, 32, 32), "batch_size": 8, "num_workers": 2}
    usual["device"] = torch.device("cpu")
    train = create_loader(dataset, is_training=True, no_aug=True, **usual, **options)
    test = create_loader(dataset, is_training=False, **usual, **options)
    model = create_model("resnet10t", pretrained=False, num_classes=3)
    criterion = LabelSmoothingCrossEntropy()
    optimizer = create_optimizer_v2(model, opt="sgd", lr=0.01, momentum=0.9)
    found = []
    for _epoch in range(2):
        model.train()
        for image, target in train:
            loss = criterion(model(image), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        model.eval()
        with torch.inference_mode():
            found += [criterion(model(image), target).item() for image, target in test]
    return found


def program_training(folder):
    return losses(folder, use_prefetcher=False)


def program_training_with_its_prefetcher(folder):
    return losses(folder, use_prefetcher=True)
