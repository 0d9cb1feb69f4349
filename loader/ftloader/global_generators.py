"""The program's own random generators, which ``worker_init_fn`` of worker threads must not seed.

In a worker process ``numpy.random.seed(torch.initial_seed() % 2**32)``, torch's own recipe, reaches that process
alone. In a thread it would seed the whole program: the training loop would draw the same numbers in each epoch.
"""

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ftloader.worker_info import thread_info


@contextlib.contextmanager
def preserved() -> Iterator[None]:
    """After the block the generators of ``random``, NumPy and torch stand where they stood before.

    Other threads must not draw meanwhile: what they drew would come again.
    """
    before = _states()
    try:
        yield
    finally:
        for name, state in _states().items():
            if name in before and not _equal(state, before[name]):
                _SETTERS[name](before[name])


def _states() -> dict[str, Any]:
    states = {
        "random": random.getstate(),
        "numpy": np.random.get_state(legacy=False),
        "torch": torch.random.get_rng_state(),
    }
    if torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state_all()
    return states


_SETTERS: dict[str, Any] = {
    "random": random.setstate,
    "numpy": np.random.set_state,
    "torch": torch.random.set_rng_state,
    "cuda": torch.cuda.set_rng_state_all,
}


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)


def _initial_seed() -> int:
    # This code runs as torch's initial_seed, with the globals of torch's module.
    info = _loader_thread_info()  # type: ignore[name-defined]  # noqa: F821
    return default_generator.initial_seed() if info is None else info.seed  # type: ignore[name-defined]  # noqa: F821


# As worker_info does it for get_worker_info, and for the same reason: user code may hold the function itself.
torch.random._loader_thread_info = thread_info
torch.random.initial_seed.__code__ = _initial_seed.__code__.replace(co_name="initial_seed")
