"""Samplers: the order that torch gives, with as many draws from the generators."""

import itertools
import random

import numpy as np
import pytest
import torch
import torch.utils.data
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from ftloader import DataLoader
from tests.datasets import Rows, seeded

ROWS = range(23)


def both(workers, make_arguments):
    """Return ours and torch's: the batches of two epochs,
    and the next draws from the generators.
    """
    found = []
    for cls, more in ((DataLoader, workers), (torch.utils.data.DataLoader, {"num_workers": 0})):
        torch.manual_seed(17)
        np.random.seed(17)
        random.seed(17)
        dl = cls(Rows(len(ROWS)), **make_arguments(), **more)
        batches = [batch.tolist() for _ in range(2) for batch in dl]
        draws = torch.randint(2**40, ()).item(), random.random(), float(np.random.rand())
        own = getattr(dl, "generator", None)
        found.append((batches, draws, None if own is None else own.get_state().tolist()))
    return found


SAMPLERS = {
    "sequential": dict,
    "shuffle": lambda: {"shuffle": True},
    "shuffle in batches": lambda: {"shuffle": True, "batch_size": 5},
    "shuffle, drop_last": lambda: {"shuffle": True, "batch_size": 5, "drop_last": True},
    "shuffle without batches": lambda: {
        "shuffle": True,
        "batch_size": None,
        "collate_fn": torch.as_tensor,
    },
    "generator": lambda: {"shuffle": True, "batch_size": 4, "generator": seeded(5)},
    "generator without shuffle": lambda: {"batch_size": 4, "generator": seeded(5)},
    "RandomSampler": lambda: {"sampler": RandomSampler(ROWS), "batch_size": 4},
    "RandomSampler with replacement": lambda: {
        "sampler": RandomSampler(ROWS, True, 50),
        "batch_size": 4,
    },
    "RandomSampler, more than there are": lambda: {
        "sampler": RandomSampler(ROWS, num_samples=70),
        "batch_size": 4,
    },
    "RandomSampler with a generator": lambda: {
        "sampler": RandomSampler(ROWS, generator=seeded(9)),
        "batch_size": 4,
    },
    "one generator for sampler and loader": lambda: (
        lambda g: {"sampler": RandomSampler(ROWS, generator=g), "generator": g, "batch_size": 4}
    )(seeded(9)),
    "SubsetRandomSampler": lambda: {
        "sampler": SubsetRandomSampler([3, 1, 4, 15, 9, 2, 6]),
        "batch_size": 2,
    },
    "WeightedRandomSampler": lambda: {
        "sampler": WeightedRandomSampler([i + 0.1 for i in ROWS], 30),
        "batch_size": 4,
    },
    "WeightedRandomSampler without replacement": lambda: {
        "sampler": WeightedRandomSampler([i + 0.1 for i in ROWS], 20, replacement=False),
        "batch_size": 4,
    },
    "BatchSampler": lambda: {
        "batch_sampler": BatchSampler(RandomSampler(ROWS), 6, drop_last=False)
    },
    "BatchSampler, drop_last": lambda: {
        "batch_sampler": BatchSampler(SequentialSampler(ROWS), 6, drop_last=True)
    },
    "BatchSampler as sampler": lambda: {
        "sampler": BatchSampler(RandomSampler(range(5)), 2, False),
        "batch_size": None,
        "collate_fn": torch.as_tensor,
    },
    "a list": lambda: {"sampler": [5, 5, 0, 22], "batch_size": 3},
    "lists": lambda: {"batch_sampler": [[1, 2], [3], [22, 0, 1]]},
    "tuples": lambda: {"batch_sampler": [(1, 2), (3,)]},
    "tensor": lambda: {"sampler": torch.tensor([3, 2, 1]), "batch_size": 2},
}


@pytest.mark.parametrize("kind", SAMPLERS)
def test_order_and_draws(kind, light_workers):
    ours, torchs = both(light_workers, SAMPLERS[kind])
    assert ours == torchs


@pytest.mark.parametrize("kind", ["shuffle in batches", "one generator for sampler and loader"])
def test_order_and_draws_with_processes(kind):
    ours, torchs = both({"num_workers": 1, "worker_method": "process"}, SAMPLERS[kind])
    assert ours == torchs


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.slow(cases=1)
def test_draws_with_persistent_workers_equal_torchs(persistent):
    """torch draws a base seed at the start of each epoch too."""
    found = []
    for cls, more in (
        (DataLoader, {"worker_method": "thread"}),
        (DataLoader, {"worker_method": "process"}),
        (torch.utils.data.DataLoader, {}),
    ):
        torch.manual_seed(3)
        dl = cls(
            ROWS, shuffle=True, batch_size=4, num_workers=1, persistent_workers=persistent, **more
        )
        found.append(
            ([batch.tolist() for _ in range(3) for batch in dl], torch.randint(2**40, ()).item())
        )
    assert found[0] == found[2]
    assert found[1] == found[2]


