"""The order of any sampler, rebuilt from its own state or from the state of its generators."""

import random

import numpy as np
import pytest
import torch
import torchdata.stateful_dataloader.sampler as torchdatas
from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from ftloader import DataLoader
from tests.datasets import FailingSampler, ReusedList, Rows, seeded
from tests.unit.loader.state.resuming import (
    FEW_PAIRS,
    WAYS,
    contents,
    interrupt,
    noisy,
    plain,
    resume,
)

SIZE = 40
WEIGHTS = [1.0 + i % 7 for i in range(SIZE)]


class Shuffled(Sampler):
    """Sampler that draws its order with *shuffle*:
    in __iter__ if *eager*, else in its first step.
    """

    def __init__(self, shuffle, eager=False):
        self.shuffle, self.eager = shuffle, eager

    def __iter__(self):
        return iter(self.order()) if self.eager else self.lazily()

    def lazily(self):
        yield from self.order()

    def order(self):
        order = list(range(SIZE))
        self.shuffle(order)
        return order

    def __len__(self):
        return SIZE


class OwnNumPy(Sampler):
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.old = np.random.RandomState(seed)
        self.python = random.Random(seed)

    def __iter__(self):
        for _ in range(SIZE):  # draws as it yields
            yield int(self.rng.integers(9)) + int(self.old.randint(9)) + self.python.randrange(9)

    def __len__(self):
        return SIZE


class Buckets(Sampler):
    """Batch sampler around a sampler."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        batch = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) > index % 3:
                yield batch
                batch = []
        if batch:
            yield batch


def torch_shuffle(order):
    order[:] = [order[i] for i in torch.randperm(len(order)).tolist()]


SAMPLERS = {
    "shuffle": lambda seed: RandomSampler(range(SIZE)),
    "shuffle, generator": lambda seed: RandomSampler(range(SIZE), generator=seeded(seed)),
    "replacement": lambda seed: RandomSampler(
        range(SIZE), replacement=True, generator=seeded(seed)
    ),
    "replacement, global": lambda seed: RandomSampler(
        range(SIZE), replacement=True, num_samples=70
    ),
    "more samples than data": lambda seed: RandomSampler(
        range(9), num_samples=SIZE, generator=seeded(seed)
    ),
    "subset": lambda seed: SubsetRandomSampler(range(5, SIZE)),
    "subset, generator": lambda seed: SubsetRandomSampler(range(5, SIZE), generator=seeded(seed)),
    "weighted": lambda seed: WeightedRandomSampler(WEIGHTS, SIZE),
    "weighted, generator": lambda seed: WeightedRandomSampler(
        WEIGHTS, SIZE, generator=seeded(seed)
    ),
    "list": lambda seed: [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5] * 3,
    "random": lambda seed: Shuffled(random.shuffle),
    "random, eager": lambda seed: Shuffled(random.shuffle, eager=True),
    "numpy": lambda seed: Shuffled(np.random.shuffle),
    "torch": lambda seed: Shuffled(torch_shuffle),
    "torch, eager": lambda seed: Shuffled(torch_shuffle, eager=True),
    "own generators": OwnNumPy,
    "torchdata's, whose iterator has a state": lambda seed: torchdatas.RandomSampler(
        range(SIZE), generator=seeded(seed)
    ),
    "torchdata's distributed, which has a state": lambda seed: (
        torchdatas.StatefulDistributedSampler(range(SIZE), num_replicas=2, rank=1, seed=4)
    ),
}


def seed_all(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


PROGRAMS = [
    name for name in SAMPLERS if name.startswith(("random", "numpy", "torch,")) or name == "torch"
]
"""User-defined samplers that draw from the program's generators."""
TORCHS = ["shuffle", "replacement, global", "subset", "weighted"]
"""Samplers of torch that draw from the program's generators."""


def all_states():
    return torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())


def batched(sampler, batching):
    if batching == "batch_sampler":
        return {"batch_sampler": BatchSampler(sampler, 3, drop_last=True)}
    if batching == "buckets":
        return {"batch_sampler": Buckets(sampler)}
    return {"batch_size": batching, "sampler": sampler}


