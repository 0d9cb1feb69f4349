"""The warning of "auto" about samples that draw from generators which worker threads share."""

import random
import sys
import time
import warnings

import numpy as np
import pytest
import torch

from ftloader import DataLoader, sample_draws
from tests.datasets import Rows, Stream

without_gil = pytest.mark.skipif(sys._is_gil_enabled(), reason="with the GIL auto takes processes")
torchs = "torch's default generator"


def draws_of_torch(_):
    time.sleep(0.005)  # so that the first batch is not there before it is asked for
    return torch.rand(2)


def draws_of_all(_):
    time.sleep(0.005)
    return torch.rand(2) + random.random() + np.random.random()


def draws_for_the_sample(_):
    with sample_draws():
        return torch.rand(2)


def draws_from_its_own(index):
    return torch.rand(2, generator=torch.Generator().manual_seed(index))


@pytest.fixture(autouse=True)
def seeded():
    before = torch.get_rng_state()
    torch.manual_seed(7)
    yield
    torch.set_rng_state(before)


def warnings_of(dataset, epochs=2, **arguments):
    loader = DataLoader(dataset, **{"batch_size": 4, "num_workers": 2, **arguments})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(epochs):
            for _batch in loader:
                pass
    return [str(each.message) for each in caught if "the numbers depend" in str(each.message)]


@without_gil
@pytest.mark.parametrize("dataset", [Rows(32, draws_of_torch), Stream(32, draws_of_torch)])
@pytest.mark.parametrize("more", [{}, {"shuffle": True}, {"persistent_workers": True}])
def test_a_seeded_program_is_warned_once(dataset, more):
    if isinstance(dataset, Stream):
        more = {name: value for name, value in more.items() if name != "shuffle"}
    (message,) = warnings_of(dataset, **more)
    assert message.startswith(f"numbers of {torchs} were drawn")


@without_gil
def test_all_generators_are_named():
    (message,) = warnings_of(Rows(32, draws_of_all))
    assert message.startswith(f"numbers of random and numpy.random and {torchs} were")


@without_gil
def test_copies_share_the_generators_too():
    assert len(warnings_of(Rows(32, draws_of_torch), copy_dataset=True)) == 1


@pytest.mark.parametrize("sample", [draws_for_the_sample, draws_from_its_own])
@pytest.mark.parametrize("more", [{}, {"shuffle": True}, {"sampler": None}])
def test_draws_that_repeat_are_right(sample, more):
    assert not warnings_of(Rows(32, sample), **more)


@pytest.mark.parametrize(
    "more", [{"worker_method": "thread"}, {"worker_method": "process"}, {"num_workers": 0}]
)
def test_others_are_not_warned(more):
    assert not warnings_of(Rows(32, draws_of_torch), **more)


def test_a_program_that_did_not_seed_is_not_warned():
    torch.default_generator.seed()  # as torch does at its start
    assert not warnings_of(Rows(32, draws_of_torch))


def test_draws_of_the_program_between_batches_are_its_own():
    first = DataLoader(Rows(32, draws_from_its_own), batch_size=4, shuffle=True, num_workers=2)
    second = DataLoader(Rows(32, draws_for_the_sample), batch_size=4, shuffle=True, num_workers=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _batches in zip(first, second):
            torch.rand(3)


class Drawing(torch.utils.data.Sampler):
    """A sampler that draws while it yields: whose draws they are cannot be told."""

    def __iter__(self):
        return iter(lambda: random.randrange(32), None)

    def __len__(self):
        return 32


def test_a_sampler_of_the_programs_own_may_draw():
    loader = DataLoader(Rows(32, draws_from_its_own), sampler=Drawing(), num_workers=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _, _batch in zip(range(9), loader):
            pass


@without_gil
def test_a_warning_that_is_an_error_loses_no_batch():
    loader = DataLoader(Rows(32, draws_of_torch), batch_size=4, num_workers=2)
    batches = iter(loader)
    next(batches)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="the numbers depend"):
            next(batches)
    assert len(list(batches)) == 7
