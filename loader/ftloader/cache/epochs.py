"""The two ways in which a process gets an epoch's snapshot:
it writes the cache itself, or reads another's.
"""

import contextlib
import dataclasses
import time
import warnings
import weakref
from typing import Any, Protocol

from ftloader.cache import sharing
from ftloader.cache.errors import CacheError, PartlyListedError
from ftloader.cache.fetchers import Fetchers
from ftloader.cache.formats import FORMATS
from ftloader.cache.sources import Source, UrlSource, close_source
from ftloader.cache.statistics import Statistics
from ftloader.cache.store import LEAST_BUDGET, Snapshot, Store


class Epochs(Protocol):
    """Protocol of the snapshots of one directory, for the process that made the cache."""

    def snapshot(self, epoch: int, at_most: int | None) -> Snapshot:
        """Return the snapshot of *epoch*, after waiting for it,
        and keep its samples until the next call.
        """
        ...

    def restored(self, state: dict[str, Any]) -> Snapshot:
        """Return the snapshot with this ``Snapshot.state()``.
        Raise ``CacheError`` if a part of it was evicted.
        """
        ...

    def close(self) -> None:
        """Free what the process holds of the directory."""
        ...


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a cache that are numbers or names.
    ``GrowingCache`` describes them. Raises ``ValueError``.
    """

    max_bytes: float | None
    fetchers: int
    min_samples: int
    pin: float
    retries: int
    max_unlisted: int | None
    format: str

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {self.format!r}")
        if not 0 < self.pin <= 1:
            raise ValueError(f"pin must be more than 0 and at most 1, not {self.pin}")
        counts = self.min_samples, self.retries, self.max_unlisted or 0
        if self.fetchers < 1 or min(counts) < 0:
            raise ValueError(
                "fetchers must be at least 1, min_samples, retries and max_unlisted at least 0"
            )


class EpochReader:
    """Reader of the snapshots that another process of this machine publishes in *directory*."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._pins: sharing.Pins | None = None

    def snapshot(self, epoch: int, at_most: int | None) -> Snapshot:
        """See ``Epochs``. Waits until the writer sets *epoch*.
        Raise ``CacheError`` if there is no writer.
        """
        state: dict[str, Any] = {}
        while state != (published := sharing.wait_for_epoch(self._directory, epoch)):
            state = published
            # then look again: the writer may have gone on before, and evicted segments
            self._pin(state)
        return Snapshot.of_state(state, self._directory, at_most)

    def restored(self, state: dict[str, Any]) -> Snapshot:
        self._pin(state)
        return Snapshot.of_state(state, self._directory)

    def close(self) -> None:
        if self._pins is not None:
            self._pins.release()

    def _pin(self, state: dict[str, Any]) -> None:
        """Pin the segments of the snapshot *state*, so that the writer does not evict them."""
        if self._pins is None:
            self._pins = sharing.Pins(self._directory)
        self._pins.write(" ".join(state["segments"]))


