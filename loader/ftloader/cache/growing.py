"""``GrowingCache``: a dataset that grows while samples are copied from a remote source to this machine."""

import os
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from ftloader import fork
from ftloader.cache import sharing
from ftloader.cache.arrays import RawArray
from ftloader.cache.errors import CacheError, CorruptSampleError, PartlyListedError
from ftloader.cache.fetchers import Fetchers
from ftloader.cache.record import FORMATS, checksum
from ftloader.cache.sources import Source, UrlSource, close_source
from ftloader.cache.statistics import Statistics
from ftloader.cache.store import LEAST_BUDGET, Snapshot, Store

_FETCHED = ("fetched", "fetched_bytes", "retried", "failed", "failed_listings")


class GrowingCache(Dataset):
    """A map-style dataset of the samples that threads of this process have fetched from a source so far.

        with GrowingCache(source, directory, max_bytes=200e9, fetchers=16) as cache:
            for epoch in range(epochs):
                cache.set_epoch(epoch)  # samples that are complete now are this epoch's data
                for batch in DataLoader(cache, batch_size=64, shuffle=True, num_workers=8):
                    ...

    Args:
        source: an object with ``keys()`` and ``read(key)``, or an address that fsspec understands. None: this process
            reads the samples that another process, such as another rank of the job, fetches on this machine.
        directory: where the cache keeps its files. The cache writes nothing elsewhere.
        max_bytes: disk budget in bytes, at least 1 MiB. Never exceeded, not even by unfinished writes. When it is used
            up, the oldest samples are evicted, 1/128 of the budget at a time.
        fetchers: number of threads that fetch samples. Each has at most one sample in memory.
        decode: a function that gets a sample's bytes and returns the sample. By default, the sample is a uint8 array.
            ``RawArray`` makes other such functions.
        min_samples: number of samples that ``set_epoch`` waits for.
        pin: maximum size of an epoch, as a fraction of ``max_bytes``. An epoch has the newest samples that fit. The
            rest of the budget is for samples of later epochs. If the cache has all samples of the source, each epoch
            has them all, whatever *pin* is.
        retries: number of times that a failed fetch of a sample is repeated, after growing pauses. Then the sample is
            left for the next epoch.
        max_unlisted: number of consecutive epochs for which listing the source may fail. At the next failure
            ``set_epoch`` raises ``CacheError``. None: only warn, at the first such epoch and when the reason changes.
        format: "segment" is the cache's own format. "tfrecord" writes TFRecord files, whose paths ``files()`` returns,
            and needs the package crc32c (``ftloader[tfrecord]``). The format may change between runs.

    ``len(cache)``, ``cache[i]``, ``cache.key(i)`` and ``cache.ages()`` refer to the current epoch. Threads and worker
    processes may call these four. Only one thread at a time may call the others, in the process that made the object.

    Raises:
        ValueError: an argument does not fit; *directory* lies in the source's folder, or that in it.
        CacheError: another process writes to *directory*; the files there have another version; crc32c is missing.
        OSError: *directory* cannot be written.
    """

    def __init__(
        self,
        source: Source | str | None,
        directory: str | os.PathLike[str],
        max_bytes: float | None = None,
        fetchers: int = 16,
        *,
        decode: Callable[[bytes], Any] | None = None,
        min_samples: int = 1,
        pin: float = 0.5,
        retries: int = 5,
        max_unlisted: int | None = None,
        format: str = "segment",
    ) -> None:
        if format not in FORMATS:
            raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
        if not 0 < pin <= 1:
            raise ValueError(f"pin must be more than 0 and at most 1, not {pin}")
        if fetchers < 1 or min_samples < 0 or retries < 0 or (max_unlisted or 0) < 0:
            raise ValueError("fetchers must be at least 1, min_samples, retries and max_unlisted at least 0")
        if source is not None and (max_bytes is None or max_bytes < LEAST_BUDGET):
            raise ValueError(f"max_bytes must be at least {LEAST_BUDGET}, not {max_bytes}")
        self._source = UrlSource(source) if isinstance(source, str) else source
        if source is not None and not all(callable(getattr(self._source, name, None)) for name in ("keys", "read")):
            raise TypeError(
                f"source must be an address or have keys() and read(key), which {type(source).__name__} has not"
            )
        self._directory = os.path.abspath(directory)
        sharing.check_apart(self._directory, getattr(self._source, "folder", None))
        self._decode = RawArray() if decode is None else decode
        self._min_samples, self._most_bytes = min_samples, int(pin * (max_bytes or 0))
        self._current = Snapshot(-1, [])
        self._shared = torch.zeros(1, dtype=torch.int64).share_memory_()  # with worker processes: number of epochs set
        self._set_here = 0
        self._unlisted, self._most_unlisted, self._warned = 0, max_unlisted, ""
        self._counts = _Counts()
        self._process = os.getpid()
        self._store: Store | None = None
        self._fetchers: Fetchers | None = None
        self._pins: sharing.Pins | None = None
        if self._source is None:
            return
        checksum(FORMATS[format], b"")  # raise here, not in the threads, if crc32c is missing
        self._store = Store(self._directory, int(max_bytes or 0), FORMATS[format])
        try:
            self._fetchers = Fetchers(self._source, self._store, fetchers, retries)
            # The threads of a dropped cache would never end.
            weakref.finalize(self, self._fetchers.dropped).atexit = False
            self._fetchers.start()
        except BaseException:
            self.close()
            raise

    # An epoch's samples

    def __len__(self) -> int:
        return len(self._snapshot())

    def __getitem__(self, index: int) -> Any:
        one, row = self._snapshot().find(index)
        try:
            size = one.nbytes(row)
            if into := hasattr(self._decode, "empty"):
                data = self._decode.empty(size)
                one.read_into(row, data)
            else:
                data = one.read(row)
        except CorruptSampleError:
            one.mark_damaged()
            raise
        with self._counts.lock:
            self._counts.read += 1
            self._counts.read_bytes += size
        return data if into else self._decode(data)

    def key(self, index: int) -> str:
        """Return the source's key for sample *index* of the current epoch."""
        one, row = self._snapshot().find(index)
        return one.keys[row]

    def files(self) -> list[str]:
        """Return the paths of the epoch's TFRecord files, which stay until the next ``set_epoch``.

        The files may have more samples than the epoch: the argument *at_most* of ``set_epoch`` does not shorten them.
        """
        return [one.data_path for one in self._snapshot().segments if one.version == FORMATS["tfrecord"]]

    def ages(self) -> np.ndarray:
        """Return the seconds since each sample was written to the cache, for a sampler that prefers new samples."""
        return np.maximum(0.0, time.time() - self._snapshot().times())

    def _snapshot(self) -> Snapshot:
        if os.getpid() != self._process and self._shared[0].item() != self._set_here:
            raise CacheError(
                "set_epoch was called after this worker process had begun, so it does not know the epoch's samples: "
                "use worker threads, or persistent_workers=False, and set the epoch before the loader is iterated"
            )
        return self._current

    # Epochs

    def set_epoch(self, epoch: int, at_most: int | None = None) -> None:
        """Start *epoch*, whose data are the samples that are complete now. They stay readable until the next call.

        Wait until ``min_samples`` samples are complete; with ``source=None``, until the fetching process sets *epoch*.

        Args:
            at_most: limit for the number of samples of the epoch, to give all hosts of a job the same number.

        Raise ``CacheError`` if the epoch cannot get ``min_samples`` samples, or if listing the source has failed for
        more than ``max_unlisted`` epochs in a row. Raise ``OSError`` if the disk fails.
        """
        if os.getpid() != self._process:
            raise CacheError("set_epoch is for the process that made the cache, not for its workers")
        if self._store is None or self._fetchers is None:
            state: dict[str, Any] = {}
            while state != (published := sharing.wait_for_epoch(self._directory, epoch)):
                state = published
                self._pin(state)  # then look again: the writer may have gone on before, and evicted segments
            self._set_current(Snapshot.of_state(state, self._directory, at_most))
            return
        began = time.monotonic()
        store, fetchers = self._store, self._fetchers
        store.drop_damaged()
        self._check_listing(store, fetchers)
        with store.guard:
            if store.contents()[0] < self._min_samples:
                fetchers.look_again()
            while (there := store.contents()[0]) < self._min_samples:
                self._check_hope(store, fetchers, there)
                store.changed.wait()
            segments = store.newest(store.max_bytes if fetchers.complete else self._most_bytes)
            if (there := sum(map(len, segments))) < self._min_samples:
                raise CacheError(
                    f"min_samples={self._min_samples}, and {there} fit into the part of max_bytes that an epoch may pin"
                )
            new = Snapshot(epoch, segments, at_most)
            store.publish(new)
            self._set_current(new)
        fetchers.look_again()
        self._counts.epochs_waited += time.monotonic() - began

    def _check_listing(self, store: Store, fetchers: Fetchers) -> None:
        """Warn if listing the source failed. Raise ``CacheError`` at failure number ``max_unlisted`` + 1 in a row."""
        error = fetchers.unlisted
        if error is None or store.stopped:
            self._unlisted, self._warned = 0, ""
            return
        partly = isinstance(error, PartlyListedError)
        self._unlisted = 0 if partly else self._unlisted + 1
        reason = str(error) if partly else f"{type(error).__name__}: {error}"
        if self._most_unlisted is not None and self._unlisted > self._most_unlisted:
            raise CacheError(
                f"the source could not be listed for {self._unlisted} epochs, and max_unlisted={self._most_unlisted}: "
                f"{reason}"
            ) from error
        if reason != self._warned and store.contents()[0] >= self._min_samples:
            self._warned = reason
            warnings.warn(
                f"the cache {self._directory} could not list its source: {reason}. The epoch has the samples that are "
                "there already. The source is tried again; statistics().failed_listings counts how often",
                RuntimeWarning,
                stacklevel=3,
            )

    def _check_hope(self, store: Store, fetchers: Fetchers, there: int) -> None:
        """Raise ``CacheError``, with the reason, if *there*, the number of complete samples, will not grow."""
        start = f"{there} samples are there, and min_samples={self._min_samples}: "
        if store.stopped:
            raise CacheError(start + "the cache is closed")
        if (trouble := fetchers.trouble) is not None and (fetchers.failing or fetchers.idle):
            raise CacheError(f"{start}fetching fails: {trouble} ({type(trouble).__name__})") from trouble
        if store.full:
            raise CacheError(f"{start}no more fit. Take a larger max_bytes than {store.max_bytes}, or a larger pin")
        if fetchers.idle:
            raise CacheError(start + "the source has no more")

    def _set_current(self, new: Snapshot) -> None:
        self._current = new
        self._set_here += 1
        self._shared[0] = self._set_here

    def _pin(self, state: dict[str, Any]) -> None:
        """Pin the segments of the snapshot *state*, so that the writer does not evict them."""
        if self._pins is None:
            self._pins = sharing.Pins(self._directory)
        self._pins.write(" ".join(state["segments"]))

    def state_dict(self) -> dict[str, Any]:
        """Return the current epoch for ``load_state_dict``: a dict of its number, segment names and sample count."""
        return self._snapshot().state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue with the epoch that *state* describes. Raise ``CacheError`` if some of its samples were evicted."""
        if state == self._snapshot().state():
            return
        if os.getpid() != self._process:
            self._current = Snapshot.of_state(state, self._directory)
        elif self._store is None:
            self._pin(state)
            self._set_current(Snapshot.of_state(state, self._directory))
        else:
            new = Snapshot(state["epoch"], self._store.named(state["segments"]), state["length"])
            self._store.publish(new)
            self._set_current(new)

    @property
    def epoch(self) -> int:
        """Number of the current epoch; -1 before the first ``set_epoch``."""
        return self._snapshot().epoch

    def statistics(self) -> Statistics:
        """Return statistics of this object since it was made. ``print`` shows them in one line."""
        store, fetchers, counts = self._store, self._fetchers, self._counts
        samples, used = store.contents() if store is not None else (len(self), 0)
        ages = self.ages()
        trouble = fetchers.trouble if fetchers is not None else None
        return Statistics(
            seconds=time.monotonic() - counts.began,
            samples=samples,
            epoch_samples=len(self),
            bytes_used=used,
            max_bytes=store.max_bytes if store is not None else 0,
            oldest=float(ages.max()) if len(ages) else 0.0,
            **{name: getattr(fetchers, name, 0) for name in _FETCHED},
            read=counts.read,
            read_bytes=counts.read_bytes,
            evictions=store.evictions if store is not None else 0,
            fetchers_waited=store.waited if store is not None else 0.0,
            epochs_waited=counts.epochs_waited,
            trouble="" if trouble is None else f"{type(trouble).__name__}: {trouble}",
        )

    # The end

    def close(self) -> None:
        """Stop fetching and close the cache. Fetched samples that are not written yet are lost.

        Wait at most five seconds for running calls to the source. In a worker process, do nothing.
        """
        if os.getpid() != self._process:
            return
        try:
            if self._fetchers is not None:
                self._fetchers.stop()
                if self._fetchers.join():
                    close_source(self._source)
        finally:
            if self._store is not None:
                self._store.close()
            if self._pins is not None:
                self._pins.release()

    def __enter__(self) -> "GrowingCache":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes that a worker process needs to read samples."""
        return {name: getattr(self, name) for name in ("_directory", "_decode", "_current", "_shared", "_set_here")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._counts = _Counts()
        self._process = -1  # no process: like a forked child, it does not write
        self._store = self._fetchers = self._pins = self._source = None


class _Counts:
    """Counts of one process for the statistics. ``lock`` guards the counts ``read`` and ``read_bytes``."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.read = self.read_bytes = 0
        self.epochs_waited = 0.0
        self.lock = fork.rlock()
