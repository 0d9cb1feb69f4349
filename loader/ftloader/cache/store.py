"""Adds samples to a cache's directory and evicts old samples.
Only one process may write to a directory.

A thread reserves room for a sample under the lock, and writes the sample without the lock. So the
budget holds at every moment, unfinished writes included:

    sealed segments (their disk usage) + the open segment (the size
    it may reach) + a fixed reserve <= max_bytes

Samples added since the last snapshot are not evicted, since no epoch has used them yet. If nothing
else can be evicted, threads wait for room until the next snapshot.
"""

import bisect
import itertools
import os
import threading
import time
from collections import deque
from typing import Any

import numpy as np

from ftloader import fork
from ftloader.cache import record, segment, sharing
from ftloader.cache.errors import CacheError
from ftloader.cache.files import BLOCK
from ftloader.cache.formats import FORMATS, Format
from ftloader.cache.segment import Segment, SegmentWriter

LEAST_BUDGET = 1 << 20
_RESERVE = 1 << 17  # the directory itself and its small files
_NAME = 128  # for the name of a segment in those
_SEGMENTS = 128  # number of segments that fill the budget
_LARGEST_SAMPLE = 4  # as a divisor of the budget
_LOOK_AGAIN = 1.0  # seconds; nothing signals that a reader in another process gave up its pins


class Snapshot:
    """List of the samples of an epoch: the first *length* samples in *segments*,
    all if *length* is None.

    Immutable, so threads may share it. Unpickling opens the segments' files.
    """

    def __init__(self, epoch: int, segments: list[Segment], length: int | None = None) -> None:
        self.epoch, self.segments = epoch, tuple(segments)
        self._ends = list(itertools.accumulate(map(len, segments)))
        self._length = sum(map(len, segments))
        if length is not None:
            self._length = min(length, self._length)

    def __len__(self) -> int:
        return self._length

    def find(self, index: Any) -> tuple[Segment, int]:
        """Return (segment, row in that segment) of sample *index*. Raise ``IndexError`` if there is
        no such sample.
        """
        number = index.__index__()
        if not -self._length <= number < self._length:
            raise IndexError(f"sample {number} of {self._length}")
        number %= self._length
        position = bisect.bisect_right(self._ends, number)
        segment_of_sample = self.segments[position]
        return segment_of_sample, number - self._ends[position] + len(segment_of_sample)

    def times(self) -> np.ndarray:
        """Return the time at which each sample was written,
        in seconds since 1970, by the system clock.
        """
        if not self.segments:
            return np.empty(0)
        return np.concatenate([sealed.rows["time"] for sealed in self.segments])[: self._length]

    def state(self) -> dict[str, Any]:
        """Return a dict that JSON can store, from which ``of_state`` makes the snapshot again."""
        return {
            "epoch": self.epoch,
            "segments": [sealed.name for sealed in self.segments],
            "length": self._length,
        }

    @staticmethod
    def of_state(state: dict[str, Any], directory: str, at_most: int | None = None) -> "Snapshot":
        """Return the snapshot whose ``state()`` is *state*, or its first *at_most* samples. Raise
        ``CacheError`` if one of its segments is missing."""
        segments = [segment.load(directory, os.path.basename(name)) for name in state["segments"]]
        length = state["length"]
        if at_most is not None:
            length = min(at_most, length)
        return Snapshot(state["epoch"], segments, length)


