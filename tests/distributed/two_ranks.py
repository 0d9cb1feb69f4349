"""Program for torchrun: writes what each rank sees of a dataset through DistributedSampler, as JSON."""

import json
import sys

import torch
import torch.distributed as dist
from torch.utils.data import Dataset, DistributedSampler

import ftloader

SIZE, BATCH, EPOCHS = 101, 8, 3


class Rows(Dataset):
    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        return torch.full((5000,), index), index


def epochs(cls, shuffle, drop_last, **arguments):
    sampler = DistributedSampler(Rows(), shuffle=shuffle, drop_last=drop_last, seed=3)
    dl = cls(Rows(), batch_size=BATCH, sampler=sampler, **arguments)
    found = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        seen = []
        for rows, indices in dl:
            assert torch.equal(rows, indices[:, None].expand_as(rows))
            total = indices.sum()
            dist.all_reduce(total)  # as in training: each batch has its collective operation
            seen += indices.tolist()
        found.append(seen)
    return found


def main(path):
    dist.init_process_group("gloo")
    answers = {}
    for shuffle, drop_last in ((True, False), (True, True), (False, False)):
        for name, cls, arguments in (
            ("torch", torch.utils.data.DataLoader, {}),
            ("serial", ftloader.DataLoader, {}),
            ("thread", ftloader.DataLoader, {"num_workers": 2, "worker_method": "thread"}),
            (
                "persistent",
                ftloader.DataLoader,
                {"num_workers": 2, "worker_method": "thread", "persistent_workers": True},
            ),
            ("process", ftloader.DataLoader, {"num_workers": 1, "worker_method": "process"}),
        ):
            mine = epochs(cls, shuffle, drop_last, **arguments)
            everyones = [None] * dist.get_world_size()
            dist.all_gather_object(everyones, mine)
            answers[f"{name} {shuffle} {drop_last}"] = everyones
    if dist.get_rank() == 0:
        with open(path, "w") as file:
            json.dump(answers, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
