# /// script
# dependencies = ["timm==1.0.31"]
# ///
"""timm: its datasets, its loader and its models, as its train.py puts them together.

Without the GIL it runs without safetensors, which has no wheel for free-threaded builds: timm imports
it in a ``try``, and needs it only for files of weights in that format.
"""

import torch
from classifying import losses, write_images
from timm import create_model
from timm.data import create_dataset, create_loader
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2


def trained(folder, **options):
    torch.manual_seed(1)
    dataset = create_dataset("", root=write_images(folder))
    usual = {"input_size": (3, 32, 32), "batch_size": 8, "num_workers": 2}
    usual["device"] = torch.device("cpu")
    train = create_loader(dataset, is_training=True, no_aug=True, **usual, **options)
    test = create_loader(dataset, is_training=False, **usual, **options)
    model = create_model("resnet10t", pretrained=False, num_classes=3)
    criterion = LabelSmoothingCrossEntropy()
    optimizer = create_optimizer_v2(model, opt="sgd", lr=0.01, momentum=0.9)
    return losses(model, criterion, optimizer, train, test)


def program_training(folder):
    return trained(folder, use_prefetcher=False)


def program_training_with_its_prefetcher(folder):
    return trained(folder, use_prefetcher=True)
