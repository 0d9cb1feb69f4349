"""Threads that fetch samples from a source and add them to the store."""

import contextlib
import os
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

from ftloader.cache import sharing
from ftloader.cache.errors import CacheError, PartlyListedError
from ftloader.cache.store import Store
from ftloader.workers.exit import ThreadGroup, WorkerThread

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
"""First and longest pause between attempts, in seconds. Pauses double; a random part, up to half,
is cut off.
"""
_MANY = 8  # failures in a row that are not chance, with few threads


class Fetchers(ThreadGroup):
    """Group of *count* threads that list ``source.keys()`` repeatedly and fetch the samples missing
    from the store.

    If no sample is missing, the threads wait for an eviction or ``look_again``. Each thread holds
    at most one sample. The last thread to end closes the store, since a program may drop a cache
    without calling ``close()``. One thread more only waits for that: the finalizer of a dropped
    cache may run at any moment, in the middle of a step that holds ``guard`` or a lock that a
    holder of ``guard`` waits for. So it takes no lock, and leaves a note for this thread.

    The store's lock ``guard`` guards the counts and the state of the listing. ``_listing`` guards
    the iterator of keys. A thread acquires ``_listing`` before ``guard``, and holds ``_listing``
    while the source finds the next key.
    """

    consequence = "It ends when that call returns; its sample is thrown away."

    def __init__(self, source: Any, store: Store, count: int, retries: int) -> None:
        self._source, self._store, self._retries = source, store, retries
        self._changed, self._guard = store.changed, store.guard
        self._listing = threading.Lock()
        self._keys = self._claimed()
        self._evictions = -1  # the store's count when the listing started
        self._asked = 0  # number of requests to list the source (again)
        self._listed = -1  # that number when the listing started
        self._busy = 0
        self._running = count
        self._ended = False  # the listing has no more keys
        self._failed_here = 0  # keys of this listing
        self._listings_failed = 0  # in a row
        self.failed_listings = 0
        self.unlisted: BaseException | None = None
        """Error of the latest listing (``PartlyListedError`` if only a part failed); None after new
        keys or success.
        """
        self._listing_error: BaseException | None = None  # the same, until a listing ends well
        self._warned = False
        self.fetched = self.fetched_bytes = self.retried = self.failed = 0
        # latest error of a listing, sample or file; None after a success
        self.trouble: BaseException | None = None
        self.failures_in_a_row = 0
        self.used_by_this_thread()
        self._process, self._count = os.getpid(), count
        # None once the cache is dropped or closed; put() takes no lock
        self._notes: SimpleQueue[None] = SimpleQueue()
        fetchers = (
            WorkerThread(target=self._run, name=f"cache-fetcher-{number}")
            for number in range(count)
        )
        self.threads = (
            *fetchers,
            WorkerThread(target=self._stop_when_noted, name="cache-fetcher-stopper"),
        )

    def look_again(self) -> None:
        """Make the threads list the source again: it may have new keys by now,
        or work again after an error.
        """
        with self._guard:
            self._asked += 1
            self._changed.notify_all()

    @property
    def complete(self) -> bool:
        """True if the latest listing of the source has ended
        and the store has all samples that were listed.
        """
        with self._guard:
            return self._is_idle() and not self._failed_here

    @property
    def failing(self) -> bool:
        """True after many failures in a row, which show that the source as a whole fails,
        not single samples.
        """
        return self._listings_failed > self._retries or self.failures_in_a_row >= max(
            _MANY, 2 * self._count
        )

    @property
    def idle(self) -> bool:
        """True if the threads add no sample for now: they have tried all listed keys, or all
        threads have ended.
        """
        with self._guard:
            return self._is_idle() or not self._running

    def _is_idle(self) -> bool:
        return self._ended and not self._busy and self._listed == self._asked

    def stop(self) -> None:
        self._store.stop()
        self.dropped()

    def dropped(self) -> None:
        """Make the threads end soon. For finalizers: takes no lock."""
        super().stop()
        if os.getpid() == self._process:
            # a forked child has no threads, and must not use their queue
            self._notes.put(None)

    # In the threads

    def _stop_when_noted(self) -> None:
        self._notes.get()
        self._store.stop()

    def _run(self) -> None:
        try:
            while (key := self._next()) is not None:
                done = False
                try:
                    done = self._fetch(key)
                finally:
                    with self._guard:
                        if not done:
                            self._store.give_up(key)
                        self._busy -= 1
                        self._changed.notify_all()
        finally:
            with self._guard:
                self._running -= 1
                last = not self._running
                self._changed.notify_all()
            if last:
                self._write(self._store.close)

    def _next(self) -> str | None:
        with self._listing:
            if self._store.stopped:
                return None
            return next(self._keys, None)

    def _claimed(self) -> Iterator[str]:
        """Yield each key that the store lacks, after claiming it (``Store.claim``). End when the
        store is stopped.
        """
        pauses = _pauses()
        while self._wait_to_list():
            try:
                for key in self._source.keys():
                    if self._store.stopped:
                        return
                    if not isinstance(key, str):
                        raise TypeError(f"keys() gave {key!r}; a key must be a string")
                    if sharing.is_own(self._store.directory, key):
                        raise CacheError(
                            f"keys() gave {key!r}, a file of the cache: take a directory "
                            f"outside the source"
                        )
                    if self._store.claim(key):
                        with self._guard:
                            self._busy += 1
                            # the source gives new keys again
                            self.unlisted, self._listings_failed = None, 0
                        yield key
                        pauses = _pauses()
            except GeneratorExit:
                raise
            except BaseException as error:
                # not only Exception: a SystemExit would end all threads unseen
                with self._guard:
                    self.failed_listings += 1
                    partly = isinstance(error, PartlyListedError)
                    if partly:
                        self._ended = True
                    self._note_listing(error)
                if not partly:
                    self._pause(next(pauses))
            else:
                with self._guard:
                    self._ended = True
                    self._note_listing(None)

    def _note_listing(self, error: BaseException | None) -> None:
        """Record how the latest listing of the source ended: its error,
        or None. The caller must hold ``guard``.
        """
        if error is None or isinstance(error, PartlyListedError):
            if self.trouble is self._listing_error:
                self.trouble, self.failures_in_a_row = None, 0
            self._listings_failed = 0
        else:  # set_epoch warns
            self._listings_failed += 1
            self.failures_in_a_row += 1
        self.unlisted = self._listing_error = error
        if error is not None:
            self.trouble = error
        self._changed.notify_all()

    def _wait_to_list(self) -> bool:
        """Wait until the source has to be listed (again) and return True;
        return False if the store is stopped.
        """
        store = self._store
        with self._guard:
            self._changed.wait_for(
                lambda: (
                    store.stopped
                    or not self._ended
                    or self._listed != self._asked
                    or store.evictions != self._evictions
                )
            )
            self._listed, self._evictions = self._asked, store.evictions
            self._ended, self._failed_here = False, 0
            return not store.stopped

    def _fetch(self, key: str) -> bool:
        """Fetch the sample *key*, with retries, and add the sample to the store.
        Return True if it was added.
        """
        for attempt, pause in enumerate(_pauses()):
            try:
                data = memoryview(self._source.read(key))
                data = data.cast("B") if data.nbytes else memoryview(b"")
                break
            except BaseException as error:
                if (
                    attempt >= self._retries
                    or isinstance(error, TypeError)
                    or not self._pause(pause)
                ):
                    return self._fail(error, key)
                with self._guard:
                    self.retried += 1
        return self._add(key, data)

    def _add(self, key: str, data: memoryview) -> bool:
        """Add a fetched sample to the store, with retries. Return True if it was added."""
        for pause in _pauses():
            try:
                added = self._store.add(key, data)
                break
            except CacheError as error:
                return self._fail(error, key)
            except OSError as error:  # such as a full disk: keep the sample, and try again
                self._report(error, f"sample {key!r:.200}")
                if not self._pause(pause):
                    return False
        with self._guard:
            if added:
                self.fetched += 1
                self.fetched_bytes += len(data)
                self.trouble, self.failures_in_a_row = None, 0
        self._write(self._store.sync)
        return added

    def _write(self, step: Callable[[], None]) -> None:
        try:
            step()
        except (OSError, CacheError) as error:
            self._report(error, "a file onto the disk")

    def _fail(self, error: BaseException, key: str) -> bool:
        """Count and report that *key* could not be fetched or added,
        unless the store is stopped. Return False.
        """
        with self._guard:
            if self._store.stopped:
                return False
            self.failed += 1
            self._failed_here += 1
        self._report(error, f"sample {key!r:.200}")
        return False

    def _report(self, error: BaseException, missing: str) -> None:
        """Record *error* as ``trouble``. At the first error,
        warn that the cache could not get *missing*.
        """
        with self._guard:
            self.trouble = error
            self.failures_in_a_row += 1
            first, self._warned = not self._warned, True
            self._changed.notify_all()
        if first:
            text = (
                f"the cache {self._store.directory} could not get {missing}: "
                f"{type(error).__name__}: {error}. It goes on with others and tries again; more of "
                "such warnings are left out, the statistics count them"
            )
            try:
                warnings.warn(text, RuntimeWarning, stacklevel=2)
            except RuntimeWarning:  # where warnings are errors, it would end this thread unseen
                with contextlib.suppress(Exception):  # stderr may be closed
                    sys.stderr.write(f"RuntimeWarning: {text}\n")

    def _pause(self, seconds: float) -> bool:
        """Wait *seconds* seconds and return True. If the store is stopped,
        return False without waiting further.
        """
        with self._guard:
            return not self._changed.wait_for(lambda: self._store.stopped, seconds)


def _pauses() -> Iterator[float]:
    chance = random.Random()
    pause = FIRST_PAUSE
    while True:
        yield pause * chance.uniform(0.5, 1)
        pause = min(2 * pause, LONGEST_PAUSE)