class EpochWriter:
    """Writer of a cache: a store in *directory*, the threads that fetch from *source*,
    and an epoch's snapshot.

    Attributes:
        store, fetchers: the directory's samples, and the threads that add to them.

    Raises:
        ValueError: ``max_bytes`` is too small; *directory* lies in the source's folder, or that in
            it.
        TypeError: *source* is no source.
        CacheError, OSError: see ``Store``. ``CacheError`` also if the package crc32c is missing.
    """

    def __init__(self, source: Source | str, directory: str, settings: Settings) -> None:
        max_bytes = settings.max_bytes
        if max_bytes is None or max_bytes < LEAST_BUDGET:
            raise ValueError(f"max_bytes must be at least {LEAST_BUDGET}, not {max_bytes}")
        self._source = UrlSource(source) if isinstance(source, str) else source
        if not all(callable(getattr(self._source, name, None)) for name in ("keys", "read")):
            raise TypeError(
                f"source must be an address or have keys() and read(key), which "
                f"{type(source).__name__} has not"
            )
        sharing.check_apart(directory, getattr(self._source, "folder", None))
        self._settings, self._most_bytes = settings, int(settings.pin * max_bytes)
        self._unlisted, self._reason_warned = 0, ""  # failed listings in a row
        self._waited = 0.0
        format = FORMATS[settings.format]
        format.checksum(b"")  # raise here, not in the threads, if crc32c is missing
        with contextlib.ExitStack() as undo:
            self.store = Store(directory, int(max_bytes), format)
            undo.callback(self.store.close)
            self.fetchers = Fetchers(self._source, self.store, settings.fetchers, settings.retries)
            undo.callback(self._stop_fetching)
            # The threads of a dropped cache would never end.
            weakref.finalize(self, self.fetchers.dropped).atexit = False
            self.fetchers.start()
            undo.pop_all()

    def snapshot(self, epoch: int, at_most: int | None) -> Snapshot:
        """See ``Epochs``. Waits until ``min_samples`` samples are complete.

        Raise ``CacheError`` if there will be fewer, or if listing the source has failed for more
        than ``max_unlisted`` epochs in a row. Raise ``OSError`` if the disk fails.
        """
        began = time.monotonic()
        store, min_samples = self.store, self._settings.min_samples
        store.drop_damaged()
        self._check_listing()
        with store.guard:
            if store.contents()[0] < min_samples:
                self.fetchers.look_again()
            while (complete := store.contents()[0]) < min_samples:
                self._check_hope(complete)
                store.changed.wait()
            most_bytes = self._most_bytes
            if self.fetchers.complete:
                most_bytes = store.max_bytes
            segments = store.newest(most_bytes)
            pinned = sum(map(len, segments))
            if pinned < min_samples:
                raise CacheError(
                    f"min_samples={min_samples}, and {pinned} fit into the part of max_bytes "
                    f"that an epoch may pin"
                )
            snapshot = Snapshot(epoch, segments, at_most)
            store.publish(snapshot)
        self.fetchers.look_again()
        self._waited += time.monotonic() - began
        return snapshot

    def restored(self, state: dict[str, Any]) -> Snapshot:
        snapshot = Snapshot(state["epoch"], self.store.named(state["segments"]), state["length"])
        self.store.publish(snapshot)
        return snapshot

    def statistics(self) -> Statistics:
        """Return the statistics of the writer's part: what came in, and the directory's content."""
        store, fetchers = self.store, self.fetchers
        samples, bytes_used = store.contents()
        trouble = ""
        if (error := fetchers.trouble) is not None:
            trouble = f"{type(error).__name__}: {error}"
        return Statistics(
            samples=samples,
            bytes_used=bytes_used,
            max_bytes=store.max_bytes,
            fetched=fetchers.fetched,
            fetched_bytes=fetchers.fetched_bytes,
            retried=fetchers.retried,
            failed=fetchers.failed,
            failed_listings=fetchers.failed_listings,
            evictions=store.evictions,
            fetchers_waited=store.waited,
            epochs_waited=self._waited,
            trouble=trouble,
        )

    def close(self) -> None:
        """Stop fetching, and close the source and the store.
        Wait at most five seconds for calls to the source.
        """
        try:
            self._stop_fetching()
        finally:
            self.store.close()

    def _stop_fetching(self) -> None:
        self.fetchers.stop()
        if self.fetchers.join():
            close_source(self._source)

    def _check_listing(self) -> None:
        """Warn if listing the source failed. Raise ``CacheError`` at failure number
        ``max_unlisted`` + 1 in a row.
        """
        error, max_unlisted = self.fetchers.unlisted, self._settings.max_unlisted
        if error is None or self.store.stopped:
            self._unlisted, self._reason_warned = 0, ""
            return
        if isinstance(error, PartlyListedError):
            self._unlisted, reason = 0, str(error)
        else:
            self._unlisted, reason = self._unlisted + 1, f"{type(error).__name__}: {error}"
        if max_unlisted is not None and self._unlisted > max_unlisted:
            raise CacheError(
                f"the source could not be listed for {self._unlisted} epochs, and "
                f"max_unlisted={max_unlisted}: {reason}"
            ) from error
        if reason != self._reason_warned and self.store.contents()[0] >= self._settings.min_samples:
            self._reason_warned = reason
            warnings.warn(
                f"the cache {self.store.directory} could not list its source: {reason}. The epoch "
                "has the samples that are there already. The source is tried again; "
                "statistics().failed_listings counts how often",
                RuntimeWarning,
                stacklevel=4,
            )

    def _check_hope(self, complete: int) -> None:
        """Raise ``CacheError``, with the reason, if *complete*, the number of complete samples,
        will not grow.
        """
        store, fetchers, trouble = self.store, self.fetchers, self.fetchers.trouble
        start = f"{complete} samples are there, and min_samples={self._settings.min_samples}: "
        if store.stopped:
            raise CacheError(start + "the cache is closed")
        if trouble is not None and (fetchers.failing or fetchers.idle):
            raise CacheError(
                f"{start}fetching fails: {trouble} ({type(trouble).__name__})"
            ) from trouble
        if store.full:
            raise CacheError(
                f"{start}no more fit. Take a larger max_bytes than {store.max_bytes}, or a "
                f"larger pin"
            )
        if fetchers.idle:
            raise CacheError(start + "the source has no more")
