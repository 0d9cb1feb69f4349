"""A loader's random numbers are the same for any number and kind of workers; and belong to the sample."""

import random

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ftloader import DataLoader
from ftloader.rng.sample import sample_rng

WORKERS = [(0, None), (1, "thread"), (2, "thread"), (1, "process"), (2, "process")]
every_kind_of_workers = pytest.mark.parametrize(
    ("num_workers", "worker_method"),
    [
        pytest.param(n, method, marks=[pytest.mark.thread_unsafe(reason="forks")] if method == "process" else [])
        for n, method in WORKERS
    ],
)


def numbers():
    rng = sample_rng()
    return [rng.python.random(), rng.numpy.random(), torch.rand(1, generator=rng.torch, dtype=torch.float64).item()]


class Augmented(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.tensor([index, *numbers()], dtype=torch.float64)


class AugmentedBatches(Augmented):
    def __getitems__(self, indices):
        return [torch.tensor([index, *numbers()], dtype=torch.float64) for index in indices]


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        for index in range(20):
            yield torch.tensor([index, *numbers()], dtype=torch.float64)


class Nested(Augmented):
    """Loads other samples while it loads one."""

    def __getitem__(self, index):
        first = sample_rng().python.random()
        inner = DataLoader(Augmented(), batch_size=5, generator=torch.Generator().manual_seed(index))
        crops = [crop for batch in inner for crop in batch]
        second = sample_rng().python.random()
        return torch.stack([*crops, torch.tensor([index, first, second, 0], dtype=torch.float64)])


def make(dataset, num_workers, worker_method, **arguments):
    arguments["generator"] = torch.Generator().manual_seed(arguments.pop("seed", 1))
    if num_workers:
        arguments.update(worker_method=worker_method)
    return DataLoader(dataset, num_workers=num_workers, **arguments)


def load(*args, epochs=2, **arguments):
    loader = make(*args, **arguments)
    return [[batch.tolist() for batch in loader] for _ in range(epochs)]


@every_kind_of_workers
@pytest.mark.parametrize("dataset", [Augmented(), AugmentedBatches(), Nested()], ids=lambda d: type(d).__name__)
@pytest.mark.slow(cases=3)
def test_numbers_are_those_of_a_loader_without_workers(dataset, num_workers, worker_method):
    arguments = {"batch_size": 5, "shuffle": True}
    expected = load(dataset, 0, None, **arguments)
    assert load(dataset, num_workers, worker_method, **arguments) == expected
    assert expected[0] != expected[1]  # each epoch has its own


@every_kind_of_workers
def test_samples_one_by_one(num_workers, worker_method):
    assert load(Augmented(), num_workers, worker_method, batch_size=None) == load(Augmented(), 0, None, batch_size=None)


@pytest.mark.parametrize("worker_method", ["thread", pytest.param("process", marks=pytest.mark.thread_unsafe)])
def test_an_iterable_dataset_in_one_share(worker_method):
    expected = load(Stream(), 0, None, batch_size=3)
    assert load(Stream(), 1, worker_method, batch_size=3) == expected


@pytest.mark.parametrize("worker_method", ["thread", pytest.param("process", marks=pytest.mark.thread_unsafe)])
def test_epochs_of_persistent_workers_have_their_own_numbers(worker_method):
    (first, second, third) = load(Augmented(), 2, worker_method, persistent_workers=True, epochs=3, batch_size=5)
    assert first != second != third != first
    again = load(Augmented(), 1, worker_method, persistent_workers=True, epochs=3, batch_size=5)
    assert again == [first, second, third]


@settings(deadline=None, database=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    num_workers=st.integers(0, 2),
    batch_size=st.integers(1, 30),
    prefetch=st.integers(1, 3),
    in_order=st.booleans(),
    seed=st.integers(0, 3),
)
def test_a_samples_numbers_depend_on_nothing_else(num_workers, batch_size, prefetch, in_order, seed):
    arguments = {"prefetch_factor": prefetch, "in_order": in_order} if num_workers else {}
    loader = make(Augmented(), num_workers, "thread", batch_size=batch_size, shuffle=True, seed=seed, **arguments)
    drawn = sorted(sample for batch in loader for sample in batch.tolist())
    reference = make(Augmented(), 0, None, batch_size=7, shuffle=True, seed=seed)
    assert drawn == sorted(sample for batch in reference for sample in batch.tolist())


def test_the_key_is_the_samplers_index_so_repeated_samples_repeat():
    loader = make(Augmented(), 2, "thread", batch_size=2, sampler=[3, 3, 7, 3])
    samples = [sample for batch in loader for sample in batch.tolist()]
    assert samples[0] == samples[1] == samples[3] != samples[2]


def test_a_collate_function_is_in_no_sample():
    def collate(samples):
        return sample_rng()

    with pytest.raises(RuntimeError, match="not loading a sample"):
        next(iter(make(Augmented(), 2, "thread", collate_fn=collate)))
    with pytest.raises(RuntimeError, match="not loading a sample"):
        next(iter(make(Augmented(), 0, None, collate_fn=collate)))


# Code that draws from the global generators


class Global(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        python = random.random()
        array = np.random.rand()
        tensor = torch.rand(1, dtype=torch.float64)
        return torch.cat([tensor, torch.tensor([python, array], dtype=torch.float64)])


@pytest.mark.thread_unsafe(reason="draws from the global generators")
def test_it_goes_on_working_and_draws_as_under_torchs_loader():
    def run(kind):
        random.seed(1), np.random.seed(1), torch.manual_seed(1)
        return [batch.tolist() for batch in kind(Global(), batch_size=5, shuffle=True)]

    assert run(DataLoader) == run(torch.utils.data.DataLoader)
