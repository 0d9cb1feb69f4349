"""Every random transform of torchvision, inside of sample_draws(): the same samples for all workers."""

import random

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils._pytree import tree_leaves
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import v2

from ftloader import DataLoader, sample_draws
from tests.datasets import Rows
from tests.libraries.kinds_of_workers import with_each

pytestmark = pytest.mark.slow

SAMPLES = 12
PIXELS = np.random.default_rng(1).integers(30, 220, (32, 40, 3), np.uint8)


def picture():
    return Image.fromarray(PIXELS)


def tensor():
    return torch.as_tensor(PIXELS).permute(2, 0, 1)


def floats():
    return tensor() / 255


def scene():
    """Return an image with boxes, their labels and a mask, for transforms of detection."""
    boxes = [[2, 3, 20, 25], [10, 8, 38, 30]]
    return {
        "image": tv_tensors.Image(tensor()),
        "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=PIXELS.shape[:2]),
        "mask": tv_tensors.Mask(tensor()[0] > 128),
        "labels": torch.tensor([1, 2]),
    }


def batch():
    return torch.stack([floats(), 1 - floats(), floats() ** 2]), torch.tensor([0, 1, 2])


COLOURS = {
    "ColorJitter": lambda family: family.ColorJitter(0.5, 0.5, 0.5, 0.3),
    "RandomAdjustSharpness": lambda family: family.RandomAdjustSharpness(3),
    "RandomAutocontrast": lambda family: family.RandomAutocontrast(),
    "RandomEqualize": lambda family: family.RandomEqualize(),
    "RandomGrayscale": lambda family: family.RandomGrayscale(0.5),
    "RandomInvert": lambda family: family.RandomInvert(),
    "RandomPosterize": lambda family: family.RandomPosterize(2),
    "RandomSolarize": lambda family: family.RandomSolarize(100),
    "GaussianBlur": lambda family: family.GaussianBlur(5),
}
PLACES = {
    "ElasticTransform": lambda family: family.ElasticTransform(),
    "RandomAffine": lambda family: family.RandomAffine(30, (0.1, 0.1), (0.8, 1.2), 10),
    "RandomCrop": lambda family: family.RandomCrop(24),
    "RandomHorizontalFlip": lambda family: family.RandomHorizontalFlip(),
    "RandomPerspective": lambda family: family.RandomPerspective(p=0.9),
    "RandomResizedCrop": lambda family: family.RandomResizedCrop(24, antialias=True),
    "RandomRotation": lambda family: family.RandomRotation(40),
    "RandomVerticalFlip": lambda family: family.RandomVerticalFlip(),
}
POLICIES = {
    "AugMix": lambda family: family.AugMix(),
    "AutoAugment": lambda family: family.AutoAugment(),
    "RandAugment": lambda family: family.RandAugment(),
    "TrivialAugmentWide": lambda family: family.TrivialAugmentWide(),
}
FLIPS = {
    "RandomApply": lambda family: family.RandomApply([family.RandomVerticalFlip(1.0)]),
}
ERASING = {"RandomErasing": lambda family: family.RandomErasing(0.9, value="random")}
CHOICES = {
    "RandomChoice": lambda family: family.RandomChoice(steps(family)),
    "RandomOrder": lambda family: family.RandomOrder(steps(family)),
}
DETECTION = {
    "RandomIoUCrop": lambda: v2.RandomIoUCrop(),
    "RandomPhotometricDistort": lambda: v2.RandomPhotometricDistort(),
    "RandomResize": lambda: v2.RandomResize(20, 40),
    "RandomShortestSize": lambda: v2.RandomShortestSize([20, 24, 28, 32, 36]),
    "RandomZoomOut": lambda: v2.RandomZoomOut(p=0.9),
    "ScaleJitter": lambda: v2.ScaleJitter((32, 40)),
}


