"""Search for failures that occur only while all threads load, and the second look, which confirms the failures."""

import threading
import time
import types
from collections import Counter
from collections.abc import Callable

from ftsafety.audit import findings, kinds
from ftsafety.audit.comparison import Raised
from ftsafety.audit.concurrent_loads import WAYS, Burst, Burster, Mismatch
from ftsafety.audit.ignored import collecting
from ftsafety.audit.places import definition
from ftsafety.audit.report import Finding
from ftsafety.audit.samples import Stuck, stuck
from ftsafety.audit.serial import AuditError, Serial


class AtOnce:
    """Finder of failures that occur only when all threads load at the same time. Owned by one thread."""

    def __init__(
        self, serial: Serial, codes: set[types.CodeType], seconds: float, seed: int, say: Callable[[str], None]
    ) -> None:
        self._loads, self._serial, self._say = serial.loads, serial, say
        self._seconds, self._seed = seconds, seed
        self._codes = codes
        self.bursts: list[Burst] = []
        self.again: list[Burst] = []
        """Bursts of the second look."""
        self.unconfirmed: list[str] = []
        """Failures that the second look did not confirm."""

    def run(self, suspects: list[Finding]) -> list[Finding]:
        """Load samples in all threads; return a finding for each kind of failure that the second look confirms.

        *suspects*: findings of earlier steps, which may name the cause of a failure.
        """
        with collecting() as ignored:
            self._serial.try_fresh()
            self._serial.ignored.update(ignored)
            ignored.clear()
            burster = Burster(self._serial, self._codes, ignored)
            try:
                self._provoke(burster)
                return self._confirmed(burster, suspects)
            except Stuck as error:
                return [self._look_again_at_hang(error)]

    def _provoke(self, burster: Burster) -> None:
        deadline = time.monotonic() + self._seconds
        self._say(f"loading in {self._loads.threads} threads at once for {self._seconds:.0f} s")
        number = 0
        while number < len(WAYS) or time.monotonic() < deadline:
            # Each way is tried once, if only for a round, however slow the dataset is.
            self.bursts.append(burster.burst(WAYS[number % len(WAYS)], self._seed + number, deadline))
            number += 1
            if number >= len(WAYS) and sum(bool(burst.mismatches) for burst in self.bursts) >= 5:
                break  # enough failures for the second look

    def _confirmed(self, burster: Burster, suspects: list[Finding]) -> list[Finding]:
        found = _by_group(self.bursts)
        if not found:
            return []
        self._say(f"a second look at {len(found)} kind(s) of failure, in {self._loads.threads} threads")
        again: dict[tuple, list[Mismatch]] = {}
        deadline = time.monotonic() + self._seconds
        while found.keys() - again.keys() and (len(self.again) < 3 or time.monotonic() < deadline):
            # In turns: some ways fail once alone. A warm dataset is cold in its first burst after a cold one.
            failed = Counter(each.way for group, failures in found.items() if group not in again for each in failures)
            ways = [way for way, _ in failed.most_common()]
            number = len(self.again)
            self.again.append(burster.burst(ways[number % len(ways)], self._seed + 1000 + number, deadline))
            again = _by_group(self.again)
        self._serial.snapshot.restore()
        differing = [each for failures in (found, again) for each in failures.get(("differs",), [])]
        varying = self._serial.alone(lambda: self._varying(differing))
        self._serial.unequal |= varying
        result = []
        rounds = self.bursts, self.again
        for group, failures in found.items():
            real = [each for each in failures if each.key not in varying or isinstance(each.got, Raised)]
            if not real:
                continue  # reported as samples that differ serially
            if group in again:
                result.append(findings.from_threads(self._loads, real, again[group], rounds, suspects))
            else:
                where = "" if real[0].key is None else f"{self._loads.unit} {real[0].key!r}: "
                self.unconfirmed.append(
                    f"{where}{real[0].how} ({real[0].way}), but not in "
                    f"{sum(burst.rounds for burst in self.again)} rounds of the second look"
                )
        return result

    def _varying(self, failures: list[Mismatch]) -> set:
        """Return the keys of *failures* whose samples also differ when only this thread loads: they may vary anyway.

        Each key is loaded so often that a difference as frequent as the failures would be seen about eight times. If
        time runs out before that, return all keys if any key has differed, else none.
        """
        keys = {each.key for each in failures}
        varying: set = set()
        number = 8 * sum(burst.calls for burst in [*self.bursts, *self.again]) // max(len(failures), 1)
        deadline = time.monotonic() + self._seconds
        for turn in range(number):
            for key in keys - varying:
                if self._serial.wrong(key, self._serial.one(key)[0]):
                    varying.add(key)
                if turn and time.monotonic() > deadline:
                    return keys if varying else set()  # one speaks for those that were loaded too seldom
        return varying

    def _look_again_at_hang(self, first: Stuck) -> Finding:
        self._say("threads are stuck; a second look")
        patience = self._serial.patience
        time.sleep(min(patience, 5.0))
        threads = [thread for thread in threading.enumerate() if thread.name in first.names]
        second = stuck(threads, patience)
        if not second.names or first.stacks != second.stacks:
            raise AuditError(
                f"under threads samples take longer than patience={patience:.0f} s, but they do end: allow more"
            )
        where = second.line or definition(self._loads.dataset)
        return kinds.make("hang", where, number=len(second.names), first=first, second=second)


def _by_group(bursts: list[Burst]) -> dict[tuple, list[Mismatch]]:
    found: dict[tuple, list[Mismatch]] = {}
    for burst in bursts:
        for mismatch in burst.mismatches:
            found.setdefault(mismatch.group, []).append(mismatch)
    return found
