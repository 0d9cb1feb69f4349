"""Lets code that takes no generator draw from the sample's: ``sample_draws()``."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ftloader.compat.torch_private import DISTRIBUTIONS
from ftloader.rng.sample import sample_rng

FUNCTIONS = frozenset(
    [
        *(torch.rand, torch.randn, torch.randint, torch.randperm),
        *(torch.rand_like, torch.randn_like, torch.randint_like),
        *(torch.normal, torch.bernoulli, torch.binomial, torch.multinomial, torch.poisson),
        *(torch.rrelu, torch.rrelu_),
        *DISTRIBUTIONS,
        *(torch.Tensor.bernoulli, torch.Tensor.multinomial),
        *(torch.Tensor.bernoulli_, torch.Tensor.cauchy_, torch.Tensor.exponential_),
        *(torch.Tensor.geometric_, torch.Tensor.log_normal_, torch.Tensor.normal_),
        *(torch.Tensor.random_, torch.Tensor.uniform_),
        # A mode is off inside of these: torch calls it for them, not for what they call.
        *(torch.nn.init.kaiming_uniform_, torch.nn.init.normal_, torch.nn.init.uniform_),
    ]
)
"""The functions that draw, and take the argument ``generator``."""


@contextlib.contextmanager
def sample_draws() -> Iterator[None]:
    """Context manager: in this thread, torch's functions that draw random numbers on the CPU use
    the sample's generator, ``sample_rng().torch``, where they are given none.

    So random transforms that take no generator, such as torchvision's, give the same images with 0,
    1 or N workers, with threads or processes. Functions without an argument ``generator``
    (``dropout``) and other libraries (``random``, NumPy) draw as before. A call of any torch
    function takes 1 to 2 microseconds longer in the block, and 4 to 6 if it draws.

    Raises:
        RuntimeError: if this thread is not loading a sample for a ``ftloader.DataLoader``.
    """
    with _DrawFrom(sample_rng().torch):
        yield


class _DrawFrom(TorchFunctionMode):
    """Gives FUNCTIONS a generator. Modes belong to the thread that enters them."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self._generator = generator

    def __torch_function__(
        self,
        func: Callable,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = kwargs or {}
        if func in FUNCTIONS and _needs_generator(args, options):
            options = {**options, "generator": self._generator}
        return func(*args, **options)


def _needs_generator(args: Sequence[Any], options: Mapping[str, Any]) -> bool:
    """Return True if a function with these arguments draws on the CPU from the global generator."""
    device = options.get("device")
    for value in (*args, *options.values()):
        if isinstance(value, torch.Generator):
            return False
        if device is None and isinstance(value, torch.Tensor):
            device = value.device
    if device is None:
        device = torch.get_default_device()
    return torch.device(device).type == "cpu"