class Store:
    """Writer of the samples in *directory*, which it locks until ``close()``.

    The lock ``guard`` guards all attributes that change; the condition ``changed`` is notified of
    every change. ``guard`` is reentrant, since a signal handler may call ``stop`` in the middle of
    any other call.

    Raises ``CacheError`` if another process writes to *directory*, ``OSError`` if the directory
    cannot be written.
    """

    def __init__(self, directory: str, max_bytes: int, format: Format = FORMATS["segment"]) -> None:
        self.directory, self.max_bytes, self._format = directory, max_bytes, format
        # Entered itself: Ctrl-C can come between Condition.__enter__'s acquiring and its return,
        # and nothing would release the lock. __enter__ of a lock is C.
        self.guard = fork.rlock()
        self.changed = threading.Condition(self.guard)
        self.full = False  # true if a thread waits for room, and no snapshot was made since
        self.waited = 0.0  # seconds for which threads waited for room, summed over the threads
        self.evictions = 0
        self.stopped = False
        self._closer: int | None = None  # id of the thread that closes the store
        self._unsealed: set[SegmentWriter] = set()
        fork.renewed(self)
        self._syncing = 0  # number of segments that are being synced
        self._keys: set[str] = set()  # of samples in the store, and of claimed ones
        self._sealed: dict[str, Segment] = {}  # the oldest first
        self._open: SegmentWriter | None = None
        self._unsynced: deque[str] = deque()
        # The last snapshot of an earlier run is kept through the first epoch:
        # its state may be loaded.
        self._pinned: frozenset[str] = frozenset()
        self._earlier: frozenset[str] = frozenset()
        self._seen = -1  # newest segment that was there at a snapshot
        self._part = max(BLOCK, max_bytes // _SEGMENTS // BLOCK * BLOCK)
        self._used = _RESERVE
        self._next_number = 0
        os.makedirs(directory, exist_ok=True)
        self._lock = sharing.WriterLock(directory)
        try:
            with self.guard:
                self._recover()
        except BaseException:
            self._lock.release()
            raise

    def _at_fork_reinit(self) -> None:
        """In a forked child, close inherited files: a removed file occupies the disk while any
        process has it open.
        """
        for writer in list(self._unsealed):
            writer.close()

    # Adding

    def claim(self, key: str) -> bool:
        """Claim *key* for the caller, which must ``add`` or ``give_up`` it. Return False if it is
        stored or claimed.
        """
        with self.guard:
            if key in self._keys:
                return False
            self._keys.add(key)
            return True

    def give_up(self, key: str) -> None:
        """End the claim of *key*, so that any thread can claim the key again."""
        with self.guard:
            self._keys.discard(key)

    def add(self, key: str, data: bytes | memoryview) -> bool:
        """Add the sample of a claimed key, after waiting for room if necessary. Return False if the
        store is stopped. Raise ``CacheError`` if the sample is too large, ``OSError`` if writing
        fails; the key then stays claimed."""
        crc, name, length = self._format.checksum(data), record.encoded(key), len(data)
        size = -(-max(self._part, self._format.size_for(name, length)) // BLOCK) * BLOCK
        if size > self.max_bytes // _LARGEST_SAMPLE:
            sizes = f"{length} bytes"
            if len(name) > length:
                sizes += f" with a key of {len(name)} bytes"
            raise CacheError(
                f"sample {key!r:.200} of {sizes} is larger than a quarter of the "
                f"budget, max_bytes={self.max_bytes}"
            )
        with self.guard:
            writer = self._writer_with_room(name, length, size)
            if writer is None:
                return False
            row = writer.begin(name, length, crc)
        try:
            writer.write(row, data)
        except BaseException:
            with self.guard:
                self._leave(writer)
            raise
        with self.guard:
            writer.complete(row, key)
            try:
                self._leave(writer)
            finally:
                self._keys.add(key)
        return True

    def sync(self) -> None:
        """Sync all sealed segments to the disk and wait for that.
        So the next writer need not check their samples.
        """
        while True:
            with self.guard:
                if not self._unsynced:
                    return
                name = self._unsynced.popleft()
                self._syncing += 1
            try:
                segment.sync(self.directory, name)
            finally:
                with self.guard:
                    self._syncing -= 1
                    self.changed.notify_all()

    def _writer_with_room(self, name: bytes, length: int, size: int) -> SegmentWriter | None:
        """Return the open segment, after waiting for room if necessary;
        None if the store is stopped.

        *size* is that of a new segment. The caller must hold ``guard``.
        """
        while not self.stopped:
            if self._open is not None and not self._open.fits(name, length):
                self._retire()
            if self._open is not None or self._open_segment(size):
                return self._open
            began = time.monotonic()
            if not self.full:
                self.full = True
                self.changed.notify_all()
            timeout = None
            if self._victim(ignore_readers=True):
                timeout = _LOOK_AGAIN
            self.changed.wait(timeout)
            self.waited += time.monotonic() - began
        return None

    def _open_segment(self, size: int) -> bool:
        """Start a new segment of *size* bytes, evicting others if necessary. Return False if no
        room can be made.
        """
        while self._used + size + _NAME > self.max_bytes:
            victim = self._victim()
            if victim is None:
                return False
            self._evict(victim)
        self._open = SegmentWriter(self.directory, self._next_number, size, self._format)
        self._next_number += 1
        self._unsealed.add(self._open)
        self._used += size + _NAME
        return True

    def _retire(self) -> None:
        """Add no more samples to the open segment.
        It is sealed once no thread writes to it any more.
        """
        writer, self._open = self._open, None
        if writer is not None:
            self._end(writer)

    def _leave(self, writer: SegmentWriter) -> None:
        writer.users -= 1
        self._end(writer)

    def _end(self, writer: SegmentWriter) -> None:
        """Seal the segment of *writer*, unless it is the open segment
        or a thread still writes to it.
        """
        # If Ctrl-C interrupts the caller before the segment is sealed, close() seals it.
        if writer.users or writer is self._open:
            return
        self.changed.notify_all()
        try:
            sealed = writer.seal()
        except Exception:  # its samples have to be fetched again
            self._unsealed.discard(writer)
            self._keys.difference_update(writer.keys)
            self._used -= writer.size + _NAME
            segment.unlink(writer.path)
            raise
        self._unsealed.discard(writer)
        self._used -= writer.size + _NAME
        if sealed is not None:
            self._keep(sealed)

    def _keep(self, sealed: Segment) -> None:
        self._sealed[sealed.name] = sealed
        self._used += sealed.size + _NAME
        self._unsynced.append(sealed.name)

    # Evicting

    def _victim(self, ignore_readers: bool = False) -> Segment | None:
        victims = [
            s
            for s in self._sealed.values()
            if s.number <= self._seen and s.name not in self._pinned
        ]
        if victims and not ignore_readers:
            pinned = sharing.pinned_by_readers(self.directory)
            victims = [s for s in victims if s.name not in pinned]
        return min(victims, key=lambda s: s.number, default=None)

    def _evict(self, victim: Segment) -> None:
        segment.unlink(victim.path)
        del self._sealed[victim.name]
        self._used -= victim.size + _NAME
        self._keys.difference_update(victim.keys)
        self.evictions += 1
        self.full = False
        self.changed.notify_all()

    # Snapshots

    def newest(self, most_bytes: int) -> list[Segment]:
        """Seal the open segment. Return the newest segments, at most *most_bytes* in total, sorted
        from old to new.
        """
        with self.guard:
            writer = self._open
            self._retire()
            self.changed.wait_for(lambda: writer is None or not writer.users)
            chosen: list[Segment] = []
            for sealed in sorted(self._sealed.values(), key=lambda s: s.number, reverse=True):
                most_bytes -= sealed.size
                if most_bytes < 0:
                    break
                chosen.append(sealed)
            return chosen[::-1]

    def named(self, names: list[str]) -> list[Segment]:
        """Return the segments with these names. Raise ``CacheError`` if one is missing."""
        with self.guard:
            missing = [name for name in names if name not in self._sealed]
            if missing:
                raise CacheError(
                    f"{len(missing)} of {len(names)} segments of the state's snapshot are not "
                    f"in {self.directory} any "
                    "more (evicted, or another directory): start the epoch again with set_epoch"
                )
            return [self._sealed[name] for name in names]

    def publish(self, snapshot: Snapshot) -> None:
        """Make *snapshot* current and pin its segments. From now on, all unpinned existing segments
        may be evicted.
        """
        with self.guard:
            state = snapshot.state()
            self._lock.publish(state)
            self._pinned, self._earlier = self._earlier.union(state["segments"]), frozenset()
            self._seen = max((self._seen, *(s.number for s in self._sealed.values())))
            self.full = False
            self.changed.notify_all()

    def drop_damaged(self) -> None:
        """Remove the segments that readers found damaged.
        Their samples have to be fetched again.
        """
        with self.guard:
            for name in segment.names_in(self.directory, segment.DAMAGED_SUFFIX):
                if name in self._sealed:
                    self._evict(self._sealed[name])
                else:  # removed already
                    segment.unlink(os.path.join(self.directory, name))

    def contents(self) -> tuple[int, int]:
        """Return (number of complete samples, bytes of the budget in use)."""
        with self.guard:
            samples = sum(map(len, self._sealed.values()))
            if self._open:
                samples += len(self._open)
            return samples, self._used

    # Start and end

    def _recover(self) -> None:
        names = segment.names_in(self.directory)
        self._next_number = 1 + max(map(segment.number_of, names), default=-1)
        # All are read before one is removed: the directory may be another program's.
        segments = [segment.recover(self.directory, name, self.max_bytes) for name in names]
        kept = []
        for name, sealed in zip(names[::-1], segments[::-1]):
            if (
                sealed is None
                or len(set(sealed.keys)) < len(sealed)
                or not self._keys.isdisjoint(sealed.keys)
            ):
                segment.unlink(os.path.join(self.directory, name))
            else:
                self._keys.update(sealed.keys)
                kept.append(sealed)
        for sealed in kept[::-1]:
            self._keep(sealed)
        self.drop_damaged()
        segment.remove_strays(self.directory)
        self._earlier = frozenset(self._lock.earlier)
        while self._used > self.max_bytes and self._sealed:  # the budget was larger before
            self._evict(next(iter(self._sealed.values())))

    def stop(self) -> None:
        """Accept no more samples, and wake the threads that wait for room."""
        with self.guard:
            self.stopped = True
            self.changed.notify_all()

    def close(self) -> None:
        """Seal all segments, wait until they have reached the disk, and unlock the directory."""
        # If another thread is closing the store, wait for that. A signal handler of the closing
        # thread returns at once: its thread cannot continue before the handler returns.
        this_thread = threading.get_ident()
        with self.guard:
            if self._closer not in (None, this_thread):
                self.changed.wait_for(lambda: not self._lock.held)
            if self._closer == this_thread or not self._lock.held:
                return
            self._closer = this_thread
        try:
            with self.guard:
                self.stop()
                self._retire()
                self.changed.wait_for(lambda: not any(writer.users for writer in self._unsealed))
                for writer in list(self._unsealed):
                    self._end(writer)
            self.sync()
            with self.guard:
                self.changed.wait_for(lambda: not self._syncing)
        finally:  # the next writer removes unsealed segments
            with self.guard:
                self._lock.release()
                self.changed.notify_all()
