"""What a cache's directory holds, in the one process that writes to it.

A sample is written outside the lock: the place for it is taken with the lock, and counted. So the budget holds at every
moment, with what is being written included:

    sealed segments (what they take of the disk) + the open one (all that it may become) + a fixed reserve <= max_bytes

Samples that came since the last snapshot are not evicted, since nobody has had them yet: who wants to add more waits.
"""

import os
import threading
import time
import warnings
from collections import deque

from ftloader import fork
from ftloader.cache import record, segment, sharing
from ftloader.cache.errors import CacheError
from ftloader.cache.segment import BLOCK, Segment, SegmentWriter
from ftloader.cache.snapshot import Snapshot

LEAST_BUDGET = 1 << 20
_RESERVE = 1 << 17  # the directory itself and its small files
_NAME = 128  # what a segment's name takes in those
_SEGMENTS = 128  # the budget in so many parts
_LARGEST_SAMPLE = 4  # a quarter of the budget
_LOOK_AGAIN = 1.0  # seconds; for pins of readers in other processes, whose end nothing tells


class Store:
    """The samples in *directory*, of which this is the one writer until ``close()``.

    ``changed`` guards everything that is not constant, and is notified whenever something changed. A reentrant lock,
    since a finalizer may call ``stop`` in the midst of any other call.

    Raises ``CacheError`` if another process (or another object of this one) writes there, ``OSError`` if nobody can.
    """

    def __init__(self, directory: str, max_bytes: int, evict: str, version: int = 1) -> None:
        self.directory, self.max_bytes, self.evict, self._version = directory, max_bytes, evict, version
        self.changed = threading.Condition(fork.rlock())
        self.full = False
        """Whether somebody waits for room, and no snapshot was made since."""
        self.waited = 0.0
        """Seconds that threads have waited for room, all together."""
        self.evictions = 0
        self.stopped = False
        self._closer: int | None = None  # the thread that closes it
        self._unsealed: set[SegmentWriter] = set()
        fork.renewed(self)
        self._syncing = 0  # segments that reach the disk now
        self._keys: set[str] = set()  # of samples, and of those that are fetched now
        self._sealed: dict[str, Segment] = {}  # the oldest first
        self._open: SegmentWriter | None = None
        self._unsynced: deque[str] = deque()
        # An earlier run's snapshot is kept through the first epoch of this one: a state of it may be loaded.
        self._pinned: frozenset[str] = frozenset()
        self._earlier: frozenset[str] = frozenset()
        self._seen = -1  # the newest segment that a snapshot was made of, or from
        self._part = max(BLOCK, max_bytes // _SEGMENTS // BLOCK * BLOCK)
        self._used = _RESERVE
        self._next_number = 0
        os.makedirs(directory, exist_ok=True)
        if not segment.is_own(directory):
            sharing.check_own(directory)
        self._lock = sharing.WriterLock(directory)
        try:
            with self.changed:
                self._recover()
        except BaseException:
            self._lock.release()
            raise

    def _at_fork_reinit(self) -> None:
        """Closes a forked child's descriptors: a file that is removed takes its room as long as one is open."""
        for writer in list(self._unsealed):
            writer.close()

    # Adding

    def claim(self, key: str) -> bool:
        """Whether *key* is to be fetched: it is not there, and nobody fetches it. Then the caller does."""
        with self.changed:
            if key in self._keys:
                return False
            self._keys.add(key)
            return True

    def give_up(self, key: str) -> None:
        """Takes back a claim."""
        with self.changed:
            self._keys.discard(key)

    def add(self, key: str, data: bytes | memoryview) -> bool:
        """Adds a sample that was claimed; waits for room. False once stopped.

        Raises ``CacheError`` if it is too large, ``OSError`` if it cannot be written. The claim remains.
        """
        crc, name, length = record.checksum(self._version, data), record.encoded(key), len(data)
        size = -(-max(self._part, SegmentWriter.size_for(name, length, self._version)) // BLOCK) * BLOCK
        if size > self.max_bytes // _LARGEST_SAMPLE:
            raise CacheError(
                f"sample {key!r:.200} of {length} bytes is larger than a quarter of the budget, "
                f"max_bytes={self.max_bytes}"
            )
        with self.changed:
            while not self.stopped:
                if self._open is not None and not self._open.fits(name, length):
                    self._retire()
                if self._open is not None or self._begin(size):
                    break
                self._wait_for_room()
            if self.stopped or self._open is None:
                return False
            writer = self._open
            row = writer.begin(name, length, crc)
        try:
            writer.write(row, data)
        except BaseException:
            with self.changed:
                self._leave(writer)
            raise
        with self.changed:
            writer.complete(row, key)
            try:
                self._leave(writer)
            finally:
                self._keys.add(key)
        return True

    def sync(self) -> None:
        """Lets segments that were sealed meanwhile reach the disk. What fails is checked by the next writer."""
        while True:
            with self.changed:
                if not self._unsynced:
                    return
                name = self._unsynced.popleft()
                self._syncing += 1
            try:
                segment.sync(self.directory, name)
            finally:
                with self.changed:
                    self._syncing -= 1
                    self.changed.notify_all()

    def _wait_for_room(self) -> None:
        began = time.monotonic()
        if not self.full:
            self.full = True
            self.changed.notify_all()
        self.changed.wait(_LOOK_AGAIN if self._victim(ignore_readers=True) else None)
        self.waited += time.monotonic() - began

    def _begin(self, size: int) -> bool:
        """Opens a segment of *size* bytes; False if there is no room for it."""
        while self._used + size + _NAME > self.max_bytes:
            victim = self._victim()
            if victim is None:
                return False
            self._evict(victim)
        self._open = SegmentWriter(self.directory, self._next_number, size, self._version)
        self._next_number += 1
        self._unsealed.add(self._open)
        self._used += size + _NAME
        return True

    def _retire(self) -> None:
        """Nothing more is added to the open segment. It is sealed when nobody writes to it."""
        writer, self._open = self._open, None
        if writer is not None:
            self._end(writer)

    def _leave(self, writer: SegmentWriter) -> None:
        writer.users -= 1
        self._end(writer)

    def _end(self, writer: SegmentWriter) -> None:
        """Seals it, unless somebody writes to it, or is to. (Ctrl-C may come at any line: ``close`` does it then.)"""
        if writer.users or writer is self._open:
            return
        self._unsealed.discard(writer)
        self.changed.notify_all()
        try:
            sealed = writer.seal()
        except Exception:
            if not self.stopped:  # else, as after Ctrl-C, the next writer recovers it
                self._lose(writer)
            raise
        self._used -= writer.size + _NAME
        self._keep(sealed)

    def _lose(self, writer: SegmentWriter) -> None:
        """It cannot be sealed: its samples are to be fetched again."""
        self._keys.difference_update(writer.keys)
        writer.unlink()
        self._used -= writer.size + _NAME

    def _keep(self, sealed: Segment | None) -> None:
        if sealed is not None:
            self._sealed[sealed.name] = sealed
            self._used += sealed.size + _NAME
            self._unsynced.append(sealed.name)

    # Evicting

    def _victim(self, ignore_readers: bool = False) -> Segment | None:
        free = [s for s in self._sealed.values() if s.number <= self._seen and s.name not in self._pinned]
        if free and not ignore_readers:
            held = sharing.pinned_by_readers(self.directory)
            free = [s for s in free if s.name not in held]
        if not free:
            return None
        return min(free, key=lambda s: (s.used if self.evict == "lru" else 0, s.number))

    def _evict(self, victim: Segment) -> None:
        victim.unlink()
        del self._sealed[victim.name]
        self._used -= victim.size + _NAME
        self._keys.difference_update(victim.keys)
        self.evictions += 1
        self.full = False
        self.changed.notify_all()

    # Snapshots

    def newest(self, most_bytes: int) -> list[Segment]:
        """The segments of the newest samples that take so many bytes at most, the oldest first; all that is complete
        is sealed before."""
        with self.changed:
            writer = self._open
            self._retire()
            self.changed.wait_for(lambda: writer is None or not writer.users)
            chosen: list[Segment] = []
            for one in sorted(self._sealed.values(), key=lambda s: s.number, reverse=True):
                most_bytes -= one.size
                if most_bytes < 0:
                    break
                chosen.append(one)
            return chosen[::-1]

    def named(self, names: list[str]) -> list[Segment]:
        """These segments. Raises ``CacheError`` if one is not there any more."""
        with self.changed:
            missing = [name for name in names if name not in self._sealed]
            if missing:
                raise CacheError(
                    f"{len(missing)} of {len(names)} segments of the state's snapshot are not in {self.directory} any "
                    "more (evicted, or another directory): begin the epoch anew with set_epoch"
                )
            return [self._sealed[name] for name in names]

    def publish(self, snapshot: Snapshot) -> None:
        """Its segments are not evicted until the next one. Of the others, those that are there by now may be."""
        with self.changed:
            self._lock.publish(snapshot.state())
            self._pinned, self._earlier = snapshot.names | self._earlier, frozenset()
            self._seen = max((self._seen, *(s.number for s in self._sealed.values())))
            self.full = False
            self.changed.notify_all()

    def drop(self, name: str) -> None:
        """A segment that is damaged: its samples are to be fetched again."""
        with self.changed:
            if name in self._sealed:
                self._evict(self._sealed[name])

    def contents(self) -> tuple[int, int]:
        """(complete samples, bytes of the budget in use)"""
        with self.changed:
            return sum(map(len, self._sealed.values())) + (len(self._open) if self._open else 0), self._used

    # Begin and end

    def _recover(self) -> None:
        names = segment.names_in(self.directory)
        self._next_number = 1 + max(map(segment.number_of, names), default=-1)
        damaged, found = [], []
        for name in names:
            try:
                kept = segment.recover(self.directory, name, self.max_bytes)
            except CacheError as error:
                damaged.append(str(error))
                self._used += segment.usage(self.directory, name) + _NAME
                continue
            if kept is not None:
                found.append(kept)
        for one in found[::-1]:
            # An earlier writer could not read it, and has fetched its samples again.
            if len(set(one.keys)) < len(one) or not self._keys.isdisjoint(one.keys):
                one.unlink()
                found.remove(one)
            else:
                self._keys.update(one.keys)
        for one in found:
            self._keep(one)
        if damaged:
            warnings.warn(
                f"the cache {self.directory} goes on without these segments: {'; '.join(damaged)}. Their samples are "
                "fetched again. The files are left as they are, and count for max_bytes until you remove them",
                RuntimeWarning,
                stacklevel=5,
            )
        segment.remove_strays(self.directory)
        self._earlier = frozenset(self._lock.earlier)
        while self._used > self.max_bytes and self._sealed:  # it was larger before
            self._evict(next(iter(self._sealed.values())))

    def wake(self) -> None:
        """Wake the threads that wait for ``changed``, to look again."""
        with self.changed:
            self.changed.notify_all()

    def stop(self) -> None:
        """Add nothing from now on, and wake the threads that wait for room."""
        with self.changed:
            self.stopped = True
            self.changed.notify_all()

    def close(self) -> None:
        """Seals what is open, waits until all has reached the disk, and lets another writer in. Who calls while another
        thread does it waits for that; a signal handler in the midst of it does not, since nobody else would."""
        with self.changed:
            if self._closer is not None and self._closer != threading.get_ident():
                self.changed.wait_for(lambda: not self._lock.held)
            if self._closer == threading.get_ident() or not self._lock.held:
                return
            self._closer = threading.get_ident()
        try:
            with self.changed:
                self.stop()
                self._retire()
                self.changed.wait_for(lambda: not any(writer.users for writer in self._unsealed))
                for writer in list(self._unsealed):
                    self._end(writer)
            self.sync()
            with self.changed:
                self.changed.wait_for(lambda: not self._syncing)
        finally:  # what is not sealed, the next writer recovers
            with self.changed:
                self._lock.release()
                self.changed.notify_all()
