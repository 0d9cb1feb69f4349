"""The objects that all iterators of one loader share."""

import copy

from ftloader.batch.memory import BufferPool
from ftloader.diagnosis.shared_handles import SharedHandles
from ftloader.rng.global_draws import GlobalDrawCheck
from ftloader.state.store import StateStore


class Shared:
    """Saved state, batch memory and one-time warnings of one loader, for its iterators of all epochs.

    No lock: two threads that make the first iterators at the same moment may each get memory of their own. A copy or
    pickle has the loaded state only.
    """

    def __init__(self, states: StateStore | None = None) -> None:
        self.states = StateStore() if states is None else states
        self.handles = SharedHandles()
        self.global_draws = GlobalDrawCheck()
        self._memory: tuple[tuple[int, bool], BufferPool] | None = None

    def __reduce__(self) -> tuple:
        return Shared, (copy.copy(self.states),)

    def memory(self, batches: int, pinned: bool) -> BufferPool:
        """Return the memory for *batches* batches, *pinned* or not."""
        wanted = batches, pinned
        if self._memory is None or self._memory[0] != wanted:
            self._memory = wanted, BufferPool(batches, pinned)
        return self._memory[1]
