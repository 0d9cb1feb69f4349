"""States of random generators, as plain values that survive pickle, JSON and ``torch.save``.

A generator is one of ``torch.Generator``, ``random.Random``, ``numpy.random.Generator`` and
``numpy.random.RandomState``; the modules ``random`` and ``numpy.random`` count as generators too. Reading a state draws
nothing. torch's generators lock themselves; NumPy's and Python's are read in one call each.
"""

import base64
import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

_OBJECTS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)

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
        name = getattr(generator, "__name__", type(generator).__name__)
        raise ValueError(f"the state of a random generator does not fit this {name}: {error}") from error


def _kind(generator: Any) -> str:
    if isinstance(generator, torch.Generator):
        return "torch"
    if generator is random or isinstance(generator, random.Random):
        return "random"
    return "numpy" if isinstance(generator, np.random.Generator) else "numpy legacy"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


@contextmanager
def standing_at(states: Iterable[tuple[Any, State]]) -> Iterator[None]:
    """A block in which each generator is in the state beside it; after it all are as before."""
    states = list(states)
    own = [(generator, save(generator)) for generator, _ in states]
    load(states)
    try:
        yield
    finally:
        load(own)
