"""All threads at once, and a second look at what they did."""

import threading
import time
import types
from collections.abc import Callable

from ftsafety.audit import findings
from ftsafety.audit.comparison import Raised
from ftsafety.audit.concurrent_loads import WAYS, Burst, Burster, Odd, Stuck, stuck
from ftsafety.audit.report import Finding
from ftsafety.audit.samples import Loads
from ftsafety.audit.serial import AuditError, Serial


class AtOnce:
    """Bursts of loads by all threads. Driven by the thread that made it."""

    def __init__(
        self,
        loads: Loads,
        serial: Serial,
        codes: set[types.CodeType],
        threads: int,
        seconds: float,
        patience: float,
        seed: int,
        say: Callable[[str], None],
    ) -> None:
        self._loads, self._serial, self._say = loads, serial, say
        self._threads, self._seconds, self._seed = threads, seconds, seed
        # Where threads take turns, each waits for all others.
        self._patience = patience
        patience = max(patience, 4 * serial.slowest * threads)
        self._burster = Burster(loads, serial.reference, serial.unequal, serial.snapshot, codes, threads, patience)
        self._bursts: list[Burst] = []
        self._again: list[Burst] = []
        self.unconfirmed: list[str] = []
        """Failures that the second look did not see."""

    @property
    def bursts(self) -> list[Burst]:
        """All bursts, those of the second look included."""
        return self._bursts + self._again

    def run(self, suspects: list[Finding]) -> list[Finding]:
        """Provoke failures and look again; return what was confirmed. *suspects*: findings that may be the cause."""
        try:
            self._provoke()
            return self._confirmed(suspects)
        except Stuck as error:
            return [self._look_again_at_hang(error)]

    def _provoke(self) -> None:
        deadline = time.monotonic() + self._seconds
        self._say(f"loading in {self._threads} threads at once for {self._seconds:.0f} s")
        number = 0
        while number < len(WAYS) or time.monotonic() < deadline:
            # Each way is tried once, if only for a round, however slow the dataset is.
            self._bursts.append(self._burster.burst(WAYS[number % len(WAYS)], self._seed + number, deadline))
            number += 1
            signs = {odd.sign for burst in self._bursts for odd in burst.odd}
            if number >= len(WAYS) and signs and sum(bool(burst.odd) for burst in self._bursts) >= 5:
                break  # what fails this often needs no more showing

    def _confirmed(self, suspects: list[Finding]) -> list[Finding]:
        odds = [odd for burst in self._bursts for odd in burst.odd]
        missing = {odd.sign: odd for odd in odds}
        if not missing:
            return []
        self._say(f"a second look at {len(missing)} kind(s) of failure, in {self._threads} threads")
        again: dict[tuple, list[Odd]] = {}
        deadline = time.monotonic() + self._seconds
        number = 0
        while set(missing) - set(again) and (number < 3 or time.monotonic() < deadline):
            ways = [odd.way for sign, odd in missing.items() if sign not in again]
            burst = self._burster.burst(ways[number % len(ways)], self._seed + 1000 + number, deadline)
            self._again.append(burst)
            for odd in burst.odd:
                again.setdefault(odd.sign, []).append(odd)
            number += 1
        self._serial.snapshot.restore()
        keys = {odd.key for odd in odds} | {odd.key for odds in again.values() for odd in odds}
        # One thread again: perhaps the threads are not the cause.
        self._serial.unequal |= self._serial.alone(lambda: {key for key in keys if self._serial.differs(key)})
        result = []
        for sign in missing:
            both = [odd for odd in odds if odd.sign == sign], again.get(sign, [])
            real = [odd for odd in both[0] if odd.key not in self._serial.unequal or isinstance(odd.got, Raised)]
            if not real:
                continue  # reported as samples that differ serially
            if both[1]:
                result.append(findings.from_threads(self._loads, real, both[1], self._bursts, self._again, suspects))
            else:
                self.unconfirmed.append(
                    f"{self._loads.unit} {real[0].key!r}: {real[0].how} ({real[0].way}), but not in "
                    f"{sum(burst.rounds for burst in self._again)} rounds of the second look"
                )
        return result

    def _look_again_at_hang(self, first: Stuck) -> Finding:
        self._say("threads are stuck; a second look")
        time.sleep(min(self._patience, 5.0))
        threads = [thread for thread in threading.enumerate() if thread.name in first.names]
        second = stuck(threads, self._patience)
        if not second.names or first.stacks != second.stacks:
            raise AuditError(
                f"under threads samples take longer than patience={self._patience:.0f} s, but they do end: allow more"
            )
        return findings.from_hang(self._loads, first, second)
