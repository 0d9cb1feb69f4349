"""The loader makes no collective operation, which would wait
for ranks that load at another time.
"""

import pytest

PROGRAM = """
import datetime, os, signal
import torch.distributed as dist
from ftloader import DataLoader
from ftloader.distributed import DistributedSampler

child = os.fork()
dist.init_process_group(
    "gloo", init_method="file://{folder}/rendezvous", rank=int(child == 0), world_size=2,
    timeout=datetime.timedelta(seconds=120),
)
short = dist.new_group(timeout=datetime.timedelta(seconds=2))
if child == 0:  # is alive, and joins no operation
    signal.alarm(600)  # ends the process
    signal.pause()


class Joined:
    def __len__(self):
        return 20

    def __getitem__(self, index):
        dist.barrier(short)


ways = {{"workers": 0}}, {{"workers": 2, "method": "thread"}}, {{"workers": 2, "method": "process"}}


def make(dataset, workers, method="auto"):
    sampler = DistributedSampler(dataset)
    assert (sampler.num_replicas, sampler.rank) == (2, 0)
    return DataLoader(
        dataset, 2, sampler=sampler, num_workers=workers, worker_method=method, persistent_workers=workers > 0
    )


for way in ways:
    loader = make(range(20), **way)
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        for step, batch in enumerate(loader):
            if step == 1:
                state = loader.state_dict()
        assert step == 4
    loader = make(range(20), **way)
    loader.load_state_dict(state)
    assert len(list(loader)) == 3 and len(list(loader)) == 5
for way in ways[:2]:  # a forked process has no threads of gloo, and would wait forever
    try:
        next(iter(make(Joined(), **way)))
    except RuntimeError as error:
        assert "timeout" in str(error).lower() or "timed out" in str(error).lower(), error
        print("it would wait")
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
"""


@pytest.mark.slow
def test_no_collective_operations(run_program, tmp_path):
    status, out, err = run_program(PROGRAM.format(folder=tmp_path))
    assert status == 0 and out.splitlines().count("it would wait") == 2, out + err
