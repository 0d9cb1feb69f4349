"""The program's own random generators: worker threads must not seed them, nor draw from them unseen.

In a worker process ``numpy.random.seed(torch.initial_seed() % 2**32)``, torch's own recipe, reaches that process alone.
In a thread it would seed the whole program: the training loop would draw the same numbers in each epoch.
"""

import base64
import contextlib
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from ftloader import fork
from ftloader.rng import generators
from ftloader.workers.info import thread_info

# One block at a time: else one would save, and later restore, what the other's worker_init_fn has seeded.
_one_at_a_time = fork.rlock()

_WORDS = 624
"""Of a Mersenne Twister, which makes as many new ones once they are used up."""
_REFILLS = 64
"""How often that may have happened in the block to a generator that nobody seeded."""


@contextlib.contextmanager
def preserved() -> Iterator[None]:
    """After the block the generators of ``random``, NumPy and torch that were seeded in it stand where they stood
    before. One that other threads have only drawn from goes on. Does nothing in a worker thread: who iterates a loader
    in a dataset has the generators of the worker."""
    if thread_info() is not None:
        yield
        return
    with _one_at_a_time:
        before = states()
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else _queued_cuda_seeds()
        try:
            yield
        finally:
            now = states()
            seeded = [name for name in before if _was_seeded(before[name], now[name])]
            generators.load((generators.PROGRAMS[name], before[name]) for name in seeded)
            if "torch's default generator" in seeded:
                torch.cuda.set_rng_state_all(cuda) if isinstance(cuda, list) else _queued_cuda_seeds(cuda)


def states() -> dict[str, Any]:
    """Return the state of each generator of the program, by its description."""
    return {name: generators.save(generator) for name, generator in generators.PROGRAMS.items()}


def _was_seeded(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether *now* is a state that drawing alone has not led to since *before*."""
    if before == now:
        return False
    first, last = _words(before), _words(now)
    if first is None or last is None:
        return False
    drawing = random.Random()  # any Mersenne Twister stands for the others
    drawing.setstate((3, (*first, _WORDS), None))  # all words are used up
    for _ in range(_REFILLS):
        if drawing.getstate()[1][:-1] == last:
            return False
        drawing.getrandbits(32 * _WORDS)
    return True


def _words(saved: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Of a state as ``generators.save`` gives it; None if it is no Mersenne Twister's."""
    state = saved["state"]
    if saved["kind"] == "torch":  # see torch_generator for the layout: the seed, and from byte 24 on the words
        return tuple(np.frombuffer(base64.b64decode(state), np.uint64, _WORDS, 24).tolist())
    if saved["kind"] == "random":
        return tuple(state[1][:-1])
    return tuple(state["state"]["key"]) if state["bit_generator"] == "MT19937" else None


def _queued_cuda_seeds(restore: dict[str, Any] | None = None) -> dict[str, Any]:
    """What ``torch.manual_seed`` has left for when CUDA is initialised; puts *restore* in its place."""
    tracker = getattr(torch.cuda, "_lazy_seed_tracker", None)  # not public; without it nothing is queued
    if tracker is None:
        return {}
    if restore is not None:
        vars(tracker).update(restore)
    return dict(vars(tracker))


def _initial_seed() -> int:
    # This code runs as torch's initial_seed, with the globals of torch's module.
    info = ftloader_thread_info()  # type: ignore[name-defined]  # noqa: F821
    return default_generator.initial_seed() if info is None else info.seed  # type: ignore[name-defined]  # noqa: F821


# As worker_info does it for get_worker_info, and for the same reason: user code may hold the function itself.
torch.random.ftloader_thread_info = thread_info
torch.random.initial_seed.__code__ = _initial_seed.__code__.replace(co_name="initial_seed")
