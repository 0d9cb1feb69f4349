"""The program's own random generators, which ``worker_init_fn`` of worker threads must not seed.

In a worker process ``numpy.random.seed(torch.initial_seed() % 2**32)``, torch's own recipe, reaches that process
alone. In a thread it would seed the whole program: the training loop would draw the same numbers in each epoch.
"""

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ftloader import fork_locks
from ftloader.worker_info import thread_info

# One block at a time: else one would save, and later restore, what the other's worker_init_fn has seeded.
_one_at_a_time = fork_locks.rlock()

_WORDS = 624
"""Of a Mersenne Twister, which makes as many new ones once they are used up."""
_REFILLS = 64
"""How often that may have happened in the block to a generator that nobody seeded."""


@contextlib.contextmanager
def preserved() -> Iterator[None]:
    """After the block the generators of ``random``, NumPy and torch that were seeded in it stand where they stood
    before. One that other threads have only drawn from goes on. Does nothing in a worker thread: who iterates a
    loader in a dataset has the generators of the worker."""
    if thread_info() is not None:
        yield
        return
    with _one_at_a_time:
        before = [(generator, generator.get()) for generator in _GENERATORS]
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else _queued_cuda_seeds()
        try:
            yield
        finally:
            seeded = [generator for generator, state in before if generator.was_seeded(state)]
            for generator, state in before:
                if generator in seeded:
                    generator.set(state)
            if _TORCHS in seeded:
                torch.cuda.set_rng_state_all(cuda) if isinstance(cuda, list) else _queued_cuda_seeds(cuda)


@dataclass(frozen=True)
class _Generator:
    """One of the program's generators: how to read it, to set it, and its words."""

    get: Callable[[], Any]
    set: Callable[[Any], None]
    words: Callable[[Any], bytes | None]
    """Of a state; None if it is no Mersenne Twister."""
    refilled: Callable[[Any], Any]
    """The state after as many draws as it has words."""

    def was_seeded(self, before: Any) -> bool:
        """Whether it is in a state that drawing alone has not brought it to since *before*."""
        now = self.words(self.get())
        state = before
        for _ in range(_REFILLS):
            words = self.words(state)
            if words is None or words == now:
                return False
            state = self.refilled(state)
        return True


def _numpys_words(state: dict[str, Any]) -> bytes | None:
    return state["state"]["key"].tobytes() if state["bit_generator"] == "MT19937" else None


def _numpys_next(state: dict[str, Any]) -> dict[str, Any]:
    generator = np.random.RandomState()
    generator.set_state(state)
    generator.bytes(4 * _WORDS)
    return generator.get_state(legacy=False)


def _pythons_next(state: Any) -> Any:
    generator = random.Random()
    generator.setstate(state)
    generator.getrandbits(32 * _WORDS)
    return generator.getstate()


def _torchs_words(state: torch.Tensor) -> bytes | None:
    # See torch_generator for the layout: the seed, and from byte 24 on the words.
    return state.numpy()[24 : 24 + 8 * _WORDS].tobytes()


def _torchs_next(state: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator("cpu")
    generator.set_state(state)
    torch.empty(_WORDS, dtype=torch.int32, device="cpu").random_(generator=generator)
    return generator.get_state()


_TORCHS = _Generator(torch.random.get_rng_state, torch.random.set_rng_state, _torchs_words, _torchs_next)
_GENERATORS = (
    _Generator(random.getstate, random.setstate, lambda state: repr(state[1][:-1]).encode(), _pythons_next),
    _Generator(lambda: np.random.get_state(legacy=False), np.random.set_state, _numpys_words, _numpys_next),
    _TORCHS,
)


def _queued_cuda_seeds(restore: dict[str, Any] | None = None) -> dict[str, Any]:
    """What ``torch.manual_seed`` has left for when CUDA is initialised; puts *restore* in its place."""
    tracker = getattr(torch.cuda, "_lazy_seed_tracker", None)
    if tracker is None:
        return {}
    if restore is not None:
        vars(tracker).update(restore)
    return dict(vars(tracker))


def _initial_seed() -> int:
    # This code runs as torch's initial_seed, with the globals of torch's module.
    info = _loader_thread_info()  # type: ignore[name-defined]  # noqa: F821
    return default_generator.initial_seed() if info is None else info.seed  # type: ignore[name-defined]  # noqa: F821


# As worker_info does it for get_worker_info, and for the same reason: user code may hold the function itself.
torch.random._loader_thread_info = thread_info
torch.random.initial_seed.__code__ = _initial_seed.__code__.replace(co_name="initial_seed")
