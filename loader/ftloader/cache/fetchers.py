"""Threads that fetch samples from a source and add them to the store."""

import contextlib
import random
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from ftloader import fork
from ftloader.cache.errors import CacheError
from ftloader.cache.store import Store
from ftloader.workers import exit as program_exit
from ftloader.workers.exit import WorkerThread

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
"""Seconds; each is twice as long as the one before, and up to a half shorter by chance."""
_MANY = 8
_TO_DISK = "a file onto the disk"


class Fetchers:
    """*count* threads that go through ``source.keys()``, again and again, and fetch what is not there.

    When all is there they wait: until something was evicted, or ``look_again``. In memory is one sample for each
    thread.

    ``_changed`` guards the counts and what is said of the source's state; ``_listing`` the iterator of keys, which one
    thread at a time asks for the next one, however long it takes, and the number of its failures. Locks are taken in
    the order ``_listing``, the store's, ``_changed``.
    """

    def __init__(self, source: Any, store: Store, count: int, retries: int) -> None:
        self._source, self._store, self._retries = source, store, retries
        self._changed = threading.Condition(fork.rlock())
        self._listing = threading.Lock()
        self._keys: Iterator[str] | None = None
        self._evictions = -1  # when the listing began
        self._stopped = False
        self._asked = 0  # how often somebody wanted the source to be listed (again)
        self._listed = -1  # that number when the listing began
        self._busy = 0
        self._running = count
        self._ended = False  # the latest listing; nothing of it is left to be fetched
        self._failed_here = 0  # keys of that listing
        self.fetched = self.fetched_bytes = self.retried = self.failed = 0
        self.trouble: BaseException | None = None
        """Why the latest sample could not be fetched or added; None when one could since."""
        self.failures_in_a_row = 0
        self._listings_failed = 0  # in a row
        self._warned = False
        self.consumer = threading.current_thread()
        self.threads = tuple(WorkerThread(target=self._run, name=f"cache-fetcher-{number}") for number in range(count))

    def start(self) -> None:
        program_exit.register(self)
        for thread in self.threads:
            thread.start()

    def look_again(self) -> None:
        """Lists the source again if it was listed to its end: it may have grown, or answer again."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()

    @property
    def complete(self) -> bool:
        """Whether all of the source's keys are there."""
        with self._changed:
            return self._is_idle() and not self._failed_here

    @property
    def failing(self) -> bool:
        """Whether it is no single sample that fails."""
        return self._listings_failed > self._retries or self.failures_in_a_row >= max(_MANY, 2 * len(self.threads))

    @property
    def idle(self) -> bool:
        """Whether nothing more will come by itself: all keys have been tried, or no thread is left."""
        with self._changed:
            return self._is_idle() or not self._running

    def _is_idle(self) -> bool:
        return self._ended and not self._busy and self._listed == self._asked

    def stop(self) -> None:
        """Tells the threads to end after the call to the source in hand. Returns at once. For finalizers too: nobody
        else uses the cache then, and so takes these locks in the other order."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._store.stop()
        program_exit.unregister(self)

    def join(self) -> None:
        """Waits for the threads, after ``stop``; those that a source holds up are named in a warning."""
        limit = program_exit.JOIN_LIMIT
        if stuck := program_exit.join_all(self.threads, limit):
            program_exit.report_stuck(stuck, limit, "It ends when that call returns; its sample is thrown away.")

    def outlives_main_thread(self) -> bool:
        """As a worker pool's."""
        thread = self.consumer
        return thread is not threading.main_thread() and not thread.daemon and thread.is_alive()

    # In the threads

    def _run(self) -> None:
        try:
            while (key := self._next()) is not None:
                done = False
                try:
                    done = self._fetch(key)
                finally:
                    if not done:
                        self._store.give_up(key)
                    with self._changed:
                        self._busy -= 1
                    self._tell()
        finally:
            with self._changed:
                self._running -= 1
                last = not self._running
            if last:
                self._store.stop()
                try:
                    self._store.close()
                except (OSError, CacheError) as error:
                    self._report(error, _TO_DISK)
            self._tell()

    def _tell(self) -> None:
        """Wakes who waits for samples, or for what becomes of them."""
        with self._store.changed:
            self._store.changed.notify_all()

    def _next(self) -> str | None:
        """A key to fetch, which this thread has claimed; None once stopped."""
        pauses = _pauses()
        with self._listing:
            while not self._stopped:
                try:
                    if self._keys is None and not self._begin_listing():
                        return None
                    for key in self._keys:  # type: ignore[union-attr]  # was set
                        if self._stopped:
                            return None
                        if not isinstance(key, str):
                            raise TypeError(f"keys() gave {key!r}; a key must be a string")
                        if self._store.claim(key):
                            self._listings_failed = 0
                            with self._changed:
                                self._busy += 1
                            return key
                    self._listings_failed = 0
                    with self._changed:
                        self._ended = True
                except Exception as error:
                    self._listings_failed += 1
                    self._report(error, "its keys")
                    self._pause(next(pauses))
                self._keys = None
                self._tell()
            return None

    def _begin_listing(self) -> bool:
        """Waits until there is a reason to list the source, and begins; False once stopped."""
        with self._changed:
            while self._ended and not self._stopped and self._listed == self._asked:
                if self._store.evictions != self._evictions:
                    break
                self._changed.wait()
            if self._stopped:
                return False
            self._listed, self._evictions = self._asked, self._store.evictions
            self._ended, self._failed_here = False, 0
        self._keys = iter(self._source.keys())
        return True

    def _fetch(self, key: str) -> bool:
        """Fetches a sample and adds it, several times if it must; whether it is there now."""
        for attempt, pause in enumerate(_pauses()):
            try:
                data = memoryview(self._source.read(key))
                data = data.cast("B") if data.nbytes else memoryview(b"")
                break
            except Exception as error:
                if attempt >= self._retries or isinstance(error, TypeError) or not self._pause(pause):
                    self._fail(error, f"sample {key!r:.200}")
                    return False
                with self._changed:
                    self.retried += 1
        for pause in _pauses():
            try:
                evictions = self._store.evictions
                added = self._store.add(key, data)
                break
            except CacheError as error:
                self._fail(error, f"sample {key!r:.200}")
                return False
            except OSError as error:  # a full disk, say: the sample is kept, and tried again
                self._report(error, f"sample {key!r:.200}")
                if not self._pause(pause):
                    return False
        with self._changed:
            if added:
                self.fetched += 1
                self.fetched_bytes += len(data)
                self.trouble, self.failures_in_a_row = None, 0
            if self._store.evictions != evictions:
                self._changed.notify_all()  # to who waits with the listing
        try:
            self._store.sync()
        except (OSError, CacheError) as error:
            self._report(error, _TO_DISK)
        return added

    def _fail(self, error: Exception, what: str) -> None:
        with self._changed:
            if self._stopped:
                return
            self.failed += 1
            self._failed_here += 1
        self._report(error, what)

    def _report(self, error: Exception, what: str) -> None:
        with self._changed:
            self.trouble = error
            self.failures_in_a_row += 1
            first, self._warned = not self._warned, True
        self._tell()
        if first:
            text = (
                f"the cache {self._store.directory} could not get {what}: {type(error).__name__}: {error}. "
                "It goes on with others and tries again; more of such warnings are left out, the statistics count them"
            )
            try:
                warnings.warn(text, RuntimeWarning, stacklevel=2)
            except RuntimeWarning:  # where warnings are errors: it would end this thread, and nobody would see it
                with contextlib.suppress(Exception):  # stderr may be closed
                    sys.stderr.write(f"RuntimeWarning: {text}\n")

    def _pause(self, seconds: float) -> bool:
        """Waits, and returns whether to go on."""
        with self._changed:
            return not self._changed.wait_for(lambda: self._stopped, seconds)


def _pauses() -> Iterator[float]:
    chance = random.Random()
    pause = FIRST_PAUSE
    while True:
        yield pause * chance.uniform(0.5, 1)
        pause = min(2 * pause, LONGEST_PAUSE)
