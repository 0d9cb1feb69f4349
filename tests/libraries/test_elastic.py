"""ftloader's DistributedSampler in loaders that Accelerate has prepared: the number of ranks changes in an epoch."""

import os
import sys

import pytest

from tests.checkout import importable
from tests.programs import completed

PROGRAM = """
import sys
import torch.utils.data
import ftloader
from ftloader.distributed import DistributedSampler
from torchdata.stateful_dataloader import StatefulDataLoader

if sys.argv[1] == "torchdata's":
    Loader, stateful = StatefulDataLoader, True
else:
    Loader, stateful = ftloader.DataLoader, False
    torch.utils.data.DataLoader = ftloader.DataLoader

from accelerate import PartialState
from accelerate.data_loader import prepare_data_loader

device = PartialState(cpu=True).device
SIZE, EPOCH = 61, 3


def loaders(ranks, size):
    for rank in range(ranks):
        sampler = DistributedSampler(range(SIZE), ranks, rank)
        loader = Loader(range(SIZE), size, sampler=sampler, num_workers=2)
        yield prepare_data_loader(
            loader, device, num_processes=1, process_index=0, put_on_device=True, use_stateful_dataloader=stateful
        )


samples, state = [], None
for ranks, steps, size in (4, 2, 3), (2, 3, 2), (3, 1, 4), (1, None, 5):
    states = []
    for loader in loaders(ranks, size):
        if state is not None:
            loader.load_state_dict(state)
        loader.set_epoch(EPOCH)
        for step, batch in enumerate(loader, 1):
            samples += batch.tolist()
            if step == steps:
                states.append(loader.state_dict())
                break
    if states:
        state = states[-1]
assert sorted(samples) == list(range(SIZE)), sorted(samples)
loader.set_epoch(EPOCH + 1)
for batch in loader:
    last = loader.state_dict()
(resumed,) = loaders(1, 5)
resumed.load_state_dict(last)
resumed.set_epoch(EPOCH + 2)
assert sorted(torch.cat(list(resumed)).tolist()) == list(range(SIZE))
"""


@pytest.mark.parametrize("loader", ["torchdata's", "ours"])
def test_with_accelerate(loader):
    pytest.importorskip("accelerate", reason="accelerate is not installed: run tests/libraries/run.py in this twin")
    environment = {**os.environ, "PYTHONPATH": importable()}
    completed([sys.executable, "-c", PROGRAM, loader], 0, env=environment, timeout=280)
