"""Data-parallel training that goes on with another number of ranks: torchrun, gloo, ftloader's DistributedSampler.

    ./twins exec ft python examples/elastic_ranks.py

The program starts itself with torchrun in 4 ranks. One of them is killed in the middle of the epoch, and torchrun ends
the others. Then it starts itself in 2 ranks, which load the checkpoint and share out the rest of the epoch.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset

from ftloader import DataLoader, sample_rng
from ftloader.distributed import DistributedSampler

SAMPLES, EPOCHS = 512, 2
TOGETHER = 32  # samples of all ranks in one step
KILLED_AFTER = 11  # steps


class Points(Dataset):
    """Dataset of points of the plane, with noise; the target is 1 above the diagonal."""

    def __init__(self):
        self.points = torch.rand(SAMPLES, 2, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        point = self.points[index]
        # The same noise in whichever rank, and after whichever restart.
        noise = 0.01 * torch.randn(2, generator=sample_rng().torch)
        return point + noise, (point[1] > point[0]).float(), index


def train(checkpoint: Path) -> None:
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    dataset = Points()
    model = DistributedDataParallel(nn.Linear(2, 1))
    optimiser = torch.optim.SGD(model.parameters(), lr=2.0)
    sampler = DistributedSampler(dataset)
    # The generator gives all ranks the same base seed, from which those of the samples are made.
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(
        dataset, TOGETHER // ranks, sampler=sampler, num_workers=2, generator=generator
    )
    first, seen = 0, []
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimiser.load_state_dict(saved["optimiser"])
        loader.load_state_dict(saved["loader"])  # of rank 0, for all ranks
        first, seen = saved["epoch"], saved["seen"]
    if rank == 0:
        print(f"{ranks} ranks begin in epoch {first}, after {len(seen)} samples of it", flush=True)
    for epoch in range(first, EPOCHS):
        sampler.set_epoch(epoch)
        for step, (points, labels, indices) in enumerate(loader, 1):
            loss = nn.functional.binary_cross_entropy_with_logits(model(points)[:, 0], labels)
            optimiser.zero_grad()
            loss.backward()  # averages the gradients of all ranks
            optimiser.step()
            shares = [torch.empty_like(indices) for _ in range(ranks)]
            dist.all_gather(shares, indices)
            seen += torch.cat(shares).tolist()
            if step % 4 == 0 and rank == 0:  # all ranks have made the same steps
                saved = {
                    "model": model.state_dict(),
                    "optimiser": optimiser.state_dict(),
                    "epoch": epoch,
                }
                torch.save(
                    {**saved, "seen": seen, "loader": loader.state_dict()},
                    checkpoint.with_suffix(".new"),
                )
                os.replace(checkpoint.with_suffix(".new"), checkpoint)
            if step == KILLED_AFTER and ranks == 4 and rank == 3:
                print(f"rank 3 is killed after step {step}, {len(seen)} samples", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
        if rank == 0:
            once = sorted(seen) == list(range(SAMPLES))
            print(
                f"epoch {epoch}: {len(seen)} samples, each of the {SAMPLES} once: {once}",
                flush=True,
            )
        seen = []
    dist.destroy_process_group()


def main() -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    with tempfile.TemporaryDirectory() as folder:
        for ranks in 4, 2:
            command = [*torchrun, str(ranks), __file__, str(Path(folder) / "checkpoint.pt")]
            # torchrun reports the rank that is killed at length.
            done = subprocess.run(command, stderr=subprocess.DEVNULL if ranks == 4 else None)
            print(f"torchrun ended with exit status {done.returncode}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(Path(sys.argv[1]))
    else:
        main()
