"""The recipes of docs/libraries.md for torchvision's random transforms: the same images and losses for
all workers.
"""

import pytest
import torch
from torch import nn
from torch.utils.data import default_collate
from torchvision import models
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from ftloader import DataLoader, sample_draws
from tests.checkout import CHECKOUT
from tests.libraries.classifying import losses, write_images
from tests.libraries.kinds_of_workers import WORKERS, one_thread_for_each_operation, with_each
from tests.markdown_files import code_blocks

pytestmark = pytest.mark.slow

CLASSES = 3
# The steps of torchvision's references/classification/presets.py for training.
PRESET = v2.Compose(
    [
        *(v2.RandomResizedCrop(32, antialias=True), v2.RandomHorizontalFlip()),
        *(v2.TrivialAugmentWide(), v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)),
        v2.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
        *(v2.RandomErasing(p=0.5), v2.ToPureTensor()),
    ]
)
MIX = v2.RandomChoice([v2.MixUp(num_classes=CLASSES), v2.CutMix(num_classes=CLASSES)])


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    write_images(tmp_path / "train", 16, 2)
    monkeypatch.chdir(tmp_path)
    blocks = code_blocks((CHECKOUT / "docs" / "libraries.md").read_text(), "python")
    names = {}
    exec(next(block for block in blocks if "sample_draws" in block), names)
    return names["dataset"]


def test_the_recipe_gives_the_same_images_for_all_workers(dataset):
    found = [
        [torch.cat([images for images, _ in batches]) for batches in epochs]
        for epochs in with_each(dataset, epochs=2, batch_size=4).values()
    ]
    for first, second in found:
        assert torch.equal(first, found[0][0]) and torch.equal(second, found[0][1])
    assert not torch.equal(*found[0]), "another epoch draws other numbers"


def of_the_sample(image):
    with sample_draws():
        return PRESET(image)


def trained(folder, transform, mixed, **workers):
    """Train as torchvision's references/classification/train.py; return the loss of every batch."""
    torch.manual_seed(1)
    dataset = ImageFolder(folder, transform)
    train = DataLoader(dataset, batch_size=8, shuffle=True, **workers)
    test = DataLoader(dataset, batch_size=8, **workers)
    model = models.get_model("resnet18", weights=None, num_classes=CLASSES)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    with one_thread_for_each_operation():
        return losses(model, criterion, optimizer, Mixed(train) if mixed else train, test)


class Mixed:
    """The batches of a loader, mixed in the thread of the training loop."""

    def __init__(self, loader):
        self._loader = loader

    def __iter__(self):
        for images, labels in self._loader:
            yield MIX(images, labels)


@pytest.mark.parametrize("mixed", [False, True], ids=["images", "mixed batches"])
def test_training_with_random_transforms_gives_the_same_losses_for_all_workers(tmp_path, mixed):
    write_images(tmp_path, classes=CLASSES)
    found = {
        kind: trained(tmp_path, of_the_sample, mixed, **workers)
        for kind, workers in WORKERS.items()
    }
    assert len(set(found["none"])) == len(found["none"]) == 12
    assert found == dict.fromkeys(WORKERS, found["none"])


def test_training_outside_of_the_block_gives_other_losses(tmp_path):
    write_images(tmp_path, classes=CLASSES)
    alone, processes = (
        trained(tmp_path, PRESET, False, **WORKERS[kind]) for kind in ("none", "two processes")
    )
    assert alone != processes


def test_a_collate_fn_is_outside_of_a_sample(tmp_path):
    def collate(samples):
        with sample_draws():
            return MIX(*default_collate(samples))

    dataset = ImageFolder(write_images(tmp_path), of_the_sample)
    for workers in WORKERS.values():
        with pytest.raises(RuntimeError, match="not loading a sample"):
            list(DataLoader(dataset, batch_size=8, collate_fn=collate, **workers))
