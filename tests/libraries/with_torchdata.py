# /// script
# dependencies = ["torchdata==0.11.0"]
# ///
"""torchdata: samplers that keep their place, nodes in front of a loader,
behind it and inside its workers.
"""

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate, get_worker_info
from torchdata import nodes
from torchdata.stateful_dataloader.sampler import (
    BatchSampler,
    RandomSampler,
    StatefulDistributedSampler,
)


class Squares(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return {"index": index, "square": torch.tensor([index**2, -index])}


def plain(batches):
    return [{key: value.tolist() for key, value in batch.items()} for batch in batches]


def program_random_sampler(folder):
    sampler = RandomSampler(Squares(), generator=torch.Generator().manual_seed(3))
    loader = DataLoader(Squares(), batch_size=4, sampler=sampler, num_workers=2)
    return [plain(loader), plain(loader)]


def program_batch_sampler(folder):
    # Not torchdata's RandomSampler, which draws in iter(): torch's processes call that twice.
    sampler = torch.utils.data.RandomSampler(Squares(), generator=torch.Generator().manual_seed(4))
    sampler = BatchSampler(sampler, 3, drop_last=True)
    return plain(DataLoader(Squares(), batch_sampler=sampler, num_workers=2))


def program_distributed_sampler(folder):
    found = []
    for rank in range(2):
        sampler = StatefulDistributedSampler(Squares(), num_replicas=2, rank=rank, seed=5)
        loader = DataLoader(Squares(), batch_size=4, sampler=sampler, num_workers=2)
        for epoch in range(2):
            sampler.set_epoch(epoch)
            found.append(plain(loader))
    return found


def program_loader_as_source_of_nodes(folder):
    loader = DataLoader(Squares(), batch_size=4, num_workers=2)
    node = nodes.Prefetcher(
        nodes.ParallelMapper(nodes.IterableWrapper(loader), map_fn=doubled, num_workers=2), 2
    )
    return [plain(nodes.Loader(node)), plain(nodes.Loader(node))]


def program_nodes_go_on(folder):
    def loader():
        source = nodes.IterableWrapper(DataLoader(Squares(), batch_size=4, num_workers=2))
        return nodes.Loader(nodes.Prefetcher(source, 2))

    first = loader()
    batches = iter(first)
    begun = [next(batches) for _ in range(3)]
    second = loader()
    second.load_state_dict(first.state_dict())
    return plain(begun) + plain(second)


class Nodes(IterableDataset):
    """Stream that runs a graph of nodes in each worker."""

    def __iter__(self):
        worker = get_worker_info()
        source = nodes.IterableWrapper(range(worker.id, 40, worker.num_workers))
        mapped = nodes.ParallelMapper(source, map_fn=Squares().__getitem__, num_workers=2)
        yield from nodes.Loader(nodes.Batcher(mapped, 3, drop_last=False))


def program_nodes_in_workers(folder):
    loader = DataLoader(Nodes(), batch_size=None, collate_fn=default_collate, num_workers=2)
    return [plain(loader), plain(loader)]


def doubled(batch):
    return {key: value * 2 for key, value in batch.items()}
