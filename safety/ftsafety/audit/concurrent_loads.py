"""Bursts: many threads load samples at the same time, to provoke races.

A burst consists of rounds. In each round, all threads wait at a barrier, then each thread loads one
sample. The class `Way` holds the settings of a burst. Bursts also shorten the switch interval,
which matters if the GIL is on.
"""

import contextlib
import itertools
import random
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ftsafety.audit.comparison import Frozen, Raised
from ftsafety.audit.monitoring import Codes, events_in, monitoring
from ftsafety.audit.samples import outcome, stuck, thread
from ftsafety.audit.serial import Serial

ROUNDS = 12
"""Number of rounds in a burst."""
_PAUSED = 0.25
"""Share of the lines that are followed by a pause, in a burst with pauses."""
_LONGEST_PAUSE = 3e-4
_SWITCH_INTERVAL = 1e-6


class Way(NamedTuple):
    """Settings of a burst: which samples threads load,
    if the dataset is reset, and if the threads pause.
    """

    same: bool
    """True if all threads load the same sample in a round,
    False if each thread loads a different one.
    """
    cold: bool
    """True if the dataset is reset before each round: caches empty, files unopened."""
    pauses: bool
    """True if threads pause briefly after random lines of the dataset,
    so that another thread runs in between.
    """

    def __str__(self) -> str:
        sample = "the same sample in all threads" if self.same else "another sample in each thread"
        state = "the dataset as it was at first" if self.cold else "the dataset warm"
        pauses = ", with pauses between its lines" if self.pauses else ""
        return f"{sample}, {state}{pauses}"


# The first way is that of training: a different sample in each thread, and a warm dataset.
WAYS = (
    Way(False, False, False),
    Way(True, True, True),
    Way(False, False, True),
    Way(True, True, False),
    Way(False, True, True),
    Way(False, True, False),
    Way(True, False, True),
)


@dataclass
class Mismatch:
    """Failure in a burst: a sample that differs from the reference,
    or an exception that Python ignored.
    """

    key: Any
    """The key of the sample (see `samples.Loads`); None for an exception that Python ignored."""
    copy: Frozen
    description: str
    """The difference or the exception, in words."""
    way: Way

    @property
    def group(self) -> tuple:
        """The group that counts this failure: one for each exception type and line,
        and one for all wrong samples.
        """
        copy = self.copy
        if isinstance(copy, Raised):
            return "exception", copy.kind, copy.ignored or copy.line
        return ("differs",)


@dataclass
class Burst:
    """Result of one burst: number of loads (`calls`), number of `rounds`,
    and the failures (`mismatches`).
    """

    way: Way
    calls: int = 0
    rounds: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)


class Burster:
    """Runner of bursts, all of which load the same samples. Owned by one thread."""

    def __init__(self, serial: Serial, codes: Codes, ignored: list[Raised]) -> None:
        """Prepare bursts.

        *codes*: the dataset's functions. *ignored*: the list to which `collecting` adds exceptions
        that Python ignores.
        """
        self._serial = serial
        self._codes = codes
        self._threads = serial.loads.threads
        self._ignored = ignored
        # Where threads take turns, each waits for all others.
        in_turns = 4 * serial.slowest * self._threads
        self._patience = max(serial.patience, in_turns, 8 * serial.seconds_to_reset)

    def burst(self, way: Way, seed: int, deadline: float) -> Burst:
        """Run one burst and return its result. No round starts after time.monotonic() *deadline*,
        except the first.

        Raises Stuck if threads hang. These threads stay alive.
        """
        result = Burst(way)
        loads = self._serial.loads
        plans = self._plans(way, random.Random(seed))
        is_over = False

        def next_round() -> None:  # by one thread, while all others wait
            nonlocal is_over
            is_over = is_over or (time.monotonic() > deadline and result.rounds > 0)
            if not is_over:
                result.rounds += 1
                if way.cold:
                    is_over = not self._serial.reset()

        barrier = threading.Barrier(self._threads, next_round)
        calls = [0] * self._threads  # each thread writes its own place
        mismatches: list[list[Mismatch]] = [[] for _ in plans]

        def run(number: int) -> None:
            for key in plans[number]:
                try:
                    barrier.wait()
                except threading.BrokenBarrierError:
                    return  # other threads hang
                if is_over:
                    return
                copy = outcome(loads, key, number)
                difference = self._serial.wrong(key, copy)
                if difference is not None:
                    mismatches[number].append(Mismatch(key, copy, difference, way))
                calls[number] += 1

        try:
            with (
                _switching_often(),
                self._pausing(seed) if way.pauses else contextlib.nullcontext(),
            ):
                self._run(run, barrier, calls)
        finally:
            self._serial.undo_reset()
        result.calls = sum(calls)
        result.mismatches = [*itertools.chain(*mismatches), *self._take_ignored(way)]
        return result

    def _plans(self, way: Way, rng: random.Random) -> list[list]:
        """Return the keys that each thread loads, one in each round."""
        keys = self._serial.loads.keys
        numbers = [rng.randrange(len(keys)) for _ in range(ROUNDS)]
        if way.same:
            plan = [keys[number] for number in numbers]
            return [plan] * self._threads
        plans = []
        for _ in range(self._threads):
            order = itertools.cycle(rng.sample(keys, len(keys)))
            plans.append(list(itertools.islice(order, ROUNDS)))
        return plans

    def _take_ignored(self, way: Way) -> list[Mismatch]:
        """Return the exceptions that Python ignored in this burst, without those that also came
        with one thread.
        """
        mismatches = []
        for exception in self._ignored:
            if exception not in self._serial.ignored:
                description = f"Python ignored {exception.text}"
                mismatches.append(Mismatch(None, exception, description, way))
        self._ignored.clear()
        return mismatches

    def _run(
        self, run: Callable[[int], None], barrier: threading.Barrier, calls: list[int]
    ) -> None:
        threads = [thread(f"audit-thread-{n}", run, n) for n in range(self._threads)]
        for loader in threads:
            loader.start()
        for loader in threads:
            before = None
            while loader.is_alive():
                loader.join(self._patience)
                if loader.is_alive() and before == sum(calls):
                    barrier.abort()
                    raise stuck(threads, self._patience)
                before = sum(calls)

    @contextlib.contextmanager
    def _pausing(self, seed: int) -> Iterator[None]:
        local = threading.local()

        def pause(code: types.CodeType, line: int) -> None:
            rng = getattr(local, "rng", None)
            if rng is None:
                rng = local.rng = random.Random(f"{seed} {threading.current_thread().name}")
            if rng.random() < _PAUSED:
                time.sleep(rng.random() * _LONGEST_PAUSE)

        event = sys.monitoring.events.LINE
        with monitoring({event: pause}) as tool, events_in(tool, self._codes, event):
            yield


@contextlib.contextmanager
def _switching_often() -> Iterator[None]:
    """Context manager: switch threads more often, which matters if the GIL is on."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
