"""A loader's random numbers are the same for any number and kind of workers;
and belong to the sample.
"""

import random

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ftloader import DataLoader
from ftloader.rng.sample import sample_rng
from tests.datasets import Batches, Rows, Stream

WORKERS = [(0, None), (1, "thread"), (2, "thread"), (1, "process"), (2, "process")]


def numbers():
    rng = sample_rng()
    return [
        rng.python.random(),
        rng.numpy.random(),
        torch.rand(1, generator=rng.torch, dtype=torch.float64).item(),
    ]


def augmented(index):
    return torch.tensor([index, *numbers()], dtype=torch.float64)


def nested(index):
    """Load other samples while this one is loaded."""
    first = sample_rng().python.random()
    inner = DataLoader(
        Rows(7, augmented), batch_size=5, generator=torch.Generator().manual_seed(index)
    )
    crops = [crop for batch in inner for crop in batch]
    second = sample_rng().python.random()
    return torch.stack([*crops, torch.tensor([index, first, second, 0], dtype=torch.float64)])


ROWS = Rows(24, augmented)
STREAM = Stream(20, augmented)
BY_FIVE = {"batch_size": 5, "shuffle": True}
CASES = {
    "rows": (ROWS, BY_FIVE),
    "batches": (Batches(24, augmented), BY_FIVE),
    "nested": (Rows(24, nested), BY_FIVE),
    "one by one": (ROWS, {"batch_size": None}),
}


def make(dataset, num_workers, worker_method, **arguments):
    arguments["generator"] = torch.Generator().manual_seed(arguments.pop("seed", 1))
    if num_workers:
        arguments.update(worker_method=worker_method)
    return DataLoader(dataset, num_workers=num_workers, **arguments)


def load(*args, epochs=2, **arguments):
    loader = make(*args, **arguments)
    return [[batch.tolist() for batch in loader] for _ in range(epochs)]


@pytest.mark.parametrize(("num_workers", "worker_method"), WORKERS)
@pytest.mark.parametrize(("dataset", "arguments"), CASES.values(), ids=CASES)
@pytest.mark.slow(cases=1)
def test_numbers_are_those_of_a_loader_without_workers(
    dataset, arguments, num_workers, worker_method
):
    expected = load(dataset, 0, None, **arguments)
    assert load(dataset, num_workers, worker_method, **arguments) == expected
    assert expected[0] != expected[1]  # each epoch has its own


@pytest.mark.parametrize("worker_method", ["thread", "process"])
def test_an_iterable_dataset_in_one_share(worker_method):
    expected = load(STREAM, 0, None, batch_size=3)
    assert load(STREAM, 1, worker_method, batch_size=3) == expected


@pytest.mark.parametrize("dataset", [ROWS, STREAM], ids=["map", "iterable"])
def test_epochs_of_persistent_workers_have_their_own_numbers(dataset):
    epochs = load(dataset, 2, "thread", persistent_workers=True, epochs=3, batch_size=5)
    draws = [{sample[1] for batch in epoch for sample in batch} for epoch in epochs]
    assert not draws[0] & draws[1] and not draws[1] & draws[2] and not draws[0] & draws[2]
    assert load(dataset, 2, "process", persistent_workers=True, epochs=3, batch_size=5) == epochs


@settings(
    deadline=None, database=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    num_workers=st.integers(0, 2),
    batch_size=st.integers(1, 30),
    prefetch=st.integers(1, 3),
    in_order=st.booleans(),
    seed=st.integers(0, 3),
)
@pytest.mark.slow
def test_a_samples_numbers_depend_on_nothing_else(
    num_workers, batch_size, prefetch, in_order, seed
):
    arguments = {"prefetch_factor": prefetch, "in_order": in_order} if num_workers else {}
    loader = make(
        ROWS, num_workers, "thread", batch_size=batch_size, shuffle=True, seed=seed, **arguments
    )
    drawn = sorted(sample for batch in loader for sample in batch.tolist())
    reference = make(ROWS, 0, None, batch_size=7, shuffle=True, seed=seed)
    assert drawn == sorted(sample for batch in reference for sample in batch.tolist())


def test_the_key_is_the_samplers_index_so_repeated_samples_repeat():
    loader = make(ROWS, 2, "thread", batch_size=2, sampler=[3, 3, 7, 3])
    samples = [sample for batch in loader for sample in batch.tolist()]
    assert samples[0] == samples[1] == samples[3] != samples[2]


def test_a_collate_function_is_in_no_sample():
    def collate(samples):
        return sample_rng()

    with pytest.raises(RuntimeError, match="not loading a sample"):
        next(iter(make(ROWS, 2, "thread", collate_fn=collate)))
    with pytest.raises(RuntimeError, match="not loading a sample"):
        next(iter(make(ROWS, 0, None, collate_fn=collate)))


# Code that draws from the global generators


def from_the_global_generators(index):
    return torch.tensor(
        [random.random(), np.random.rand(), torch.rand(()).item()], dtype=torch.float64
    )


def test_it_goes_on_working_and_draws_as_under_torchs_loader():
    def run(kind):
        random.seed(1), np.random.seed(1), torch.manual_seed(1)
        return [
            batch.tolist()
            for batch in kind(Rows(12, from_the_global_generators), batch_size=5, shuffle=True)
        ]

    assert run(DataLoader) == run(torch.utils.data.DataLoader)
