"""Search for failures that occur only while all threads load,
and the second look, which confirms the failures.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable

from ftsafety.audit import findings, kinds
from ftsafety.audit.comparison import Raised
from ftsafety.audit.concurrent_loads import WAYS, Burst, Burster, Mismatch, Way
from ftsafety.audit.ignored import collecting
from ftsafety.audit.monitoring import Codes
from ftsafety.audit.places import definition
from ftsafety.audit.report import Finding
from ftsafety.audit.samples import Stuck, stuck
from ftsafety.audit.serial import AuditError, Serial

_ENOUGH = 5
"""Number of failed bursts after which the search ends."""
_Groups = dict[tuple, list[Mismatch]]
"""Failures by `Mismatch.group`."""


class AtOnce:
    """Finder of failures that occur only when all threads load at the same time.
    Owned by one thread.
    """

    def __init__(
        self, serial: Serial, codes: Codes, seconds: float, seed: int, say: Callable[[str], None]
    ) -> None:
        self._loads = serial.loads
        self._serial = serial
        self._codes = codes
        self._seconds = seconds
        self._seed = seed
        self._say = say
        self.bursts: list[Burst] = []
        self.again: list[Burst] = []
        """Bursts of the second look."""
        self.unconfirmed: list[str] = []
        """Failures that the second look did not confirm."""

    def run(self, suspects: list[Finding]) -> list[Finding]:
        """Load samples in all threads; return a finding for each kind
        of failure that the second look confirms.

        *suspects*: findings of earlier steps, which may name the cause of a failure.
        """
        with collecting() as ignored:
            self._serial.try_fresh()
            self._serial.ignored.update(ignored)
            ignored.clear()
            burster = Burster(self._serial, self._codes, ignored)
            try:
                self._provoke(burster)
                failures = _by_group(self.bursts)
                if not failures:
                    return []
                return self._confirmed(failures, self._look_again(burster, failures), suspects)
            except Stuck as error:
                return [self._look_again_at_hang(error)]

    def _provoke(self, burster: Burster) -> None:
        deadline = time.monotonic() + self._seconds
        self._say(f"loading in {self._loads.threads} threads at once for {self._seconds:.0f} s")
        number = 0
        while number < len(WAYS) or time.monotonic() < deadline:
            # Each way is tried once, if only for a round, however slow the dataset is.
            way = WAYS[number % len(WAYS)]
            self.bursts.append(burster.burst(way, self._seed + number, deadline))
            number += 1
            failed = sum(bool(burst.mismatches) for burst in self.bursts)
            if number >= len(WAYS) and failed >= _ENOUGH:
                break

    def _look_again(self, burster: Burster, failures: _Groups) -> _Groups:
        """Load in the ways that led to *failures*;
        return the failures of this second look, by group.
        """
        threads = self._loads.threads
        self._say(f"a second look at {len(failures)} kind(s) of failure, in {threads} threads")
        confirmed: _Groups = {}
        deadline = time.monotonic() + self._seconds
        while failures.keys() - confirmed.keys():
            number = len(self.again)
            if number >= 3 and time.monotonic() >= deadline:
                break
            # In turns: some ways fail once alone. A warm dataset is cold
            # in its first burst after a cold one.
            ways = _ways_of_unconfirmed(failures, confirmed)
            way = ways[number % len(ways)]
            self.again.append(burster.burst(way, self._seed + 1000 + number, deadline))
            confirmed = _by_group(self.again)
        return confirmed

    def _confirmed(
        self, failures: _Groups, confirmed: _Groups, suspects: list[Finding]
    ) -> list[Finding]:
        """Return a finding for each group of *failures* in *confirmed*;
        add the other groups to `unconfirmed`.

        Leaves out samples that also differ when only one thread loads.
        """
        self._serial.restore()
        differing = failures.get(("differs",), []) + confirmed.get(("differs",), [])
        varying = self._serial.alone(lambda: self._varying(differing))
        self._serial.unequal |= varying
        confirmed_findings = []
        rounds = self.bursts, self.again
        for group, mismatches in failures.items():
            real = _without(varying, mismatches)
            if not real:
                continue  # reported as samples that differ serially
            if group in confirmed:
                confirmed_findings.append(
                    findings.from_threads(self._loads, real, confirmed[group], rounds, suspects)
                )
            else:
                self.unconfirmed.append(self._in_words(real[0]))
        return confirmed_findings

    def _in_words(self, mismatch: Mismatch) -> str:
        where = ""
        if mismatch.key is not None:
            where = f"{self._loads.unit} {mismatch.key!r}: "
        rounds = sum(burst.rounds for burst in self.again)
        not_confirmed = f"but not in {rounds} rounds of the second look"
        return f"{where}{mismatch.description} ({mismatch.way}), {not_confirmed}"

    def _varying(self, failures: list[Mismatch]) -> set:
        """Return the keys of *failures* whose samples also differ when only this thread loads: they
        may vary anyway.

        Each key is loaded so often that a difference as frequent as the failures would be seen
        about eight times. If time runs out before that, return all keys if any key has differed,
        else none.
        """
        keys = {mismatch.key for mismatch in failures}
        varying: set = set()
        deadline = time.monotonic() + self._seconds
        for repeat in range(self._repeats(failures)):
            for key in keys - varying:
                copy, _ = self._serial.one(key)
                if self._serial.wrong(key, copy):
                    varying.add(key)
                if repeat and time.monotonic() > deadline:
                    # One speaks for those that were loaded too seldom.
                    return keys if varying else set()
        return varying

    def _repeats(self, failures: list[Mismatch]) -> int:
        calls = sum(burst.calls for burst in [*self.bursts, *self.again])
        return 8 * calls // max(len(failures), 1)

    def _look_again_at_hang(self, first: Stuck) -> Finding:
        self._say("threads are stuck; a second look")
        patience = self._serial.patience
        time.sleep(min(patience, 5.0))
        threads = [thread for thread in threading.enumerate() if thread.name in first.names]
        second = stuck(threads, patience)
        if not second.names or first.stacks != second.stacks:
            raise AuditError(
                f"under threads samples take longer than patience={patience:.0f} s, but they "
                f"do end: allow more"
            )
        where = second.line or definition(self._loads.dataset)
        return kinds.make("hang", where, number=len(second.names), first=first, second=second)


def _without(varying: set, mismatches: list[Mismatch]) -> list[Mismatch]:
    """Return *mismatches* without other samples of keys in *varying*."""
    real = []
    for mismatch in mismatches:
        if mismatch.key not in varying or isinstance(mismatch.copy, Raised):
            real.append(mismatch)
    return real


def _by_group(bursts: list[Burst]) -> _Groups:
    mismatches: _Groups = {}
    for burst in bursts:
        for mismatch in burst.mismatches:
            mismatches.setdefault(mismatch.group, []).append(mismatch)
    return mismatches


def _ways_of_unconfirmed(failures: _Groups, confirmed: _Groups) -> list[Way]:
    """Return the ways of the failures whose group is not in *confirmed*,
    the most frequent first.
    """
    counts: Counter[Way] = Counter()
    for group, mismatches in failures.items():
        if group not in confirmed:
            counts.update(mismatch.way for mismatch in mismatches)
    return [way for way, _ in counts.most_common()]
