"""The recipe of docs/libraries.md for timm's random transforms: the same losses for all workers.
The twins lack timm:

`./twins exec ft python tests/libraries/run.py timm` installs it and runs this file.
"""

import functools
import random

import numpy as np
import pytest
import torch

import ftloader
from tests.checkout import CHECKOUT
from tests.libraries.classifying import losses, write_images
from tests.libraries.kinds_of_workers import WORKERS, one_thread_for_each_operation
from tests.markdown_files import code_blocks

timm = pytest.importorskip("timm", reason="timm is not installed: run tests/libraries/run.py timm")
soft_targets = pytest.importorskip("timm.loss").SoftTargetCrossEntropy()
create_optimizer = pytest.importorskip("timm.optim").create_optimizer_v2

pytestmark = pytest.mark.slow

CLASSES = 3
# How create_loader augments, whether timm's prefetcher erases, and whether batches are mixed.
AUGMENTATIONS = {
    "crops and colours, erased": ({"re_prob": 0.5, "re_mode": "pixel"}, False, False),
    "RandAugment": ({"auto_augment": "rand-m9-mstd0.5-inc1"}, False, False),
    "AugMix": ({"auto_augment": "augmix-m5-w3", "train_crop_mode": "rkrr"}, False, False),
    "AutoAugment, erased by the prefetcher": (
        {"auto_augment": "original-mstd0.5", "re_prob": 0.5},
        True,
        False,
    ),
    "mixed batches": ({"color_jitter_prob": 0.5, "gaussian_blur_prob": 0.5}, True, True),
}


@pytest.fixture
def recipe(monkeypatch):
    """The names of the recipe. Puts timm's modules back at the end."""
    from timm.data import auto_augment, random_erasing, transforms

    for module, name in (
        *((module, "random") for module in (auto_augment, random_erasing, transforms)),
        (auto_augment, "np"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))
    blocks = code_blocks((CHECKOUT / "docs" / "libraries.md").read_text(), "python")
    names = {}
    exec(next(block for block in blocks if "timm.data" in block), names)
    return names


def trained(folder, wrap, options, prefetcher, mixed, workers):
    """Train as timm's train.py; return the loss of every batch."""
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    dataset = timm.data.create_dataset("", root=folder)
    usual = {"input_size": (3, 32, 32), "batch_size": 8, "device": torch.device("cpu")}
    usual |= {"num_workers": workers, "use_prefetcher": prefetcher, "worker_seeding": "part"}
    usual["persistent_workers"] = False  # they draw one seed for all epochs
    train = timm.data.create_loader(dataset, is_training=True, **usual, **options)
    train.dataset.transform = wrap(train.dataset.transform)
    model = timm.create_model("resnet10t", pretrained=False, num_classes=CLASSES)
    mixup = timm.data.Mixup(cutmix_alpha=1.0, num_classes=CLASSES) if mixed else None
    criterion = soft_targets if mixed else torch.nn.CrossEntropyLoss()
    optimizer = create_optimizer(model, opt="sgd", lr=0.01, momentum=0.9)
    with one_thread_for_each_operation():
        return losses(model, criterion, optimizer, Mixed(train, mixup), ())


class Mixed:
    """The batches of a loader, mixed in the thread of the training loop."""

    def __init__(self, loader, mixup):
        self._loader, self._mixup = loader, mixup

    def __iter__(self):
        for images, labels in self._loader:
            yield self._mixup(images, labels) if self._mixup else (images, labels)


def losses_with_each(monkeypatch, folder, wrap, case):
    found = {}
    for kind, options in WORKERS.items():
        arguments = {**options}
        workers = arguments.pop("num_workers", 0)
        ours = functools.partial(ftloader.DataLoader, **arguments)
        monkeypatch.setattr(torch.utils.data, "DataLoader", ours)
        found[kind] = trained(folder, wrap, *AUGMENTATIONS[case], workers)
    return found


@pytest.mark.parametrize("case", AUGMENTATIONS)
def test_the_recipe_gives_the_same_losses_for_all_workers(tmp_path, monkeypatch, recipe, case):
    if AUGMENTATIONS[case][1]:  # as the recipe says
        monkeypatch.setattr(timm.data.random_erasing, "random", random)
    write_images(tmp_path, classes=CLASSES)
    found = losses_with_each(monkeypatch, tmp_path, recipe["OfTheSample"], case)
    assert len(set(found["none"])) == 6
    assert found == dict.fromkeys(WORKERS, found["none"])


def test_without_the_recipe_the_losses_differ(tmp_path, monkeypatch):
    write_images(tmp_path, classes=CLASSES)
    found = losses_with_each(monkeypatch, tmp_path, lambda same: same, "RandAugment")
    assert found["none"] != found["two processes"]
