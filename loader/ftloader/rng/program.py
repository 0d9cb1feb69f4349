"""Guards the program's global random generators: undoes seeding in ``worker_init_fn``.

In a worker thread, torch's recipe ``numpy.random.seed(torch.initial_seed() % 2**32)`` would seed
the whole program.
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

# One ``preserved`` block at a time: else a block would restore the seeds
# of another block's worker_init_fn.
_one_at_a_time = fork.rlock()

_WORDS = 624  # in the state of a Mersenne Twister, which renews all of them once they are used up
_REFILLS = 64  # renewals of the words that are tried before a generator counts as seeded


@contextlib.contextmanager
def preserved() -> Iterator[None]:
    """Restore, after a ``with`` block, each global generator (random, NumPy, torch) that was seeded
    in the block.
    """
    # A generator that other threads have only drawn from is left alone.
    # Does nothing in a worker thread.
    if this_thread.worker is not None:
        yield
        return
    with _one_at_a_time:
        before = states()
        if torch.cuda.is_initialized():
            cuda = torch.cuda.get_rng_state_all()
        else:
            cuda = _queued_cuda_seeds()
        try:
            yield
        finally:
            now = states()
            seeded = [name for name in before if _was_seeded(before[name], now[name])]
            generators.load((generators.PROGRAMS[name], before[name]) for name in seeded)
            if "torch's default generator" in seeded:
                if isinstance(cuda, list):
                    torch.cuda.set_rng_state_all(cuda)
                else:
                    _queued_cuda_seeds(cuda)


def states() -> dict[str, Any]:
    """Return a dict of the state of each global generator,
    with the keys of ``generators.PROGRAMS``.
    """
    return {name: generators.save(generator) for name, generator in generators.PROGRAMS.items()}


def _was_seeded(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return True if a generator was seeded between two states: drawing alone cannot lead from
    *before* to *now*.
    """
    if before == now:
        return False
    first, last = _words(before), _words(now)
    if first is None or last is None:
        return False
    # all three generators are Mersenne Twisters, so any of them can stand for another
    drawing = random.Random()
    drawing.setstate((3, (*first, _WORDS), None))  # as if all words were used up
    for _ in range(_REFILLS):
        if drawing.getstate()[1][:-1] == last:
            return False
        drawing.getrandbits(32 * _WORDS)
    return True


def _words(saved: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the 624 state words of a saved Mersenne Twister (MT19937);
    None for a generator of another kind.
    """
    state = saved["state"]
    if saved["kind"] == "torch":  # the words start at byte 24: see generators
        return tuple(np.frombuffer(base64.b64decode(state), np.uint64, _WORDS, 24).tolist())
    if saved["kind"] == "random":
        return tuple(state[1][:-1])
    if state["bit_generator"] == "MT19937":
        return tuple(state["state"]["key"])
    return None


def _queued_cuda_seeds(restore: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the CUDA seeds that torch keeps until CUDA is initialised.
    First put back *restore*, if given.
    """
    # not public; without it nothing is queued
    tracker = getattr(torch.cuda, "_lazy_seed_tracker", None)
    if tracker is None:
        return {}
    if restore is not None:
        vars(tracker).update(restore)
    return dict(vars(tracker))
