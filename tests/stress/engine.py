"""Runner of one scenario: rounds in which several threads do their step at once.

A scenario is a class. Made with a seeded random generator, its ``step(thread, rng)`` is called once
by each thread, all released by one barrier, and then its ``check()`` by one thread while no other
runs. Whatever either raises is a failure. Threads are switched every microsecond where there is a
GIL.
"""

import contextlib
import random
import sys
import sysconfig
import threading
import time
import traceback
import types
from collections.abc import Iterator
from typing import Any

from ftsafety.audit.monitoring import events_in, monitoring

THREADS = 4
SWITCH_INTERVAL = 1e-6


class Scenario:
    """Base of scenarios; an instance is one round."""

    threads = THREADS
    pauses = False
    """Whether lines of the scenario's own are followed by short pauses at random,
    in which others come in.
    """
    iterations: int | None = None
    """Maximum number of rounds; None: as many as there is time for."""
    known = ""
    """What is known not to be safe upstream, with its link,
    where the scenario has to keep clear of that.
    """

    def __init__(self, rng: random.Random) -> None:
        """Make what the threads share in this round."""

    def step(self, thread: int, rng: random.Random) -> None:
        """Do one thread's step, at once with the others."""
        raise NotImplementedError

    def check(self) -> None:
        """Check the result, in one thread, after all steps."""

    @classmethod
    def set_up(cls) -> None:
        """Make what is expensive, once, before the first round."""


def configuration() -> str:
    """Return "ft", "ft-gil" or "gil"."""
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "gil"
    return "ft-gil" if sys._is_gil_enabled() else "ft"


class _Rounds:
    """Rounds of one run. ``_begin`` and ``_end`` run in one thread while the others wait."""

    def __init__(self, scenario: type[Scenario], seconds: float, seed: int) -> None:
        self.scenario, self.seed = scenario, seed
        self.count = 0
        self.over = False
        self.failures: list[str] = []  # append() is atomic
        self.current: Scenario | None = None
        self._deadline = time.monotonic() + seconds
        self.begin = threading.Barrier(scenario.threads, self._begin)
        self.end = threading.Barrier(scenario.threads, self._end)

    def _begin(self) -> None:
        limit = self.scenario.iterations
        self.over = bool(self.failures) or (
            self.count > 0
            and (time.monotonic() >= self._deadline or (limit is not None and self.count >= limit))
        )
        if not self.over:
            self._guarded("making the round", self._make)

    def _make(self) -> None:
        self.current = None  # the last round's is freed first, outside of this one's time
        self.current = self.scenario(random.Random(f"{self.seed} {self.count}"))

    def _end(self) -> None:
        self.count += 1
        if self.current is not None and not self.failures:
            self._guarded("checking", self.current.check)

    def _guarded(self, what: str, work: Any, *arguments: Any) -> None:
        try:
            work(*arguments)
        except BaseException:
            self.failures.append(f"round {self.count}, {what}:\n{traceback.format_exc()}")

    def run(self, thread: int) -> None:
        """Take part in all rounds, in one thread."""
        while True:
            self.begin.wait()
            if self.over:
                return
            if self.current is not None:
                rng = random.Random(f"{self.seed} {self.count} {thread}")
                self._guarded(f"thread {thread}", self.current.step, thread, rng)
            self.end.wait()


def run(scenario: type[Scenario], seconds: float, seed: int = 0) -> dict[str, Any]:
    """Run *scenario* for *seconds*, to its first failure.

    Returns plain JSON: scenario, configuration, threads, seed, known, iterations, seconds,
    failures, outcome. The caller limits the time: threads that hang are waited for without end.
    """
    scenario.set_up()
    begin = time.monotonic()
    rounds = _Rounds(scenario, seconds, seed)
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        threads = [
            threading.Thread(target=rounds.run, args=(number,), name=f"stress-{number}")
            for number in range(scenario.threads)
        ]
        with _pausing(scenario, seed):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(before)
    return {
        **about(scenario, seed),
        "iterations": rounds.count,
        "seconds": round(time.monotonic() - begin, 3),
        "failures": rounds.failures,
        "outcome": "failed" if rounds.failures else "passed",
    }


def about(scenario: type[Scenario], seed: int) -> dict[str, Any]:
    """Return what every result says of its scenario, however it ended."""
    return {
        "scenario": name_of(scenario),
        "configuration": configuration(),
        "threads": scenario.threads,
        "seed": seed,
        "known": scenario.known,
    }


@contextlib.contextmanager
def _pausing(scenario: type[Scenario], seed: int) -> Iterator[None]:
    if not scenario.pauses:
        yield
        return
    codes = {
        function.__code__
        for cls in scenario.__mro__
        if cls.__module__ == scenario.__module__
        for name, function in vars(cls).items()
        if isinstance(function, types.FunctionType) and name not in ("__init__", "check")
    }
    own = threading.local()

    def pause(code: types.CodeType, line: int) -> None:
        rng = getattr(own, "rng", None)
        if rng is None:
            rng = own.rng = random.Random(f"{seed} {threading.current_thread().name}")
        if rng.random() < 0.05:
            time.sleep(rng.random() * 2e-4)

    event = sys.monitoring.events.LINE
    with monitoring({event: pause}) as tool, events_in(tool, codes, event):
        yield


def name_of(scenario: type[Scenario]) -> str:
    """ "libraries.PillowDecode"."""
    return f"{scenario.__module__.rpartition('.')[2]}.{scenario.__qualname__}"
