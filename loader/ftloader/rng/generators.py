"""Saves and loads states of random generators as plain values,
and makes torch generators from long seeds.

A generator is one of ``torch.Generator``, ``random.Random``, ``numpy.random.Generator`` and
``numpy.random.RandomState``. Its saved state survives pickle, JSON and ``torch.save``. Saving a
state draws no number. No lock is needed: torch's generators have their own locks, and the state of
a NumPy or Python generator is read in one call.
"""

import base64
import hashlib
import random
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import torch

KINDS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)

PROGRAMS: Mapping[str, Any] = {
    "random": random._inst,
    "numpy.random": np.random.mtrand._rand,
    "torch's default generator": torch.default_generator,
}
"""The program's global generators, such as the one that ``random.random()`` uses.
Keys: their names in messages.
"""

State = Mapping[str, Any]  # of one generator, of JSON's types only: its ``kind`` and its ``state``


def save(generator: Any) -> State:
    kind = _kind(generator)
    if kind == "torch":
        # As text: JSON would make 5,000 numbers of these 5 kB.
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
    """Load each pair (generator, saved state). If a state does not fit,
    undo all loads and raise ``ValueError``.
    """
    earlier: list[tuple[Any, State]] = []
    try:
        for generator, saved in states:
            earlier.append((generator, save(generator)))
            _load(generator, saved)
    except BaseException:
        for generator, saved in reversed(earlier):
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
        kind = type(generator).__name__
        raise ValueError(
            f"the state of a random generator does not fit this {kind}: {error}"
        ) from error


def _kind(generator: Any) -> str:
    if isinstance(generator, torch.Generator):
        return "torch"
    if isinstance(generator, random.Random):
        return "random"
    if isinstance(generator, np.random.Generator):
        return "numpy"
    return "numpy legacy"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return value


# CPUGeneratorImplStateLegacy (ATen/CPUGeneratorImpl.cpp) starts with the seed (uint64), one more
# than the number of words left before the next regeneration (int32), a flag for "seeded" (int32),
# and the index of the next word (uint64). Then come the words of the state, a uint64 each with an
# upper half of 0. A freshly seeded generator has 1 left: its first draw regenerates.
_STATE_BYTES: Final = 5056
_WORDS: Final = slice(24, 24 + 624 * 8)

_template = torch.Generator("cpu").manual_seed(0).get_state().numpy()
_template.flags.writeable = False


def make_torch_generator(seed: bytes) -> torch.Generator:
    """Return a torch generator on the CPU, seeded with all bytes of *seed*. ``manual_seed`` would
    use only 32 bits.
    """
    # ``manual_seed(seed)`` uses 32 bits (``at::mt19937``), so among a million samples a hundred
    # pairs would draw the same numbers. Here a hash of *seed* gives all 624 words of the Mersenne
    # Twister. The first eight bytes of the hash are ``initial_seed()``. If torch keeps its state in
    # another layout, these eight bytes alone seed the generator.
    stream = hashlib.shake_256(seed).digest(8 + 624 * 4)
    initial_seed = int.from_bytes(stream[:8], "little")
    generator = torch.Generator("cpu")
    if _template.size != _STATE_BYTES:
        return generator.manual_seed(initial_seed)
    state = _template.copy()
    state[:8] = np.frombuffer(stream[:8], np.uint8)
    state[_WORDS].view(np.uint64)[:] = np.frombuffer(stream[8:], "<u4")
    generator.set_state(torch.from_numpy(state))
    return generator
