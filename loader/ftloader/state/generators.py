"""States of random generators, as plain values that survive pickle, JSON and ``torch.save``.

A generator is one of ``torch.Generator``, ``random.Random``, ``numpy.random.Generator`` and
``numpy.random.RandomState``. The process's own three (torch's default generator and those
behind the functions of ``random`` and ``numpy.random``) count as generators too, under the
names in ``GLOBALS``.

Reading a state draws nothing. torch's generators lock themselves; NumPy's and Python's are
read in one call each.
"""

import base64
import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import torch

from ftloader import fork_locks

GLOBALS: Mapping[str, Any] = {
    "torch": torch.default_generator,
    # The modules have the methods of the generators behind their functions.
    "random": random,
    "numpy": np.random,
}

_OBJECTS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)


def is_generator(value: Any) -> bool:
    """Whether *value* is an object of one of the kinds above."""
    return isinstance(value, _OBJECTS)


def save(generator: Any) -> dict[str, Any]:
    """The state of *generator*, of JSON's types only."""
    if isinstance(generator, torch.Generator):
        # As text: 5 kB of bytes would be a list of 5,000 numbers in JSON.
        state = generator.get_state().numpy().tobytes()
        return {"kind": "torch", "state": base64.b64encode(state).decode("ascii")}
    if generator is random or isinstance(generator, random.Random):
        version, words, gauss = generator.getstate()
        return {"kind": "random", "state": [version, list(words), gauss]}
    if isinstance(generator, np.random.Generator):
        return {"kind": "numpy", "state": _plain(generator.bit_generator.state)}
    return {"kind": "numpy legacy", "state": _plain(generator.get_state(legacy=False))}


def load(generator: Any, saved: Mapping[str, Any]) -> None:
    """Puts *generator* into a state that ``save`` gave.

    Raises ``ValueError`` if *saved* is not the state of a generator of this kind.
    """
    kind, state = saved["kind"], saved["state"]
    try:
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
            f"the state of a random generator does not fit this {_describe(generator)}: {error}"
        ) from error


def _kind(generator: Any) -> str:
    if isinstance(generator, torch.Generator):
        return "torch"
    if generator is random or isinstance(generator, random.Random):
        return "random"
    return "numpy" if isinstance(generator, np.random.Generator) else "numpy legacy"


def _describe(generator: Any) -> str:
    if isinstance(generator, ModuleType):
        return f"module {generator.__name__}"
    return type(generator).__name__


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


class Elsewhere:
    """The process's generators as they were at another time, for a block of code.

    Within ``with elsewhere:`` the generators named in *saved* are in those states; after it
    they are as they were before, and the next block goes on where this one ended. A resumed
    epoch draws its order this way, and what the program itself draws is not disturbed.

    The generators are the process's, so one block runs at a time (a lock of the process,
    reentrant) and any other thread that draws from them meanwhile draws from the saved
    states: there is no other way to have a sampler draw from a global generator again.
    """

    _lock = fork_locks.rlock()

    def __init__(self, saved: Mapping[str, Mapping[str, Any]]) -> None:
        self._saved = dict(saved)
        self._own: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> None:
        if not self._saved:
            return
        Elsewhere._lock.acquire()
        try:
            self._own = {name: save(GLOBALS[name]) for name in self._saved}
            try:
                _load_globals(self._saved)
            except BaseException:
                _load_globals(self._own)
                raise
        except BaseException:
            Elsewhere._lock.release()
            raise

    def __exit__(self, *exc_info: object) -> None:
        if not self._saved:
            return
        try:
            self._saved = {name: save(GLOBALS[name]) for name in self._saved}
            _load_globals(self._own)
        finally:
            Elsewhere._lock.release()


def _load_globals(saved: Mapping[str, Mapping[str, Any]]) -> None:
    for name, state in saved.items():
        load(GLOBALS[name], state)


@contextmanager
def unchanged(names: Iterable[str]) -> Iterator[None]:
    """A block that leaves the process's generators of these *names* as they were."""
    with Elsewhere({name: save(GLOBALS[name]) for name in names}):
        yield
