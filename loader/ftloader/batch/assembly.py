"""Batches that several workers build together.

A worker claims a piece of a batch (a range of positions), loads its samples, and writes them into
the batch's slots. Pieces get smaller towards the end (guided self-scheduling: Polychronopoulos and
Kuck, 1987). The worker whose piece ends last finishes the batch. If samples load fast, fewer
workers build a batch, in larger pieces. The values do not depend on which worker loads which
sample. If several samples fail, the exception of the first in the batch is raised.
"""

import contextlib
import enum
import math
import operator
import threading
import time
from dataclasses import dataclass
from functools import cached_property
from operator import length_hint
from typing import Any

from ftloader.batch.errors import Skipped, annotate_sample, split_skipped, without_stop_iteration
from ftloader.batch.fetch import (
    EMPTY,
    BatchFailure,
    BatchSettings,
    Epoch,
    Fetched,
    Outcome,
    load_one,
)
from ftloader.batch.in_use import WorkersInUse
from ftloader.batch.layout import Layout, is_torchs_collation
from ftloader.batch.memory import BufferPool
from ftloader.batch.size import nbytes_of
from ftloader.batch.slots import Slots
from ftloader.compat.torch_private import pinned
from ftloader.current import this_thread
from ftloader.diagnosis.exceptions import annotate, set_traceback, traceback_of
from ftloader.diagnosis.recording import WorkerTimes
from ftloader.errors import Cancelled

_PIECES_PER_WORKER = 2  # a worker claims 1/2 of (samples left / number of workers)
# inspect one plain batch in 17: samples may grow. A prime, since batches may alternate
_LOOK_AGAIN = 17
_RAGGED = 2  # batches unlike the one before; then the first sample of every batch is inspected
# seconds; claiming a piece takes some microseconds, more if threads contend for the lock
_SHORTEST_PIECE = 200e-6
# files whose frames lie between a worker and the dataset
_OUR_FILES = (__file__, load_one.__code__.co_filename)


class Mode(enum.Enum):
    """Values of ``BatchHints.expected`` other than a layout: the layout is unknown, or the batch
    needs no slots.
    """

    UNKNOWN = "unknown"  # the layout of the batch's first sample will be used
    PLAIN = "plain"  # the samples have no slots: collate_fn gets all of them at once


@dataclass(eq=False)
class BatchHints:
    """Settings that one iterator's batches share, and estimates for the next batch: layout, time to
    load a sample.

    Workers read and write the estimates without a lock: an outdated estimate only costs time.
    """

    settings: BatchSettings
    workers: WorkersInUse
    buffers: BufferPool
    pin_device: str | None
    expected: Layout | Mode = Mode.UNKNOWN  # of the next batch, judged by the latest one
    seconds: float = math.inf  # to load one sample of the latest batch
    plain: int = 0  # number of batches without slots
    misjudged: int = 0  # number of batches that were not like the one before

    @cached_property
    def can_have_slots(self) -> bool:
        """True if a batch that is written into slots equals the batch that the loader's
        ``collate_fn`` would make.
        """
        # First asked by a worker, so after worker_init_fn,
        # which may register functions with torch's collation.
        return is_torchs_collation(self.settings.collate_fn)

    def helpers(self, samples: int) -> int:
        """Return the number of workers that should build a batch of *samples* samples together."""
        pieces = min(samples, samples * self.seconds / _SHORTEST_PIECE)
        return min(self.workers.number, max(1, int(pieces)))

    def expect(self, next_one: Layout | Mode) -> None:
        """Set ``expected`` to *next_one*. But after several wrong expectations,
        always set it to UNKNOWN.
        """
        if self.misjudged >= _RAGGED:
            self.expected = Mode.UNKNOWN
        else:
            self.expected = next_one


