"""sample_draws(): random functions of torch draw from the sample's generator, and nothing else does."""

import inspect
import threading

import pytest
import torch
from torch import overrides
from torch.distributions import Beta, Dirichlet

from ftloader import DataLoader, sample_draws, sample_rng
from ftloader.rng.draws import FUNCTIONS
from tests.datasets import Rows

P = torch.full((3,), 0.5)
# Calls that draw without a generator.
CALLS = {
    torch.rand: lambda: torch.rand(3),
    torch.randn: lambda: torch.randn(3),
    torch.randint: lambda: torch.randint(0, 1000, (3,)),
    torch.randperm: lambda: torch.randperm(100),
    torch.rand_like: lambda: torch.rand_like(P),
    torch.randn_like: lambda: torch.randn_like(P),
    torch.randint_like: lambda: torch.randint_like(P, 0, 1000),
    torch.normal: lambda: torch.normal(0.0, 1.0, (3,)),
    torch.bernoulli: lambda: torch.bernoulli(torch.full((100,), 0.5)),
    torch.binomial: lambda: torch.binomial(torch.full((9,), 1000.0), torch.full((9,), 0.5)),
    torch.multinomial: lambda: torch.multinomial(torch.ones(100), 9),
    torch.poisson: lambda: torch.poisson(torch.full((9,), 100.0)),
    torch.rrelu: lambda: torch.rrelu(-torch.ones(3), training=True),
    torch.rrelu_: lambda: torch.rrelu_(-torch.ones(3), training=True),
    torch._sample_dirichlet: lambda: Dirichlet(P).sample(),
    torch._standard_gamma: lambda: Beta(P, P).sample(),
    torch.Tensor.bernoulli: lambda: torch.full((100,), 0.5).bernoulli(),
    torch.Tensor.multinomial: lambda: torch.ones(100).multinomial(9),
    torch.Tensor.bernoulli_: lambda: torch.empty(100).bernoulli_(),
    torch.Tensor.cauchy_: lambda: torch.empty(3).cauchy_(),
    torch.Tensor.exponential_: lambda: torch.empty(3).exponential_(),
    torch.Tensor.geometric_: lambda: torch.empty(9).geometric_(0.01),
    torch.Tensor.log_normal_: lambda: torch.empty(3).log_normal_(),
    torch.Tensor.normal_: lambda: torch.empty(3).normal_(),
    torch.Tensor.random_: lambda: torch.empty(3).random_(),
    torch.Tensor.uniform_: lambda: torch.empty(3).uniform_(),
    torch.nn.init.kaiming_uniform_: lambda: torch.nn.init.kaiming_uniform_(torch.empty(3, 3)),
    torch.nn.init.normal_: lambda: torch.nn.init.normal_(torch.empty(3)),
    torch.nn.init.uniform_: lambda: torch.nn.init.uniform_(torch.empty(3)),
}


def loaded(sample, workers=0, **arguments):
    given = {"num_workers": workers, "worker_method": "thread"} if workers else {}
    generator = torch.Generator().manual_seed(1)
    return list(
        DataLoader(Rows(6, sample), batch_size=None, generator=generator, **given, **arguments)
    )


def test_every_function_has_a_call():
    assert set(CALLS) == FUNCTIONS


def test_every_function_of_torch_that_takes_a_generator_is_known():
    # What a mode can be given: by Python's signature, and by the signatures of C++.
    by_signature = {
        function
        for function, stub in overrides.get_testing_overrides().items()
        if "generator" in inspect.signature(stub).parameters
    }
    names = {
        schema.name.removeprefix("aten::")
        for schema in torch._C._jit_get_all_schemas()
        if any(argument.name == "generator" for argument in schema.arguments)
    }
    by_schema = {
        getattr(home, name)
        for home in (torch, torch.Tensor)
        for name in names
        if callable(getattr(home, name, None)) and not name.startswith("_")
    }
    assert by_signature and by_schema
    assert (by_signature | by_schema) - FUNCTIONS == set()


@pytest.mark.parametrize("draw", CALLS.values(), ids=[each.__name__ for each in CALLS])
def test_the_draws_are_the_samples_for_any_number_of_threads(draw):
    def sample(_):
        with sample_draws():
            return draw()

    alone, threads = loaded(sample), loaded(sample, 3)
    torch.rand(1)  # the program's draws in between change nothing
    again = loaded(sample)
    for one, other, third in zip(alone, threads, again, strict=True):
        assert torch.equal(one, other) and torch.equal(one, third)
    assert not torch.equal(alone[0], alone[1])


def test_the_global_generator_is_left_alone():
    def sample(_):
        with sample_draws():
            return torch.rand(2) + torch.empty(2).normal_()

    loaded(sample)  # draws the base seed, if it draws at all
    before = torch.get_rng_state()
    loaded(sample)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_generator_that_is_given_stays():
    def sample(_):
        with sample_draws():
            return torch.rand(2, generator=torch.Generator().manual_seed(5))

    expected = torch.rand(2, generator=torch.Generator().manual_seed(5))
    assert all(torch.equal(each, expected) for each in loaded(sample, 2))


def test_the_draws_continue_the_stream_of_the_samples_generator():
    def by_hand(_):
        return torch.rand(4, generator=sample_rng().torch)

    def in_two(_):
        with sample_draws():
            first = torch.rand(2)
        return torch.cat([first, torch.rand(2, generator=sample_rng().torch)])

    def first_two(_):
        with sample_draws():
            return torch.rand(2)

    for whole, parts, first in zip(loaded(by_hand), loaded(in_two, 2), loaded(first_two, 2)):
        assert torch.equal(whole, parts) and torch.equal(whole[:2], first)


def test_a_generator_that_is_given_by_position_stays():
    def sample(_):
        with sample_draws():
            filled = torch.empty(2)
            return torch.nn.init.uniform_(filled, 0.0, 1.0, torch.Generator().manual_seed(5))

    assert all(torch.equal(each, loaded(sample)[0]) for each in loaded(sample, 2))


def test_tensors_of_other_devices_draw_as_before():
    elsewhere = torch.empty(2, device="meta")

    def sample(_):
        with sample_draws():
            torch.rand(2, device="meta"), elsewhere.normal_()
            torch.rand_like(input=elsewhere), torch.normal(mean=elsewhere, std=elsewhere)
            return torch.rand(2)

    assert len(loaded(sample, 2)) == 6


def test_other_threads_of_the_program_draw_as_before():
    inside, drawn = threading.Event(), threading.Event()

    def sample(_):
        with sample_draws():
            inside.set()
            assert drawn.wait(10)
            return torch.rand(1)

    expected = torch.rand(2, generator=torch.Generator().manual_seed(7))
    loader = DataLoader(
        Rows(2, sample), batch_size=None, num_workers=1, worker_method="thread",
        generator=torch.Generator(),
    )  # fmt: skip
    batches = iter(loader)
    assert inside.wait(10)
    state = torch.get_rng_state()
    torch.manual_seed(7)
    try:
        assert torch.equal(torch.rand(2), expected)
    finally:
        torch.set_rng_state(state)
        drawn.set()
    assert len(list(batches)) == 2


def test_outside_of_a_sample_it_says_what_to_do():
    with pytest.raises(RuntimeError, match="not loading a sample"), sample_draws():
        pass