@pytest.mark.parametrize("arguments", [{}, {"drop_last": True}, {"shuffle": False}], ids=str)
def test_each_rank_and_epoch_of_a_distributed_sampler(arguments, workers):
    def epochs(cls, rank, **more):
        sampler = DistributedSampler(ROWS, num_replicas=2, rank=rank, seed=3, **arguments)
        dl = cls(ROWS, batch_size=4, sampler=sampler, **more)
        found = []
        for epoch in range(3):
            sampler.set_epoch(epoch)
            found.append([batch.tolist() for batch in dl])
        return found

    workers["persistent_workers"] = bool(workers["num_workers"])
    for rank in range(2):
        assert epochs(DataLoader, rank, **workers) == epochs(torch.utils.data.DataLoader, rank)


def test_an_iterator_that_is_never_asked_draws_what_torchs_draws(light_workers):
    found = []
    for cls, more in ((DataLoader, light_workers), (torch.utils.data.DataLoader, {})):
        torch.manual_seed(8)
        for _ in range(3):
            iter(cls(ROWS, batch_size=2, **more))
        found.append(torch.randint(2**40, ()).item())
    assert found[0] == found[1]


class Counting(Sampler):
    """Sampler that counts how often it is started and asked."""

    def __init__(self):
        self.started = self.asked = 0

    def __iter__(self):
        self.started += 1
        for i in range(10):
            self.asked += 1
            yield i

    def __len__(self):
        return 10


def test_the_sampler_is_asked_in_the_consumers_process_and_once_per_epoch(workers):
    sampler = Counting()
    dl = DataLoader(ROWS, sampler=sampler, batch_size=4, **workers)
    for epoch in range(1, 3):
        assert torch.cat(list(dl)).tolist() == [*range(10)]
        assert (sampler.started, sampler.asked) == (epoch, 10 * epoch)


def test_a_sampler_without_len(workers):
    dl = DataLoader(ROWS, sampler=iter([4, 2, 0]), **workers)
    assert torch.cat(list(dl)).tolist() == [4, 2, 0]
    with pytest.raises(TypeError):
        len(dl)


def test_a_sampler_without_end(real_workers):
    iterator = iter(DataLoader(ROWS, sampler=itertools.cycle(ROWS), batch_size=5, **real_workers))
    seen = [i for _ in range(20) for i in next(iterator).tolist()]
    assert seen == ([*ROWS] * 5)[:100]


def test_a_generator_as_batch_sampler_gives_one_epoch(workers):
    dl = DataLoader(ROWS, batch_sampler=([i, i + 1] for i in range(0, 6, 2)), **workers)
    assert torch.cat(list(dl)).tolist() == [*range(6)]
    assert list(dl) == []


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("drop_last", [False, True])
def test_a_batch_size_that_changes_in_the_epoch(drop_last, workers):
    def batches(cls, **more):
        dl = cls(range(50), batch_size=2, drop_last=drop_last, **more)
        found = []
        for _ in range(2):
            for batch in dl:
                found.append(batch.tolist())
                dl.batch_sampler.batch_size = 5
            dl.batch_sampler.drop_last = not drop_last
        return found

    torchs = batches(torch.utils.data.DataLoader, num_workers=workers["num_workers"])
    # With "auto", the sampler is asked as far ahead as for max_workers workers.
    assert batches(DataLoader, **workers, max_workers=2) == torchs


@pytest.mark.parametrize("make", [list, np.array, torch.tensor])
@pytest.mark.parametrize("batching", ["batch_sampler", "sampler"])
def test_a_sampler_that_changes_what_it_yielded(make, batching, workers, assert_like_torch):
    class Reusing:
        def __iter__(self):
            batch = make([0, 0])
            for i in range(0, 20, 2):
                batch[0], batch[1] = i, i + 1
                yield batch

    sums = Rows(20, lambda index: int(sum(index)) if batching == "sampler" else int(index))
    arguments = {"batch_size": None} if batching == "sampler" else {}
    assert_like_torch(sums, workers, **{batching: Reusing()}, **arguments)