@pytest.mark.parametrize("handed_over", [0, 4])
@pytest.mark.parametrize("batching", [3, None, "batch_sampler", "buckets"])
@pytest.mark.parametrize("name", [name for name in SAMPLERS if name not in PROGRAMS])
@pytest.mark.slow(cases=8)
def test_any_sampler(name, batching, handed_over):
    def make(way, seed):
        return DataLoader(range(100), **batched(SAMPLERS[name](seed), batching), **WAYS[way])

    if name in TORCHS and batching == "buckets":
        pytest.skip(
            "the sampler that draws is inside of one that is not torch's: refused, see below"
        )
    for saving, loading in [("serial", "threads"), ("threads", "serial"), ("threads", "thread")]:
        if name in TORCHS and saving == "serial" and handed_over == 0:
            # nothing was drawn: the order comes from the program's generator as it will be
            continue
        seed_all(1)
        _, state, rest = interrupt(make(saving, 1), handed_over)
        assert rest
        seed_all(2)
        before = all_states()
        assert resume(make(loading, 2), state) == rest
        assert all_states() == before


@pytest.mark.parametrize(
    ("name", "batching"), [(name, 3) for name in PROGRAMS] + [(name, "buckets") for name in TORCHS]
)
def test_an_order_from_the_programs_generators_is_refused(name, batching):
    def make(way):
        return DataLoader(range(100), **batched(SAMPLERS[name](1), batching), **WAYS[way])

    seed_all(1)
    _, state, rest = interrupt(make("threads"), 4)
    seed_all(2)
    with pytest.raises(ValueError, match=r"consists of other samples.*generator of its own"):
        resume(make("serial"), state)
    if name in ("random", "random, eager", "numpy"):  # else the loader has drawn from the same one
        seed_all(1)  # as the order came from
        assert resume(make("serial"), state) == rest


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("name", ["shuffle", "subset", "weighted", "weighted, generator"])
@pytest.mark.parametrize(("saving", "loading"), [("processes", "serial"), ("threads", "processes")])
def test_with_processes(name, saving, loading):
    def make(way, seed):
        return DataLoader(Rows(100, noisy), batch_size=3, sampler=SAMPLERS[name](seed), **WAYS[way])

    seed_all(1)
    _, state, rest = interrupt(make(saving, 1), 4)
    seed_all(2)
    before = all_states()
    assert resume(make(loading, 2), state) == rest
    assert all_states() == before


class Remembering(Sampler):
    """Sampler with a state that draws as it yields, as in torchdata's documentation."""

    def __init__(self, seed=0):
        self.generator = np.random.default_rng(seed)
        self.given = 0

    def __iter__(self):
        while self.given < SIZE:
            self.given += 1
            yield int(self.generator.integers(1000))
        self.given = 0

    def state_dict(self):
        return {"given": self.given, "generator": self.generator.bit_generator.state}

    def load_state_dict(self, state):
        self.given = state["given"]
        self.generator.bit_generator.state = state["generator"]


