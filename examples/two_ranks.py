"""Data-parallel training in two ranks on the CPU: torchrun, gloo, DistributedSampler, DistributedDataParallel.

    ./twins exec ft python -m torch.distributed.run --nproc-per-node 2 examples/two_ranks.py

Each rank has a loader with workers of its own, and the sampler gives it its half of the samples.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset, DistributedSampler

from ftloader import DataLoader

SAMPLES = 512


class Points(Dataset):
    """Dataset of points of the plane; the target is 1 above the diagonal."""

    def __init__(self):
        self.points = torch.rand(SAMPLES, 2, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        point = self.points[index]
        return point, (point[1] > point[0]).float(), index


def main() -> None:
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    dataset = Points()
    model = DistributedDataParallel(nn.Linear(2, 1))
    optimiser = torch.optim.SGD(model.parameters(), lr=2.0)
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=16, sampler=sampler, num_workers=2)
    for epoch in range(5):
        sampler.set_epoch(epoch)  # another order in each epoch, the same one in all ranks
        seen, loss = [], None
        for points, labels, indices in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(points)[:, 0], labels)
            optimiser.zero_grad()
            loss.backward()  # averages the gradients of all ranks
            optimiser.step()
            seen += indices.tolist()
        everyones = [None] * ranks
        dist.all_gather_object(everyones, seen)
        if rank == 0:
            once = sorted(sum(everyones, [])) == list(range(SAMPLES))
            shares = ", ".join(
                f"rank {number}: {len(share)}" for number, share in enumerate(everyones)
            )
            print(
                f"epoch {epoch}: loss {loss.item():.3f}; {shares}; each sample once: {once}",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
