"""A warning where samples use the program's random generators, for loaders under "auto" that take threads."""

import contextlib
import sys
import threading
from collections.abc import Collection, Iterator
from types import FrameType

from ftloader.diagnosis.call_site import warn_user
from ftloader.rng.program import states
from ftloader.rng.sample import GlobalRandomWarning

_WAITS = 16


class GlobalDrawCheck:
    """The check of one loader: do its worker threads use a generator of the program?

    The generators' states before and after a wait of the consumer for its workers are compared. A wait does not count
    if any other Python thread has moved in it. Only the first waits are looked at, so the check costs nothing later.

    No lock: two consumers at once may look at one wait more, or warn twice.
    """

    def __init__(self) -> None:
        self._waits_left = _WAITS
        self._used: list[str] = []

    @contextlib.contextmanager
    def waiting(self, workers: Collection[threading.Thread]) -> Iterator[None]:
        """Check the block, in which the calling thread waits for *workers*."""
        if not self._waits_left:
            yield
            return
        self._waits_left -= 1
        known = {threading.get_ident(), *(worker.ident for worker in workers)}
        others = _places(known)
        before, looks = states(), [_places(known)]
        yield
        looks.append(_places(known))
        after = states()
        looks.append(_places(known))
        # A thread that is only there now was started by a worker.
        if before != after and all(others.items() <= look.items() for look in looks):
            self._waits_left = 0
            self._used = [name for name in before if before[name] != after[name]]

    def report(self) -> None:
        """Warn once, from the consumer's thread, if the check has found something."""
        if self._used:
            used, self._used = self._used, []
            warn_user(
                f"samples of this DataLoader use {' and '.join(used)}. Its workers are threads (worker_method='auto' "
                "chose so), which all share these generators: which sample gets which number depends on which worker "
                "comes first, whatever the seed. Draw from the sample's own generators instead, "
                "ftloader.sample_rng(). The audit (python -m ftsafety.audit) names the lines that draw. "
                "worker_method='process' gives each worker generators of its own; worker_method='thread' leaves this "
                "warning out.",
                GlobalRandomWarning,
            )


def _places(known: Collection[int | None] = ()) -> dict[int, tuple[FrameType, int]]:
    """Return where each Python thread but the *known* ones stands, by id: its frame and the instruction in it.

    A thread at the same place in several looks has not moved, or its loop came back to the same call each time: while a
    caller holds the frames, no new call gets one.
    """
    # The dict of all frames is in no local, since this frame refers to the caller's: in that reference cycle the
    # consumer's iterator and batch would stay alive.
    return {ident: (frame, frame.f_lasti) for ident, frame in sys._current_frames().items() if ident not in known}
