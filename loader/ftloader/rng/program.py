"""The program's own random generators: worker threads must not seed them, nor draw from them unseen.

torch's recipe ``numpy.random.seed(torch.initial_seed() % 2**32)`` would seed the whole program in a worker thread: the
training loop would draw the same numbers in each epoch.
"""

import base64
import contextlib
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from ftloader import fork
from ftloader.current import this_thread
from ftloader.rng import generators

# One block at a time: else one block would save, and later restore, what the worker_init_fn of another has seeded.
_one_at_a_time = fork.rlock()

_WORDS = 624  # in the state of a Mersenne Twister, which makes as many new ones once they are used up
_REFILLS = 64  # most times that draws during the block make new words in a generator that was not seeded


@contextlib.contextmanager
def preserved() -> Iterator[None]:
    """Restore, after the block, the generators of ``random``, NumPy and torch that were seeded in it.

    A generator that other threads have only drawn from is left alone. Does nothing in a worker thread.
    """
    if this_thread.worker is not None:
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
    """Return True if draws alone cannot have led from state *before* to state *now*."""
    if before == now:
        return False
    first, last = _words(before), _words(now)
    if first is None or last is None:
        return False
    drawing = random.Random()  # all three generators are Mersenne Twisters, so any of them can stand for another
    drawing.setstate((3, (*first, _WORDS), None))  # as if all words were used up
    for _ in range(_REFILLS):
        if drawing.getstate()[1][:-1] == last:
            return False
        drawing.getrandbits(32 * _WORDS)
    return True


def _words(saved: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the words of a state made by ``generators.save``; None if it is not that of a Mersenne Twister."""
    state = saved["state"]
    if saved["kind"] == "torch":  # the words start at byte 24: see generators
        return tuple(np.frombuffer(base64.b64decode(state), np.uint64, _WORDS, 24).tolist())
    if saved["kind"] == "random":
        return tuple(state[1][:-1])
    return tuple(state["state"]["key"]) if state["bit_generator"] == "MT19937" else None


def _queued_cuda_seeds(restore: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the seeds that ``torch.manual_seed`` has queued until CUDA is initialised. Replace them by *restore*."""
    tracker = getattr(torch.cuda, "_lazy_seed_tracker", None)  # not public; without it nothing is queued
    if tracker is None:
        return {}
    if restore is not None:
        vars(tracker).update(restore)
    return dict(vars(tracker))


def _initial_seed() -> int:
    # This code runs as torch's initial_seed, with the globals of torch's module.
    info = ftloader_this_thread.worker  # type: ignore[name-defined]  # noqa: F821
    return default_generator.initial_seed() if info is None else info.seed  # type: ignore[name-defined]  # noqa: F821


# User code may hold the function itself, so the function gets new code. workers.info does the same.
torch.random.ftloader_this_thread = this_thread
torch.random.initial_seed.__code__ = _initial_seed.__code__.replace(co_name="initial_seed")
