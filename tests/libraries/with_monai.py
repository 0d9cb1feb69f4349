# /// script
# dependencies = ["monai==1.6.1"]
# ///
"""MONAI: its DataLoader, which is a subclass of torch's, over datasets that cache."""

import copy

import numpy as np
import torch
from monai.data import (
    CacheDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    PersistentDataset,
    list_data_collate,
)
from monai.transforms import (
    Compose,
    EnsureChannelFirstd,
    LoadImaged,
    RandFlipd,
    RandRotate90d,
    RandSpatialCropd,
    ScaleIntensityd,
    ToTensord,
)


def files(folder):
    found = []
    for number in range(16):
        image = np.random.default_rng(number).random((12, 10), np.float32)
        np.save(folder / f"{number}.npy", image)
        np.save(folder / f"{number}-label.npy", (image > 0.5).astype(np.float32))
        found.append(
            {"image": str(folder / f"{number}.npy"), "label": str(folder / f"{number}-label.npy")}
        )
    return found


BOTH = ["image", "label"]
STEPS = [
    LoadImaged(BOTH, reader="NumpyReader"),
    EnsureChannelFirstd(BOTH, channel_dim="no_channel"),
    ScaleIntensityd("image"),
    ToTensord(BOTH, track_meta=False),
]


def sums(batches):
    return [
        [[batch[key].sum(dtype=torch.float64).item(), list(batch[key].shape)] for key in BOTH]
        for batch in batches
    ]


def program_dataset(folder):
    loader = DataLoader(Dataset(files(folder), Compose(STEPS)), batch_size=4, num_workers=2)
    return [sums(loader), sums(loader)]


def program_cache_dataset(folder):
    dataset = CacheDataset(files(folder), Compose(STEPS), cache_rate=0.5, progress=False)
    return sums(DataLoader(dataset, batch_size=4, num_workers=2))


def program_persistent_dataset(folder):
    dataset = PersistentDataset(files(folder), Compose(STEPS), cache_dir=folder / "cache")
    loader = DataLoader(dataset, batch_size=4, num_workers=2, collate_fn=list_data_collate)
    return [sums(loader), sums(loader)]


def program_iterable(folder):
    dataset = IterableDataset(files(folder), Compose(STEPS))
    return sums(DataLoader(dataset, batch_size=4, num_workers=2))


class WithOwnTransform(Dataset):
    """Dataset with a random transform that keeps its draws in attributes,
    which threads would share.
    """

    def _transform(self, index):
        transform = copy.deepcopy(self.transform)
        transform.set_random_state(index)
        return transform(self.data[index])


def program_random_transforms(folder):
    random = [
        RandFlipd(BOTH, prob=0.5),
        RandRotate90d(BOTH, prob=0.5),
        RandSpatialCropd(BOTH, (6, 6), random_size=False),
    ]
    dataset = WithOwnTransform(files(folder), Compose([*STEPS, *random]))
    loader = DataLoader(dataset, batch_size=4, num_workers=2)
    return [sums(loader), sums(loader)]
