"""Record of the writes of threads that load in turns:
which of them go into objects that threads share.
"""

from typing import Any, NamedTuple

from ftloader.diagnosis.lookups import is_a
from ftsafety.audit.pools import BUFFERS, is_part
from ftsafety.audit.report import SourceLine


class Write(NamedTuple):
    """Line that writes into an object shared by threads."""

    line: SourceLine
    target: str
    kind: str
    """"augmented", "checked", "item", "attribute", "call", "cycle" or "global"."""
    per_thread: bool
    """True if only one thread reads what is written: a threading.local,
    or a key that is the thread's number.
    """


class Written(NamedTuple):
    """Write with the object into which it wrote."""

    value: Any
    shared_as: Any
    """The container from which samples take `value`, such as a queue,
    which shows no entries; else `value`.
    """
    write: Write
    guarded: bool
    """True if the thread held a lock."""


class WriteRecorder:
    """Recorder of the writes of all threads, one of which loads at a time."""

    def __init__(self, shared: list[Any]) -> None:
        """*shared*: the objects that the dataset refers to."""
        self.guarded_lines: set[SourceLine] = set()
        """Lines that write while their thread holds a lock."""
        # By id, so the objects are kept alive: their ids stay unique.
        self._shared = {id(value): value for value in shared}
        self._touched_by_thread: list[dict[int, Any]] = []
        self._records: list[Written] = []
        self._lent: list[Written] = []  # writes of this sample to objects that its thread has alone

    def start_thread(self) -> None:
        """Add what is recorded next to a thread of its own."""
        self._touched_by_thread.append({})

    def share(self, value: Any) -> None:
        """Treat *value* as shared by threads, however many write into it."""
        self._shared[id(value)] = value

    def is_shared(self, value: Any) -> bool:
        """True if the dataset refers to *value*, or `share` was called with it."""
        return id(value) in self._shared

    def record(self, written: Written, lent: bool) -> None:
        """Record a write. *lent*: True if the thread has the object alone,
        until it puts the object back.
        """
        if lent:
            self._lent.append(written)
            return
        if written.guarded:
            self.guarded_lines.add(written.write.line)
        self._add(written)

    def end_sample(self, sample: Any) -> None:
        """Add the writes to buffers in *sample*, which other threads use
        while the sample is still in use.
        """
        for written in self._lent:
            if is_a(written.value, BUFFERS) and is_part(written.value, sample):
                self._add(written)

    def forget_lent(self) -> None:
        """Drop the writes to objects that the thread had alone."""
        self._lent.clear()

    def _add(self, written: Written) -> None:
        self._touched_by_thread[-1][id(written.shared_as)] = written.shared_as
        self._records.append(written)

    def writes(self) -> set[Write]:
        """Return the writes without a lock into shared objects,
        and those into objects of one thread.
        """
        return {written.write for written in self._records if self._is_reported(written)}

    def _is_reported(self, written: Written) -> bool:
        if written.write.per_thread:
            return True
        number = id(written.shared_as)
        in_all_threads = all(number in touched for touched in self._touched_by_thread)
        return not written.guarded and (number in self._shared or in_all_threads)
