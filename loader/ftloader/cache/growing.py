"""``GrowingCache``: a dataset that grows while samples are copied
from a remote source to this machine.
"""

import dataclasses
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from ftloader import fork
from ftloader.cache.arrays import RawArray
from ftloader.cache.epochs import EpochReader, Epochs, EpochWriter, Settings
from ftloader.cache.errors import CacheError, CorruptSampleError
from ftloader.cache.formats import TFRECORD
from ftloader.cache.sources import Source
from ftloader.cache.statistics import Statistics
from ftloader.cache.store import Snapshot

_STATE = "_directory", "_decode", "_current", "_shared", "_epochs_set"
"""Attributes that a worker process needs to read samples."""


class GrowingCache(Dataset):
    """A map-style dataset of the samples that threads
    of this process have fetched from a source so far.

        with GrowingCache(source, directory, max_bytes=200e9, fetchers=16) as cache:
            for epoch in range(epochs):
                cache.set_epoch(epoch)  # samples that are complete now are this epoch's data
                for batch in DataLoader(cache, batch_size=64, shuffle=True, num_workers=8):
                    ...

    Args:
        source: an object with ``keys()`` and ``read(key)``, or an address that fsspec understands.
            None: this process reads the samples that another process, such as another rank of the
                job, fetches on this machine.
        directory: where the cache keeps its files. The cache writes nothing elsewhere.
        max_bytes: disk budget in bytes, at least 1 MiB. Never exceeded, not even by unfinished
            writes. When it is used up, the oldest samples are evicted, 1/128 of the budget at a
            time.
        fetchers: number of threads that fetch samples. Each has at most one sample in memory.
        decode: a function that gets a sample's bytes and returns the sample. By default, the sample
            is a uint8 array. ``RawArray`` makes other such functions.
        min_samples: number of samples that ``set_epoch`` waits for.
        pin: maximum size of an epoch, as a fraction of ``max_bytes``. An epoch has the newest
            samples that fit. The rest of the budget is for samples of later epochs. If the cache
            has all samples of the source, each epoch has them all, whatever *pin* is.
        retries: number of times that a failed fetch of a sample is repeated, after growing pauses.
            Then the sample is left for the next epoch.
        max_unlisted: number of consecutive epochs for which listing the source may fail. At the
            next failure ``set_epoch`` raises ``CacheError``. None: only warn, at the first such
            epoch and when the reason changes.
        format: "segment" is the cache's own format. "tfrecord" writes TFRecord files, whose paths
            ``files()`` returns, and needs the package crc32c (``ftloader[tfrecord]``). The format
            may change between runs.

    ``len(cache)``, ``cache[i]``, ``cache.key(i)`` and ``cache.ages()`` refer to the current epoch.
    Threads and worker processes may call these four. Only one thread at a time may call the others,
    in the process that made the object.

    Raises:
        ValueError: an argument does not fit; *directory* lies in the source's folder, or that in
            it.
        CacheError: another process writes to *directory*; the files there have another version;
            crc32c is missing.
        OSError: *directory* cannot be written.
    """

    def __init__(  # noqa: PLR0913 - a public signature
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
        settings = Settings(max_bytes, fetchers, min_samples, pin, retries, max_unlisted, format)
        self._directory = os.path.abspath(directory)
        self._decode = RawArray() if decode is None else decode
        self._current = Snapshot(-1, [])
        # with worker processes: number of epochs set
        self._shared = torch.zeros(1, dtype=torch.int64).share_memory_()
        self._epochs_set = 0  # of which this process knows
        self._counts = _Counts()
        self._process = os.getpid()
        self._writer: EpochWriter | None = None
        if source is not None:
            self._writer = EpochWriter(source, self._directory, settings)
        self._epochs: Epochs = self._writer or EpochReader(self._directory)

    # An epoch's samples

    def __len__(self) -> int:
        return len(self._snapshot())

    def __getitem__(self, index: int) -> Any:
        segment, row = self._snapshot().find(index)
        decode: Any = self._decode
        reads_into = hasattr(decode, "empty")
        try:
            size = segment.nbytes(row)
            if reads_into:
                data = decode.empty(size)
                segment.read_into(row, data)
            else:
                data = segment.read(row)
        except CorruptSampleError:
            segment.mark_damaged()
            raise
        with self._counts.lock:
            self._counts.read += 1
            self._counts.read_bytes += size
        if reads_into:
            return data
        return self._decode(data)

    def key(self, index: int) -> str:
        """Return the source's key for sample *index* of the current epoch."""
        segment, row = self._snapshot().find(index)
        return segment.keys[row]

    def files(self) -> list[str]:
        """Return the paths of the epoch's TFRecord files, which stay until the next ``set_epoch``.

        The files may have more samples than the epoch: the argument *at_most* of ``set_epoch`` does
        not shorten them.
        """
        segments = self._snapshot().segments
        return [segment.data_path for segment in segments if segment.format is TFRECORD]

    def ages(self) -> np.ndarray:
        """Return the seconds since each sample was written to the cache,
        for a sampler that prefers new samples.
        """
        return np.maximum(0.0, time.time() - self._snapshot().times())

    def _snapshot(self) -> Snapshot:
        if os.getpid() != self._process and self._shared[0].item() != self._epochs_set:
            raise CacheError(
                "set_epoch was called after this worker process had begun, so it does not know the "
                "epoch's samples: use worker threads, or persistent_workers=False, and set the "
                "epoch before the loader is iterated"
            )
        return self._current

    # Epochs

    def set_epoch(self, epoch: int, at_most: int | None = None) -> None:
        """Start *epoch*, whose data are the samples that are complete now. They stay readable until
        the next call.

        Wait until ``min_samples`` samples are complete; with ``source=None``, until the fetching
        process sets *epoch*.

        Args:
            at_most: limit for the number of samples of the epoch, to give all hosts of a job the
                same number.

        Raise ``CacheError`` if the epoch cannot get ``min_samples`` samples, or if listing the
        source has failed for more than ``max_unlisted`` epochs in a row. Raise ``OSError`` if the
        disk fails.
        """
        if os.getpid() != self._process:
            raise CacheError(
                "set_epoch is for the process that made the cache, not for its workers"
            )
        self._set_current(self._epochs.snapshot(epoch, at_most))

    def _set_current(self, snapshot: Snapshot) -> None:
        self._current = snapshot
        self._epochs_set += 1
        self._shared[0] = self._epochs_set

    def state_dict(self) -> dict[str, Any]:
        """Return the current epoch for ``load_state_dict``:
        a dict of its number, segment names and sample count.
        """
        return self._snapshot().state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue with the epoch that *state* describes. Raise ``CacheError`` if some of its
        samples were evicted.
        """
        if state == self._snapshot().state():
            return
        if os.getpid() != self._process:
            self._current = Snapshot.of_state(state, self._directory)
        else:
            self._set_current(self._epochs.restored(state))

    @property
    def epoch(self) -> int:
        """Number of the current epoch; -1 before the first ``set_epoch``."""
        return self._snapshot().epoch

    def statistics(self) -> Statistics:
        """Return statistics of this object since it was made. ``print`` shows them in one line."""
        counts, ages = self._counts, self.ages()
        if self._writer is None:
            written = Statistics(samples=len(self))
        else:
            written = self._writer.statistics()
        return dataclasses.replace(
            written,
            seconds=time.monotonic() - counts.began,
            epoch_samples=len(self),
            oldest=float(ages.max()) if len(ages) else 0.0,
            read=counts.read,
            read_bytes=counts.read_bytes,
        )

    # The end

    def close(self) -> None:
        """Stop fetching and close the cache. Fetched samples that are not written yet are lost.

        Wait at most five seconds for running calls to the source. In a worker process, do nothing.
        """
        if os.getpid() == self._process:
            self._epochs.close()

    def __enter__(self) -> "GrowingCache":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes that a worker process needs to read samples."""
        return {name: getattr(self, name) for name in _STATE}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._counts = _Counts()
        self._process = -1  # no process: like a forked child, it does not write
        self._writer = None


class _Counts:
    """Counts of one process for the statistics. ``lock`` guards
    the counts ``read`` and ``read_bytes``.
    """

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.read = self.read_bytes = 0
        self.lock = fork.rlock()