class SharedBatch:
    """One batch that several workers build together.

    ``_lock`` guards the claims (``_next``, ``_working``), the times of pieces, the failure and the
    creation of ``_slots``. While a piece is loaded, only the worker that claimed it uses its
    positions in ``_samples`` and the slots. After that, only the worker that finishes the batch
    uses them.

    After user code, workers call ``epoch.check()`` before they take the lock. User code may have
    forked: in the child the lock may stay locked forever, so ``epoch.check()`` raises ``Cancelled``
    there.
    """

    def __init__(self, hints: BatchHints, epoch: Epoch, index: list | tuple) -> None:
        self.epoch = epoch
        # number of workers that should call build(); others may call it too
        self.helpers = hints.helpers(len(index))
        self._hints = hints
        self.index = index
        self._lock = threading.Lock()
        self._next = 0  # first position that is not claimed
        self._working = 0  # pieces that are claimed and not ended
        self._finished = False
        self._failure: BaseException | None = None
        self._failed_at = len(index)
        # Each is a sample, a Skipped, or _IN_SLOTS if the sample has been written into its slot.
        self._samples: list = [None] * len(index)
        self._slots: Slots | None = None
        # True until it is known whether there are slots
        self._undecided = hints.expected is not Mode.PLAIN
        self._seconds: list[float] = []  # per sample, of each piece

    @property
    def claimed(self) -> bool:
        """True if no samples are left to claim. Read without the lock:
        the value may be outdated.
        """
        return self._next >= min(len(self.index), self._failed_at)

    def add_helpers(self) -> int:
        """Raise ``helpers`` to what the hints say now. Return by how many.
        Workers may read the old number.
        """
        more = max(0, self._hints.helpers(len(self.index)) - self.helpers)
        self.helpers += more
        return more

    def build(self, context: Any) -> Outcome | None:
        """Load pieces from ``context.dataset`` until none is left to claim.

        The worker whose piece ends last finishes the batch and returns it, or its failure. All
        others return None.
        """
        dataset = context.dataset
        piece = self._claim()
        try:
            while piece:
                started = time.perf_counter()
                try:
                    self._load(piece, dataset)
                except Cancelled:
                    raise
                except BaseException as error:
                    self._fail(error, piece)
                self.epoch.check()
                seconds = time.perf_counter() - started
                context.times.loading += seconds
                context.times.samples += len(piece)
                piece = self._claim(seconds / len(piece))
        except Cancelled:
            self._failure = None  # of another piece; see _finish
            raise
        finally:
            this_thread.sample.leave()
        if piece is None:
            return None
        started = time.perf_counter()
        try:
            return self._finish(context.settings)
        finally:
            context.times.collating += time.perf_counter() - started

    def _claim(self, seconds: float | None = None) -> range | None:
        """Return the next piece to load; an empty range if the caller must finish the batch; None
        if another worker finishes it. *seconds*: time per sample of the piece that the caller has
        just loaded, if any."""
        with self._lock:
            if seconds is not None:
                self._working -= 1
                self._seconds.append(seconds)
            start = self._next
            left = min(len(self.index), self._failed_at) - start
            if left > 0:
                self._working += 1
                # A fraction of the samples left, so that all workers end at about the same time;
                # but not too short.
                size = max(
                    1,
                    left // (_PIECES_PER_WORKER * self.helpers),
                    int(_SHORTEST_PIECE / self._hints.seconds),
                )
                self._next = start + min(left, size)
                return range(start, self._next)
            if self._working or self._finished:
                return None
            self._finished = True
            return range(0)

    def _load(self, piece: range, dataset: Any) -> None:
        """Load the samples of *piece*. Raise the dataset's error, or ``Cancelled``."""
        hints, epoch, index = self._hints, self.epoch, self.index
        policy, sample_state = hints.settings.policy, this_thread.sample
        expected = hints.expected  # read once: another worker may replace it at any moment
        if self._undecided and isinstance(expected, Layout):
            self._open_slots(expected)
        if policy.raises and not self._undecided and self._slots is None:
            # Small samples take a microsecond each, so this loop does nothing else.
            keys = index[piece.start : piece.stop]
            sample_state.enter_all(epoch, keys, rest := iter(keys))
            loaded = [dataset[key] for key in rest if not epoch.cancelled]
            epoch.check()
            self._samples[piece.start : piece.stop] = loaded
            return
        for position in piece:
            if position > self._failed_at:
                # read without the lock: a stale value costs one sample too many
                return
            sample_state.enter(epoch, index[position], self._slots, position)
            sample = load_one(operator.getitem, dataset, index[position], policy)
            epoch.check()
            self._keep(position, sample)
            sample = None  # frees its memory for the next sample, while it is in the CPU's caches

    def _fail(self, error: BaseException, piece: range) -> None:
        self.epoch.check()
        sample_state = this_thread.sample
        if sample_state.rest is None:
            position = sample_state.position
        else:
            position = piece.stop - 1 - length_hint(sample_state.rest)
        position = max(position, piece.start)  # an interruption may strike before the first sample
        annotate_sample(error, self.index[position])
        # Leave the loader's frames out of the traceback: its reader looks for the dataset's.
        while (
            entry := traceback_of(error)
        ) is not None and entry.tb_frame.f_code.co_filename in _OUR_FILES:
            set_traceback(error, entry.tb_next)
        with self._lock:
            if position < self._failed_at:
                self._failed_at = position
                self._failure = without_stop_iteration(error, "the dataset")

    def _keep(self, position: int, sample: Any) -> None:
        """Write *sample* into its slot, or into the list
        of samples if the batch has no slot for it.
        """
        if self._slots is None and self._undecided and type(sample) is not Skipped:
            layout = None
            if self._hints.can_have_slots:
                layout = Layout.of(sample)
            self._open_slots(layout)
        if self._slots is not None and self._slots.write(position, sample):
            self._samples[position] = _IN_SLOTS
        else:
            self._samples[position] = sample

    def _open_slots(self, layout: Layout | None) -> None:
        """Make the batch's slots for *layout*, or decide on no slots if it is None. Do nothing if
        that is decided.
        """
        hints = self._hints
        with self._lock:
            if not self._undecided or self._failed_at < 0:
                return
            if layout is not None:
                try:
                    self._slots = Slots(layout, len(self.index), hints.buffers, hints.pin_device)
                except Exception as error:
                    count = len(self.index)
                    annotate(
                        error,
                        f"raised in allocating {layout.nbytes} bytes for each of {count} samples",
                    )
                    # -1: an error of the batch comes before those of samples. The frames refer to
                    # this batch, so the traceback is dropped, which would close a reference cycle.
                    self._failed_at, self._failure = -1, set_traceback(error, None)
                    return
            self._undecided = False

    def _finish(self, settings: BatchSettings) -> Outcome:
        # The traceback refers to frames whose locals refer to this batch:
        # end the cycle, and free the samples.
        failure, self._failure = self._failure, None
        self.epoch.check()
        if failure is not None:
            self._samples, self._slots = [], None
            return BatchFailure(failure)
        # The median, since one slow sample says nothing about the next batch.
        self._hints.seconds = max(1e-9, sorted(self._seconds)[len(self._seconds) // 2])
        hints = self._hints
        if self._slots is not None and all(s is _IN_SLOTS for s in self._samples):
            with contextlib.suppress(Exception):
                # collated as a whole below, the samples raise torch's own error
                self._slots.collate_columns(settings.collate_fn)
                hints.expect(self._slots.layout)
                return Fetched(
                    self._slots,
                    times=WorkerTimes(samples=len(self._samples)),
                    nbytes=self._slots.nbytes,
                )
        samples = self._without_slots()
        skipped: tuple[Skipped, ...] = ()
        if not settings.policy.raises:
            # else none can be left out: small samples are not looked at one by one
            samples, skipped = split_skipped(samples)
        if not samples and skipped:
            return Fetched(EMPTY, skipped)
        hints.expect(self._expected_next(samples))
        data = pinned(settings.collate_fn(samples), hints.pin_device)
        return Fetched(
            data, skipped, times=WorkerTimes(samples=len(samples)), nbytes=nbytes_of(data)
        )

    def _without_slots(self) -> list:
        """Return the samples, with copies of those in slots. Give up the slots' memory."""
        if self._slots is None:
            return self._samples
        samples = list(self._samples)
        for position, sample in enumerate(samples):
            if sample is _IN_SLOTS:
                samples[position] = self._slots.sample(position)
        self._slots.release()
        return samples

    def _expected_next(self, samples: list) -> Layout | Mode:
        """Return the ``Layout`` or ``Mode`` to expect of the next batch if it is like this one,
        made of *samples*.
        """
        hints = self._hints
        if not hints.can_have_slots:
            return Mode.PLAIN
        if self._slots is not None and len(samples) == len(self._samples):
            # This batch differs from the one before.
            # So wait for the first sample of the next batch.
            hints.misjudged += 1
            return Mode.UNKNOWN
        hints.plain += 1
        # Finding a sample's layout costs up to a tenth of the time of a batch of small samples.
        if self._slots is None and hints.expected is Mode.PLAIN and hints.plain % _LOOK_AGAIN:
            return Mode.PLAIN
        return Layout.of(samples[0]) or Mode.PLAIN


_IN_SLOTS: Any = type("InSlots", (), {})()
