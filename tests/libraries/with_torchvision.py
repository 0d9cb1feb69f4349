# /// script
# dependencies = ["torchvision==0.25.0"]
# ///
"""torchvision: folders of images, both families of transforms, transforms of whole batches, and the
training of a classifier as in torchvision's references/classification/train.py.
"""

import torch
from classifying import losses, write_images
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, default_collate
from torchvision import datasets, models, transforms, tv_tensors
from torchvision.transforms import v2


def sums(batches):
    return [
        [images.sum(dtype=torch.float64).item(), list(images.shape), labels.tolist()]
        for images, labels in batches
    ]


def program_image_folder(folder):
    steps = [
        transforms.Resize(24),
        transforms.CenterCrop(20),
        transforms.ToTensor(),
        transforms.Normalize([0.5], [0.2]),
    ]
    dataset = datasets.ImageFolder(write_images(folder), transforms.Compose(steps))
    loader = DataLoader(
        dataset,
        batch_size=4,
        shuffle=True,
        num_workers=2,
        generator=torch.Generator().manual_seed(1),
    )
    return [sums(loader), sums(loader)]


def program_v2(folder):
    steps = [v2.ToImage(), v2.Resize(24), v2.CenterCrop(20), v2.ToDtype(torch.float32, scale=True)]
    return sums(
        DataLoader(
            datasets.ImageFolder(write_images(folder), v2.Compose(steps)),
            batch_size=4,
            num_workers=2,
        )
    )


def program_random_transforms(folder):
    # The numbers are those of the global generators:
    # which ones a sample gets depends on the workers.
    steps = [v2.ToImage(), v2.RandomResizedCrop(16), v2.RandomHorizontalFlip(), v2.ColorJitter(0.5)]
    loader = DataLoader(
        datasets.ImageFolder(write_images(folder), v2.Compose(steps)), batch_size=4, num_workers=2
    )
    first, second = (list(loader) for _ in range(2))
    differ = [not torch.equal(a, b) for (a, _), (b, _) in zip(first, second)]
    return [[list(pixels.shape), labels.tolist()] for pixels, labels in first] + [differ]


class Boxes(datasets.VisionDataset):
    """An image and its mask, which must be cropped and flipped alike."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        image = torch.arange(20 * 20, dtype=torch.float32).reshape(1, 20, 20) + index
        return self.transforms(tv_tensors.Image(image), tv_tensors.Mask(image.clone()))


def program_image_and_mask(folder):
    steps = v2.Compose([v2.RandomCrop(12), v2.RandomHorizontalFlip(), v2.RandomVerticalFlip()])
    loader = DataLoader(Boxes(folder, transforms=steps), batch_size=8, num_workers=2)
    return [[torch.equal(image, mask), list(image.shape)] for image, mask in loader]


def program_batch_transforms(folder):
    mix = v2.MixUp(num_classes=3)
    dataset = datasets.ImageFolder(
        write_images(folder), v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    )
    loader = DataLoader(
        dataset,
        batch_size=4,
        num_workers=2,
        collate_fn=lambda samples: mix(*default_collate(samples)),
    )
    return [[list(pixels.shape), labels.sum().item() > 3.99] for pixels, labels in loader]


def program_classification_reference(folder):
    # Without random transforms, whose numbers depend on the workers (program_random_transforms).
    torch.manual_seed(1)
    preset = v2.Compose(
        [
            v2.Resize(36),
            v2.CenterCrop(32),
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
            v2.ToPureTensor(),
        ]
    )
    dataset = datasets.ImageFolder(write_images(folder), preset)
    train, test = (
        DataLoader(dataset, batch_size=8, sampler=sampler(dataset), num_workers=2)
        for sampler in (RandomSampler, SequentialSampler)
    )
    model = models.get_model("resnet18", weights=None, num_classes=len(dataset.classes))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    return losses(model, criterion, optimizer, train, test, scheduler)
