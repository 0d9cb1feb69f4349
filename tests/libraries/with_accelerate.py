# /// script
# dependencies = ["accelerate==1.15.0"]
# ///
"""Accelerate: `prepare`, which puts a loader of its own around each loader, and going on in the
middle of an epoch.
"""

import torch
from accelerate import Accelerator, DataLoaderConfiguration, skip_first_batches
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Rows(Dataset):
    def __len__(self):
        return 45

    def __getitem__(self, index):
        return {"row": torch.full((3,), float(index)), "index": index}


class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        for index in range(worker.id, 45, worker.num_workers):
            yield {"row": torch.full((3,), float(index)), "index": index}


def prepared(dataset=None, configuration=None, **options):
    accelerator = Accelerator(cpu=True, dataloader_config=configuration)
    loader = DataLoader(dataset or Rows(), batch_size=8, num_workers=2, **options)
    return accelerator, accelerator.prepare(loader)


def indices(loader):
    return [batch["index"].tolist() for batch in loader]


def program_prepare(folder):
    set_seed(1)
    accelerator, loader = prepared(shuffle=True)
    return [indices(loader) for _ in range(3)] + [torch.rand(()).item()]


def program_seedable_sampler(folder):
    set_seed(2)
    accelerator, loader = prepared(
        shuffle=True, configuration=DataLoaderConfiguration(use_seedable_sampler=True)
    )
    found = []
    for epoch in range(3):
        loader.set_epoch(epoch)
        found.append(indices(loader))
    return found


def program_skip_first_batches(folder):
    set_seed(3)
    accelerator, loader = prepared(shuffle=True)
    return [
        indices(skip_first_batches(loader, 3)),
        indices(accelerator.skip_first_batches(loader, 2)),
    ]


def program_iterable(folder):
    accelerator, loader = prepared(Stream())
    return [indices(loader), indices(loader)]


def program_dispatched(folder):
    accelerator, loader = prepared(Stream(), DataLoaderConfiguration(dispatch_batches=True))
    return [indices(loader), indices(loader)]


def program_gather_for_metrics(folder):
    accelerator, loader = prepared(shuffle=False, persistent_workers=True)
    return [
        accelerator.gather_for_metrics(batch["row"]).tolist() for _ in range(2) for batch in loader
    ]


def program_training(folder):
    set_seed(4)
    model = torch.nn.Linear(3, 1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    optimizer = torch.optim.SGD(model.parameters(), 0.001)
    loader = DataLoader(Rows(), batch_size=8, shuffle=True, num_workers=2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(2):
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(batch["row"] / 45).square().mean())
                optimizer.step()
                optimizer.zero_grad()
    return model.weight.tolist()
