"""DistributedSampler in torchdata's loader and in torch's own."""

import itertools

import pytest
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from ftloader.distributed import DistributedSampler
from tests.unit.loader.distributed.test_in_loaders import EPOCH, SIZE, loaders
from tests.unit.loader.state.resuming import contents


def torchdatas_stages(plan, workers):
    """As stages(), with torchdata's loader, whose state is asked for as it is."""
    samples, state = [], None
    for ranks, steps, size in plan:
        states = []
        for loader in loaders(
            ranks, StatefulDataLoader, range(SIZE), batch_size=size, num_workers=workers
        ):
            if state is not None:
                loader.load_state_dict(state)
            iterator = iter(loader)
            samples += itertools.chain(*contents(itertools.islice(iterator, steps)))
            states.append(loader.state_dict())
        state = states[0]
    return samples, state


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_torchdatas_loader(workers):
    samples, _ = torchdatas_stages([(4, 1, 2), (2, 2, 1), (3, 1, 3), (1, None, 4)], workers)
    assert sorted(samples) == list(range(SIZE))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("size", [5, 6])  # of 20 samples: the last batch is full, or not
@pytest.mark.slow
def test_torchdatas_loader_at_the_end_of_an_epoch(size, workers):
    (loader,) = loaders(1, StatefulDataLoader, range(20), batch_size=size, num_workers=workers)
    iterator = iter(loader)
    for _ in range(len(loader)):
        next(iterator)
    last = loader.state_dict()
    assert next(iterator, None) is None
    after = loader.state_dict()

    def resumed(state, epoch):
        sampler = DistributedSampler(range(20), 1, 0)
        if epoch is not None:
            sampler.set_epoch(epoch)
        again = StatefulDataLoader(range(20), size, sampler=sampler, num_workers=workers)
        again.load_state_dict(state)
        return again

    def of_epoch(epoch):
        sampler = DistributedSampler(range(20), 1, 0)
        sampler.set_epoch(epoch)
        return list(sampler)

    assert contents(resumed(last, EPOCH)) == []
    for epoch in None, EPOCH + 1:
        found = list(itertools.chain(*contents(resumed(after, epoch))))
        assert found == of_epoch(EPOCH if epoch is None else epoch)


def test_torchs_loader_with_the_samplers_own_state():
    """Without workers torch's loader draws as it loads,
    so the sampler's own state is that of the loop.
    """
    (saving,) = loaders(1, DataLoader, range(SIZE), batch_size=4)
    iterator = iter(saving)
    given = contents(itertools.islice(iterator, 2))
    state = saving.sampler.state_dict()
    found = loaders(2, DataLoader, range(SIZE), batch_size=3, epoch=0)
    for loader in found:
        loader.sampler.load_state_dict(state)
        given += contents(loader)
    assert (
        sorted(set(itertools.chain(*given))) == list(range(SIZE))
        and sum(map(len, given)) == SIZE + 1
    )
