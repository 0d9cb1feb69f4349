"""A torch CPU generator whose whole state is seeded.

``torch.Generator().manual_seed(seed)`` takes 32 bits of its seed (``at::mt19937`` is initialised with a ``uint32_t``):
among a million samples some hundred pairs would draw the same numbers. Here all 624 words of the Mersenne Twister come
from a hash, so two generators are the same only if their seeds are.
"""

import hashlib
from typing import Final

import numpy as np
import torch

# CPUGeneratorImplStateLegacy (ATen/CPUGeneratorImpl.cpp) begins with the seed (uint64), the number of words left before
# the next regeneration, plus one (int32), whether it is seeded (int32), the next word (uint64), and the words of the
# state (uint64 each, the upper half 0). A freshly seeded generator has 1 left: its first draw regenerates.
_STATE_BYTES: Final = 5056
_WORDS: Final = slice(24, 24 + 624 * 8)

_template = torch.Generator("cpu").manual_seed(0).get_state().numpy()
_template.flags.writeable = False


def make_torch_generator(seed: bytes) -> torch.Generator:
    """A CPU generator seeded from all of *seed* (any number of bytes).

    Its ``initial_seed()`` is the first eight bytes of the hash of *seed*. With a torch that keeps its state in another
    layout the generator is seeded from these alone.
    """
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
