"""Calls of torch that draw from the default generator are recognised: each is made, and the
generator's state compared."""

import pytest
import torch
import torch.nn.functional as F  # noqa: F401  # in CALLS
from torch.overrides import TorchFunctionMode

from ftsafety.audit.torch_operations import call, function_name, may_draw

ones = torch.ones(4, 4)
image = torch.ones(1, 2, 6, 6)
query = torch.ones(1, 1, 2, 2)
own = torch.Generator()
linear = torch.nn.Linear(4, 4)
recurrent = torch.nn.LSTM(4, 4, num_layers=2, dropout=0.5)
calm_recurrent = torch.nn.LSTM(4, 4, num_layers=2)
gated = torch.nn.GRU(4, 4, num_layers=2, dropout=0.5)
packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3, 4), torch.ones(2, 4)])

# Programs, each ended by a semicolon or a line.
CALLS = """
# factories
torch.rand(3); torch.rand(3, generator=own); torch.rand(3, generator=None)
torch.rand(3, generator=torch.default_generator); torch.rand(3, out=torch.empty(3)); torch.randn((2, 2))
torch.randn((2, 2), generator=own); torch.randint(5, (3,)); torch.randint(2, 5, (3,), generator=own); torch.randperm(5)
torch.randperm(5, generator=own); torch.rand_like(ones); torch.randn_like(ones); torch.randint_like(ones, 5)
torch.zeros(3); torch.empty(3); torch.arange(3)
# distributions
torch.normal(0.0, 1.0, (3,)); torch.normal(ones, ones); torch.normal(ones, 1.0, generator=own)
torch.bernoulli(ones / 2); torch.bernoulli(ones, 0.0); torch.bernoulli(ones / 2, generator=own)
torch.multinomial(ones, 2); torch.multinomial(ones, 2, generator=own); torch.poisson(ones); torch.poisson(ones, own)
torch.binomial(ones * 5, ones / 2); torch.distributions.Normal(0.0, 1.0).sample()
torch.distributions.Dirichlet(torch.ones(3)).sample()
# methods
torch.empty(3).uniform_(); torch.empty(3).uniform_(0, 1, generator=own); torch.empty(3).normal_()
torch.empty(3).random_(5); torch.empty(3).random_(5, generator=own); torch.empty(3).bernoulli_(0.5)
(ones / 2).bernoulli(); ones.multinomial(2); torch.empty(3).exponential_()
torch.empty(3).cauchy_().log_normal_().geometric_(0.5); (ones + 1).mean().item()
# dropout
F.dropout(ones); F.dropout(ones, training=False); F.dropout(ones, 0.0); torch.dropout(ones, 0.5, True)
torch.dropout(ones, 0.5, False); torch.dropout(ones, p=0.5, train=False); torch.dropout(ones, 0.0, True)
torch.native_dropout(ones, 0.5, None); F.alpha_dropout(ones, training=True); F.alpha_dropout(ones)
F.feature_alpha_dropout(image, training=True); F.dropout1d(image[0]); F.dropout2d(image)
F.dropout2d(image, training=False); F.dropout3d(image); torch.nn.Dropout()(ones); torch.nn.Dropout().eval()(ones)
# other functions with something random in them
F.rrelu(-ones, training=True); F.rrelu(-ones); F.gumbel_softmax(ones); F.fractional_max_pool2d(image, 2, output_size=3)
F.fractional_max_pool2d(image, 2, output_size=3, _random_samples=torch.ones(1, 2, 2) / 2); F.max_pool2d(image, 2)
F.scaled_dot_product_attention(query, query, query); F.scaled_dot_product_attention(query, query, query, dropout_p=0.5)
torch.nn.MultiheadAttention(4, 1, dropout=0.5).eval()(ones, ones, ones); recurrent(ones); recurrent(packed)
calm_recurrent(ones); calm_recurrent(packed); gated(ones); gated(packed); linear(ones); torch.svd_lowrank(ones)
torch.linalg.svd(ones)
# initialisation
torch.nn.init.uniform_(torch.empty(3)); torch.nn.init.uniform_(torch.empty(3), generator=own)
torch.nn.init.normal_(torch.empty(3)); torch.nn.init.trunc_normal_(torch.empty(3))
torch.nn.init.xavier_uniform_(torch.empty(3, 3)); torch.nn.init.kaiming_uniform_(torch.empty(3, 3))
torch.nn.init.kaiming_uniform_(torch.empty(3, 3), generator=own); torch.nn.init.orthogonal_(torch.empty(3, 3))
torch.nn.init.zeros_(torch.empty(3))
# torch.utils.data
torch.utils.data.random_split(range(4), [2, 2]); torch.utils.data.random_split(range(4), [2, 2], generator=own)
iter(torch.utils.data.DataLoader([1, 2]))
# operations by themselves
torch.ops.aten.rand([3]); torch.ops.aten.rand.default([3]); torch.ops.aten.rand.generator([3], generator=own)
torch.ops.aten.uniform_(torch.empty(3)); torch.ops.aten.native_dropout(ones, 0.5, False)
torch.ops.aten.add.Tensor(ones, ones)
"""
PROGRAMS = [program for line in CALLS.splitlines() if line[:1] != "#" for program in filter(None, line.split("; "))]