def steps(family):
    """Return transforms whose order matters."""
    return [family.RandomRotation((90, 90)), family.Pad((3, 0, 0, 0)), family.CenterCrop(24)]


BOTH = {**COLOURS, **PLACES, **POLICIES, **FLIPS}
# Name of the transform: (the transform, the function that makes what it transforms).
NEWER = {
    **{name: (make(v2), picture) for name, make in {**BOTH, **CHOICES}.items()},
    **{name: (make(), scene) for name, make in DETECTION.items()},
    "CutMix": (v2.CutMix(num_classes=3), batch),
    "GaussianNoise": (v2.GaussianNoise(), floats),
    "JPEG": (v2.JPEG((5, 95)), tensor),
    "MixUp": (v2.MixUp(num_classes=3), batch),
    "RandomChannelPermutation": (v2.RandomChannelPermutation(), tensor),
    "RandomErasing": (ERASING["RandomErasing"](v2), floats),
}
OLDER = {
    **{name: (make(v1), picture) for name, make in BOTH.items()},
    "RandomErasing": (ERASING["RandomErasing"](v1), floats),
}
FIXED = """
AugmentationBase CenterCrop ClampBoundingBoxes ClampKeyPoints Compose ConvertBoundingBoxFormat
ConvertImageDtype FiveCrop Grayscale Identity Lambda LinearTransformation Normalize PILToTensor Pad RGB
Resize SanitizeBoundingBoxes SanitizeKeyPoints SetClampingMode TenCrop ToDtype ToImage ToPILImage
ToPureTensor ToTensor Transform UniformTemporalSubsample
""".split()
"""The transforms that draw no random numbers."""


def names_of_transforms(family):
    """Return the names of a module's classes whose objects can be called."""
    return {
        name
        for name, each in vars(family).items()
        if isinstance(each, type) and "__call__" in dir(each)
    }


def test_every_transform_is_known():
    assert names_of_transforms(v2) - set(FIXED) == set(NEWER)
    assert names_of_transforms(v1) - set(FIXED) == set(OLDER) | set(CHOICES)


def in_block(transform, make):
    """Return a dataset whose samples are equal but for the random numbers of *transform*."""

    def sample(_index):
        with sample_draws():
            result = transform(make())
        return [as_tensor(leaf) for leaf in tree_leaves(result)]

    return Rows(SAMPLES, sample)


def as_tensor(leaf):
    return leaf if isinstance(leaf, torch.Tensor) else torch.as_tensor(np.array(leaf))


def cases(transforms, family):
    return [pytest.param(*case, id=f"{family}.{name}") for name, case in transforms.items()]


def equal(some, others):
    """Return True if two lists of samples hold the same tensors."""
    return len(some) == len(others) and all(
        len(one) == len(other) and all(map(torch.equal, one, other))
        for one, other in zip(some, others, strict=True)
    )


@pytest.mark.parametrize(("transform", "make"), [*cases(NEWER, "v2"), *cases(OLDER, "v1")])
def test_the_same_samples_for_all_workers(transform, make):
    found = with_each(in_block(transform, make), batch_size=None)
    (alone,) = found["none"]
    assert any(not equal([alone[0]], [other]) for other in alone[1:]), "not random"
    assert [kind for kind, (samples,) in found.items() if not equal(samples, alone)] == []


@pytest.mark.parametrize("name", CHOICES)
def test_the_older_choices_draw_from_pythons_random(name):
    dataset = in_block(CHOICES[name](v1), picture)
    before = random.getstate()
    list(DataLoader(dataset, batch_size=None, generator=torch.Generator()))
    assert random.getstate() != before


def test_a_scripted_transform_draws_from_the_global_generator():
    transform = torch.jit.script(v1.RandomRotation(40))
    before = torch.get_rng_state()
    list(DataLoader(in_block(transform, tensor), batch_size=None, generator=torch.Generator()))
    assert not torch.equal(torch.get_rng_state(), before)
