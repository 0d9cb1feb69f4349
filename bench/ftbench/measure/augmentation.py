"""Augmentations of images for training a classifier: torchvision's, with ftloader.sample_draws.

Random numbers depend on the sample alone, so the images are the same
for any number and kind of workers.
"""

import torch
from PIL import Image
from torchvision.transforms import v2

from ftloader import sample_draws

SIDE = 224
# Mean and deviation of ImageNet's pixels. Most trained networks expect pictures that are
# standardised by them.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

CROP = (v2.RandomResizedCrop(SIDE, scale=(0.25, 1)), v2.RandomHorizontalFlip())
FLOAT = (v2.ToImage(), v2.ToDtype(torch.float32, scale=True))
STANDARD = v2.Normalize(MEAN, DEVIATION)
AUGMENTATIONS = {
    "light": v2.Compose([*CROP, *FLOAT, STANDARD, v2.ToPureTensor()]),
    "heavy": v2.Compose(
        [
            v2.RandomAffine(30, translate=(0.1, 0.1), scale=(0.8, 1.2), shear=10),
            *CROP,
            v2.GaussianBlur(5, sigma=(0.1, 2)),
            v2.ColorJitter(brightness=0.4, contrast=0.4, saturation=0.4),
            *FLOAT,
            v2.GaussianNoise(sigma=0.02),
            STANDARD,
            v2.RandomErasing(p=1, scale=(0.02, 0.2)),
            v2.ToPureTensor(),
        ]
    ),
}


class Augmented:
    """Dataset of augmented and standardised images: sample i is a float32 (3, 224, 224) tensor."""

    def __init__(self, paths: list[str], amount: str):
        self._paths, self._augment = tuple(paths), AUGMENTATIONS[amount]

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        with Image.open(self._paths[index]) as file:
            image = file.convert("RGB")
        with sample_draws():
            return self._augment(image)