@pytest.mark.parametrize("every", [1, 3, None])
@pytest.mark.parametrize("batch_size", [4, None])
@pytest.mark.parametrize(("saving", "loading"), FEW_PAIRS)
@pytest.mark.slow(cases=1)
def test_a_samplers_own_state_is_used(saving, loading, batch_size, every):
    def make(way, seed):
        sampler = Remembering(seed)
        return DataLoader(
            range(1000), batch_size, sampler=sampler, snapshot_every_n_steps=every, **WAYS[way]
        )

    for handed_over in (5,) if "process" in saving + loading else (0, 1, 5, 10):
        loader = make(saving, 1)
        _, state, rest = interrupt(loader, handed_over)
        following = contents(loader)
        other = make(loading, 2)
        assert resume(other, state) == rest
        assert contents(other) == following
        assert state["sampler"]["drawn"] == (handed_over // every * every if every else 0)


@pytest.mark.parametrize(("saving", "loading"), FEW_PAIRS)
@pytest.mark.slow(cases=1)
def test_a_samplers_own_state_between_epochs(saving, loading):
    def make(way, seed):
        return DataLoader(range(1000), 4, sampler=Remembering(seed), **WAYS[way])

    loader = make(saving, 1)
    state = loader.state_dict()
    first = contents(loader)
    assert resume(make(loading, 2), state) == first
    state = loader.state_dict()
    second = contents(loader)
    assert second != first
    assert resume(make(loading, 2), state) == second


def test_torchdatas_distributed_sampler_between_epochs():
    def make(way):
        sampler = torchdatas.StatefulDistributedSampler(range(SIZE), num_replicas=2, rank=0)
        return DataLoader(range(100), 4, sampler=sampler, **WAYS[way])

    loader = make("threads")
    first = contents(loader)
    loader.sampler.set_epoch(1)
    state = loader.state_dict()
    second = contents(loader)
    other = make("serial")
    other.sampler.set_epoch(1)
    assert resume(other, state) == second != first
    assert len(contents(other)) == len(second)


def test_torchdatas_batch_sampler():
    def make(way, seed):
        sampler = torchdatas.RandomSampler(range(SIZE), generator=seeded(seed))
        return DataLoader(
            range(100), batch_sampler=torchdatas.BatchSampler(sampler, 4, False), **WAYS[way]
        )

    _, state, rest = interrupt(make("threads", 1), 3)
    assert resume(make("serial", 2), state) == rest


class CountingEpochs(Sampler):
    """Sampler with another order in each pass, as Accelerate's seedable sampler."""

    def __init__(self):
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        yield from torch.randperm(SIZE, generator=seeded(self.epoch)).tolist()
        self.set_epoch(self.epoch + 1)


@pytest.mark.parametrize(("saving", "loading"), [("serial", "threads"), ("threads", "processes")])
@pytest.mark.slow
def test_a_sampler_that_counts_epochs(saving, loading):
    def make(way):
        return DataLoader(range(SIZE), 4, sampler=CountingEpochs(), **WAYS[way])

    loader = make(saving)
    contents(loader)
    _, state, rest = interrupt(loader, 3)
    at_end = loader.state_dict()
    third = contents(loader)
    other = make(loading)
    assert resume(other, state) == rest
    assert contents(other) == third
    assert resume(make(loading), at_end) == third


def test_torchs_default_generator_as_an_argument():
    def make(way):
        return DataLoader(
            range(SIZE), 4, shuffle=True, generator=torch.default_generator, **WAYS[way]
        )

    torch.manual_seed(1)
    _, state, rest = interrupt(make("serial"), 3)
    torch.manual_seed(2)
    assert resume(make("threads"), state) == rest


@pytest.mark.parametrize("way", ["serial", "threads", "processes"])
@pytest.mark.slow(cases=1)
def test_another_order_is_an_error(way):
    _, state, _ = interrupt(DataLoader(range(SIZE), 4, sampler=Shuffled(random.shuffle)), 3)
    for sampler in (SequentialSampler(range(SIZE)), Shuffled(list.reverse)):
        loader = DataLoader(range(SIZE), 4, sampler=sampler, **WAYS[way])
        loader.load_state_dict(state)
        with pytest.raises(ValueError, match="batch 2 consists of other samples"):
            contents(loader)


@pytest.mark.parametrize("way", ["serial", "threads", "processes"])
def test_an_order_that_ends_too_early_is_an_error(way):
    _, state, _ = interrupt(DataLoader(range(SIZE), 4), 6)
    loader = DataLoader(range(10), 4, **WAYS[way])
    loader.load_state_dict(state)
    with pytest.raises(ValueError, match=r"ended after \d+ batches, but had given more"):
        contents(loader)


def test_indices_without_a_stable_form_are_not_compared():
    indices = [object() for _ in range(6)]

    rows = Rows(6, indices.index)
    _, state, rest = interrupt(DataLoader(rows, None, sampler=indices), 2)
    assert state["last"]["digest"] is None
    assert resume(DataLoader(rows, None, sampler=indices), state) == rest


@pytest.mark.slow
def test_a_sampler_that_reuses_its_list():
    for way in WAYS.values():
        _, state, rest = interrupt(DataLoader(range(SIZE), batch_sampler=ReusedList(), **way), 3)
        assert rest == [[*range(i, i + 5)] for i in range(15, 40, 5)]
        assert resume(DataLoader(range(SIZE), batch_sampler=ReusedList(), **way), state) == rest


@pytest.mark.parametrize("way", ["serial", "threads", "processes"])
def test_a_failing_sampler_is_resumed_before_its_failure(way):
    sampler = FailingSampler(KeyError("no such sample"), after=5)
    loader = DataLoader(range(SIZE), None, sampler=sampler, **WAYS[way])
    batches = []
    with pytest.raises(KeyError, match="no such sample"):
        batches.extend(plain(batch) for batch in loader)
    state = loader.state_dict()
    assert resume(DataLoader(range(SIZE), None, sampler=range(8), **WAYS[way]), state) == [5, 6, 7]


@pytest.mark.parametrize("way", ["serial", "threads"])
@pytest.mark.parametrize("handed_over", [2, 4])
def test_a_shorter_dataset_is_refused(way, handed_over):
    """It has the batches that were handed over, but fewer than had been drawn."""
    _, state, _ = interrupt(DataLoader(range(40), 8, shuffle=True, **WAYS[way]), handed_over)
    with pytest.raises(ValueError, match="ended after 4 batches|consists of other samples"):
        resume(DataLoader(range(30), 8, shuffle=True, **WAYS[way]), state)