class Recorder(TorchFunctionMode):
    """As strict mode does it: asks about every call of a function of torch."""

    def __init__(self):
        super().__init__()
        self.drawing = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result, drew = call(func, args, kwargs or {})
        if drew:
            self.drawing.append(function_name(func))
        return result


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_call_draws_exactly_if_the_default_generator_moves(program):
    before = torch.get_rng_state()
    with Recorder() as recorder:
        eval(program)
    moved = not torch.equal(torch.get_rng_state(), before)
    assert bool(recorder.drawing) == moved, recorder.drawing


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("torch.rand(3)", "torch.rand"),
        ("torch.empty(3).uniform_()", "torch.Tensor.uniform_"),
        ("F.dropout2d(image)", "torch.nn.functional.dropout2d"),
        ("torch.ops.aten.rand.default([3])", "torch.ops.aten.rand.default"),
    ],
)
def test_names_are_those_that_users_know(program, name):
    with Recorder() as recorder:
        eval(program)
    assert recorder.drawing == [name]


def test_an_operation_of_another_library_is_known_by_its_tag():
    assert may_draw(torch.rand)  # the library comes after the first question
    with torch.library._scoped_library("loader_test", "DEF") as library:
        library.define("noise(Tensor x) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
        library.define("calm(Tensor x) -> Tensor")
        library.impl("noise", lambda x: x + torch.rand(()), "CPU")
        library.impl("calm", lambda x: x + 1, "CPU")
        with Recorder() as recorder:
            torch.ops.loader_test.noise(ones)
            torch.ops.loader_test.calm(ones)
    assert recorder.drawing == ["torch.ops.loader_test.noise"]


@pytest.mark.parametrize("function", [print, [].append, object(), {}, lambda: torch.rand(3), torch.Tensor.shape])
def test_what_is_not_a_random_function_of_torch_does_not_draw(function):
    assert not may_draw(function, (ones,), {})


def test_draws_of_another_thread_do_not_count_for_a_call_that_cannot_draw():
    # A function that is given its generator, and one that is not random, during which the default generator moves.
    class Moves(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            torch.default_generator.manual_seed(torch.default_generator.initial_seed() + 1)
            return super().__torch_function__(func, types, args, kwargs or {})

    tensor = torch.ones(3).as_subclass(Moves)
    with torch.random.fork_rng(devices=[]):
        assert call(torch.add, (tensor, 1), {})[1] is False
        assert call(torch.rand_like, (tensor,), {})[1] is True
        assert call(torch.bernoulli, (tensor,), {"generator": own})[1] is False


def test_the_default_generator_of_another_device_is_a_default(monkeypatch):
    other = torch.Generator()
    assert not may_draw(torch.rand, (3,), {"generator": other})
    monkeypatch.setattr(torch.cuda, "default_generators", (other,))  # as after the device's first use
    assert may_draw(torch.rand, (3,), {"generator": other})
