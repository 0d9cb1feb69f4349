"""Calls of torch that draw from the default generator are recognised: each is made, and the
generator's state compared."""

import pytest
import torch
import torch.nn.functional as F
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

CALLS = {
    # factories
    "rand": lambda: torch.rand(3),
    "rand own": lambda: torch.rand(3, generator=own),
    "rand none": lambda: torch.rand(3, generator=None),
    "rand default": lambda: torch.rand(3, generator=torch.default_generator),
    "rand out": lambda: torch.rand(3, out=torch.empty(3)),
    "randn": lambda: torch.randn((2, 2)),
    "randn own": lambda: torch.randn((2, 2), generator=own),
    "randint": lambda: torch.randint(5, (3,)),
    "randint own": lambda: torch.randint(2, 5, (3,), generator=own),
    "randperm": lambda: torch.randperm(5),
    "randperm own": lambda: torch.randperm(5, generator=own),
    "rand_like": lambda: torch.rand_like(ones),
    "randn_like": lambda: torch.randn_like(ones),
    "randint_like": lambda: torch.randint_like(ones, 5),
    "zeros": lambda: torch.zeros(3),
    "empty": lambda: torch.empty(3),
    "arange": lambda: torch.arange(3),
    # distributions
    "normal": lambda: torch.normal(0.0, 1.0, (3,)),
    "normal tensors": lambda: torch.normal(ones, ones),
    "normal own": lambda: torch.normal(ones, 1.0, generator=own),
    "bernoulli": lambda: torch.bernoulli(ones / 2),
    "bernoulli p": lambda: torch.bernoulli(ones, 0.0),
    "bernoulli own": lambda: torch.bernoulli(ones / 2, generator=own),
    "multinomial": lambda: torch.multinomial(ones, 2),
    "multinomial own": lambda: torch.multinomial(ones, 2, generator=own),
    "poisson": lambda: torch.poisson(ones),
    "poisson own, positional": lambda: torch.poisson(ones, own),
    "binomial": lambda: torch.binomial(ones * 5, ones / 2),
    "distribution": lambda: torch.distributions.Normal(0.0, 1.0).sample(),
    "dirichlet": lambda: torch.distributions.Dirichlet(torch.ones(3)).sample(),
    # methods
    "uniform_": lambda: torch.empty(3).uniform_(),
    "uniform_ own": lambda: torch.empty(3).uniform_(0, 1, generator=own),
    "normal_": lambda: torch.empty(3).normal_(),
    "random_": lambda: torch.empty(3).random_(5),
    "random_ own": lambda: torch.empty(3).random_(5, generator=own),
    "bernoulli_": lambda: torch.empty(3).bernoulli_(0.5),
    "tensor.bernoulli": lambda: (ones / 2).bernoulli(),
    "tensor.multinomial": lambda: ones.multinomial(2),
    "exponential_": lambda: torch.empty(3).exponential_(),
    "cauchy_ log_normal_ geometric_": lambda: torch.empty(3).cauchy_().log_normal_().geometric_(0.5),
    "arithmetic": lambda: (ones + 1).mean().item(),
    # dropout
    "dropout": lambda: F.dropout(ones),
    "dropout not training": lambda: F.dropout(ones, training=False),
    "dropout 0": lambda: F.dropout(ones, 0.0),
    "torch.dropout": lambda: torch.dropout(ones, 0.5, True),
    "torch.dropout not training": lambda: torch.dropout(ones, 0.5, False),
    "torch.dropout by name": lambda: torch.dropout(ones, p=0.5, train=False),
    "torch.dropout 0": lambda: torch.dropout(ones, 0.0, True),
    "native_dropout": lambda: torch.native_dropout(ones, 0.5, None),
    "alpha_dropout": lambda: F.alpha_dropout(ones, training=True),
    "alpha_dropout not training": lambda: F.alpha_dropout(ones),
    "feature_alpha_dropout": lambda: F.feature_alpha_dropout(image, training=True),
    "dropout1d": lambda: F.dropout1d(image[0]),
    "dropout2d": lambda: F.dropout2d(image),
    "dropout2d not training": lambda: F.dropout2d(image, training=False),
    "dropout3d": lambda: F.dropout3d(image),
    "module": lambda: torch.nn.Dropout()(ones),
    "module, eval": lambda: torch.nn.Dropout().eval()(ones),
    # other functions with something random in them
    "rrelu": lambda: F.rrelu(-ones, training=True),
    "rrelu not training": lambda: F.rrelu(-ones),
    "gumbel_softmax": lambda: F.gumbel_softmax(ones),
    "fractional_max_pool2d": lambda: F.fractional_max_pool2d(image, 2, output_size=3),
    "fractional_max_pool2d given": lambda: F.fractional_max_pool2d(
        image, 2, output_size=3, _random_samples=torch.ones(1, 2, 2) / 2
    ),
    "max_pool2d": lambda: F.max_pool2d(image, 2),
    "attention": lambda: F.scaled_dot_product_attention(query, query, query),
    "attention with dropout": lambda: F.scaled_dot_product_attention(query, query, query, dropout_p=0.5),
    "multihead": lambda: torch.nn.MultiheadAttention(4, 1, dropout=0.5).eval()(ones, ones, ones),
    "lstm": lambda: recurrent(ones),
    "lstm packed": lambda: recurrent(packed),
    "lstm 0": lambda: calm_recurrent(ones),
    "lstm packed 0": lambda: calm_recurrent(packed),
    "gru": lambda: gated(ones),
    "gru packed": lambda: gated(packed),
    "linear": lambda: linear(ones),
    "svd_lowrank": lambda: torch.svd_lowrank(ones),
    "svd": lambda: torch.linalg.svd(ones),
    # initialisation
    "init.uniform_": lambda: torch.nn.init.uniform_(torch.empty(3)),
    "init.uniform_ own": lambda: torch.nn.init.uniform_(torch.empty(3), generator=own),
    "init.normal_": lambda: torch.nn.init.normal_(torch.empty(3)),
    "init.trunc_normal_": lambda: torch.nn.init.trunc_normal_(torch.empty(3)),
    "init.xavier_uniform_": lambda: torch.nn.init.xavier_uniform_(torch.empty(3, 3)),
    "init.kaiming_uniform_": lambda: torch.nn.init.kaiming_uniform_(torch.empty(3, 3)),
    "init.kaiming_uniform_ own": lambda: torch.nn.init.kaiming_uniform_(torch.empty(3, 3), generator=own),
    "init.orthogonal_": lambda: torch.nn.init.orthogonal_(torch.empty(3, 3)),
    "init.zeros_": lambda: torch.nn.init.zeros_(torch.empty(3)),
    # torch.utils.data
    "random_split": lambda: torch.utils.data.random_split(range(4), [2, 2]),
    "random_split own": lambda: torch.utils.data.random_split(range(4), [2, 2], generator=own),
    "iter(DataLoader)": lambda: iter(torch.utils.data.DataLoader([1, 2])),
    # operations by themselves
    "aten.rand": lambda: torch.ops.aten.rand([3]),
    "aten.rand.default": lambda: torch.ops.aten.rand.default([3]),
    "aten.rand.generator": lambda: torch.ops.aten.rand.generator([3], generator=own),
    "aten.uniform_": lambda: torch.ops.aten.uniform_(torch.empty(3)),
    "aten.native_dropout": lambda: torch.ops.aten.native_dropout(ones, 0.5, False),
    "aten.add": lambda: torch.ops.aten.add.Tensor(ones, ones),
}


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


@pytest.mark.parametrize("program", CALLS.values(), ids=CALLS)
def test_a_call_draws_exactly_if_the_default_generator_moves(program):
    before = torch.get_rng_state()
    with Recorder() as recorder:
        program()
    moved = not torch.equal(torch.get_rng_state(), before)
    assert bool(recorder.drawing) == moved, recorder.drawing


def test_both_answers_are_tested():
    drawing = 0
    for program in CALLS.values():
        before = torch.get_rng_state()
        program()
        drawing += not torch.equal(torch.get_rng_state(), before)
    assert 50 < drawing < len(CALLS) - 30


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("rand", "torch.rand"),
        ("uniform_", "torch.Tensor.uniform_"),
        ("dropout2d", "torch.nn.functional.dropout2d"),
        ("aten.rand.default", "torch.ops.aten.rand.default"),
    ],
)
def test_names_are_those_that_users_know(program, name):
    with Recorder() as recorder:
        CALLS[program]()
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
