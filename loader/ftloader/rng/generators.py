"""States of random generators, as plain values that survive pickle, JSON and ``torch.save``.

A generator is one of ``torch.Generator``, ``random.Random``, ``numpy.random.Generator`` and
``numpy.random.RandomState``. Reading a state draws nothing. torch's generators lock themselves; NumPy's and Python's
are read in one call each.
"""

import base64
import random
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

_OBJECTS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)

PROGRAMS: Mapping[str, Any] = {
    "random": random._inst,
    "numpy.random": np.random.mtrand._rand,
    "torch's default generator": torch.default_generator,
}
"""The program's own generators, by what users call them: those behind the functions of the modules."""

State = Mapping[str, Any]
"""Of one generator, of JSON's types only: its ``kind`` and its ``state``."""


def is_generator(value: Any) -> bool:
    """Whether *value* is an object of one of the kinds above."""
    return isinstance(value, _OBJECTS)


def save(generator: Any) -> State:
    """The state of *generator*."""
    kind = _kind(generator)
    if kind == "torch":
        # As text: 5 kB of bytes would be a list of 5,000 numbers in JSON.
        state: Any = base64.b64encode(generator.get_state().numpy().tobytes()).decode("ascii")
    elif kind == "random":
        version, words, gauss = generator.getstate()
        state = [version, list(words), gauss]
    elif kind == "numpy":
        state = _plain(generator.bit_generator.state)
    else:
        state = _plain(generator.get_state(legacy=False))
    return {"kind": kind, "state": state}


def load(states: Iterable[tuple[Any, State]]) -> None:
    """Puts each generator into the state beside it; all of them or, if that fails, none.

    Raises ``ValueError`` if one is not the state of a generator of this kind.
    """
    own: list[tuple[Any, State]] = []
    try:
        for generator, saved in states:
            own.append((generator, save(generator)))
            _load(generator, saved)
    except BaseException:
        for generator, saved in reversed(own):
            _load(generator, saved)
        raise


def _load(generator: Any, saved: State) -> None:
    try:
        kind, state = saved["kind"], saved["state"]
        if kind != _kind(generator):
            raise ValueError(f"it is the state of a generator of kind {kind!r}")
        if kind == "torch":
            content = bytearray(base64.b64decode(state, validate=True))
            generator.set_state(torch.frombuffer(content, dtype=torch.uint8))
        elif kind == "random":
            version, words, gauss = state
            generator.setstate((version, tuple(words), gauss))
        elif kind == "numpy":
            generator.bit_generator.state = state
        else:
            generator.set_state(state)
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        raise ValueError(
            f"the state of a random generator does not fit this {type(generator).__name__}: {error}"
        ) from error


def _kind(generator: Any) -> str:
    if isinstance(generator, torch.Generator):
        return "torch"
    if isinstance(generator, random.Random):
        return "random"
    return "numpy" if isinstance(generator, np.random.Generator) else "numpy legacy"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value
