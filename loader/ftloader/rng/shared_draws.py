"""Warns about samples that draw from the program's generators, which worker threads share.

The numbers then depend on which thread draws first: a program that seeds these generators does not
get the same samples again, as it would with worker processes. Only a seeded program is warned.
"""

from collections.abc import Mapping
from typing import Any, Final

import torch

from ftloader.rng import program

_SEEDS: Final = 2**32
"""Seeds that programs give are smaller. torch's own first seed has 53 random bits."""
_WARNING: Final = (
    "were drawn while this DataLoader loaded a batch in threads (worker_method='auto' chose so). "
    "All threads share these generators: the numbers depend on which thread draws first, so the "
    "program's seed does not repeat them. Load in a block `with ftloader.sample_draws():`, where "
    "torch's functions draw from the sample's generator, or draw from ftloader.sample_rng(). "
    "`./twins audit FILE.py:NAME` shows which lines draw. worker_method='process' gives each "
    "worker generators of its own; worker_method='thread' leaves this warning out."
)


def states_if_seeded() -> Mapping[str, Any] | None:
    """Return the states of the global generators (`program.states`); None if the program has not
    seeded torch's.
    """
    if torch.default_generator.initial_seed() >= _SEEDS:
        return None
    return program.states()


def warning_of_draws(before: Mapping[str, Any]) -> str | None:
    """Return the text of a warning if the state of a global generator is no longer as *before*,
    else None.
    """
    now = program.states()
    drawn = [name for name in before if before[name] != now[name]]
    if not drawn:
        return None
    return f"numbers of {' and '.join(drawn)} {_WARNING}"
