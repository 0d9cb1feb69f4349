"""A batch that all workers build at once.

The consumer makes an assembly from the indices of one batch. Workers claim pieces of it, smaller and smaller ones
(guided self-scheduling: Polychronopoulos and Kuck, 1987), load their samples and write them into the batch's slots.
Whoever ends the last piece finishes the batch. Where samples are cheap, pieces are not so small that claiming them
costs more than they do, and fewer workers help. Which worker loads a sample does not show in the batch: not in its
values, and not in the exception, which is that of the first failing sample in the order of the batch.
"""

import enum
import math
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import length_hint
from typing import Any

from ftloader.batch.errors import SKIP, Skipped, annotate, annotate_sample, without_stop_iteration
from ftloader.batch.fetch import EMPTY, Cancelled, Epoch, Fetched, Recipe
from ftloader.batch.layout import Layout, is_torchs_collation
from ftloader.batch.memory import BufferPool
from ftloader.batch.slots import Slots
from ftloader.batch.trial import Trial
from ftloader.compat.torch_private import pinned
from ftloader.current import leave_sample, this_thread
from ftloader.workers.messages import Failure

_PIECES_PER_WORKER = 2  # a piece is so small a part of what is left
_LOOK_AGAIN = 17  # batches that had no slots, until one is looked at: samples may grow. A prime: batches may alternate
_RAGGED = 2  # batches not like the one before, after which each batch's first sample is asked
_SHORTEST_PIECE = 200e-6  # seconds; claiming one takes some microseconds, or more where threads meet at the lock


class Mode(enum.Enum):
    """What a batch looks like, where that is not a ``Layout``."""

    UNKNOWN = "unknown"
    """Its first sample will tell."""
    WHOLE = "whole"
    """Samples are kept and collated all at once."""


@dataclass(eq=False)
class Builder:
    """How the batches of one iterator are made; shared by its workers.

    ``expected`` is what the latest batch looked like, ``seconds`` what loading one of its samples took, ``kept_whole``
    counts batches without slots, ``misjudged`` those that were not like the one before, ``some_have_slots`` says
    whether some had slots without a trial. They are written by workers and read without a lock: a wrong guess costs
    some time.
    """

    recipe: Recipe
    dataset: Any
    workers: int
    buffers: BufferPool
    trial: Trial
    pin_device: str | None
    expected: Layout | Mode = Mode.UNKNOWN
    seconds: float = math.inf
    kept_whole: int = 0
    misjudged: int = 0
    some_have_slots: bool = False

    @cached_property
    def can_have_slots(self) -> bool:
        """Asked first by a worker, so after ``worker_init_fn``, which may register functions with torch's collation."""
        return is_torchs_collation(self.recipe.collate_fn)

    def helpers(self, samples: int) -> int:
        """How many workers are to build a batch of so many *samples* together."""
        pieces = min(samples, samples * self.seconds / _SHORTEST_PIECE)
        return min(self.workers, max(1, int(pieces)))

    def expect(self, looks: Layout | Mode) -> None:
        self.expected = Mode.UNKNOWN if self.misjudged >= _RAGGED and looks is not Mode.WHOLE else looks


class Assembly:
    """One batch in the making.

    The epoch is checked after user code and before any lock: in a child that user code forked, where the epoch is
    cancelled, another worker may hold the lock for ever.

    ``_lock`` guards the claims (``_next``, ``_working``), what they took, the failure and the choice of ``_slots``. A
    position of ``_samples`` or of the slots belongs to the worker that claimed it until it has ended its piece, then to
    the one that finishes the batch.
    """

    def __init__(self, builder: Builder, epoch: Epoch, index: list) -> None:
        self.epoch = epoch
        self.helpers = builder.helpers(len(index))
        """How many workers are to call ``build``; others may."""
        self._builder = builder
        self._index = index
        self._lock = threading.Lock()
        self._next = 0
        self._working = 0
        self._finished = False
        self._failure: BaseException | None = None
        self._failed_at = len(index)
        # A sample, SKIP or a Skipped; _IN_SLOTS where it has been copied.
        self._samples: list = [None] * len(index)
        self._slots: Slots | None = None
        self._undecided = builder.expected is not Mode.WHOLE
        self._seconds: list[float] = []  # for a sample, of each piece
        self._tried = 0  # bytes of a sample, where the choice of slots or not is part of a trial
        self._stacks = False  # whether a trial has shown that slots do not pay
        self._cpu = 0.0  # seconds so far

    def build(self) -> Fetched | Failure | None:
        """Works on the batch until nothing of it is left to claim. Returns the batch, or what the dataset raised, in
        the one worker that finishes it, None in all others.

        Raises ``Cancelled``, or what collate_fn raises.
        """
        piece = self._claim()
        try:
            while piece is not None:
                began, cpu = time.perf_counter(), time.thread_time()
                self._load(piece)
                self.epoch.check()
                piece = self._claim((time.perf_counter() - began) / len(piece), time.thread_time() - cpu)
        finally:
            leave_sample()
        return self._finish() if self._is_mine_to_finish() else None

    # Claims

    def _claim(self, seconds: float | None = None, cpu: float = 0.0) -> range | None:
        """The next piece, after the previous one, if there was one, took *seconds* for each sample, and so much *cpu*
        time in all."""
        with self._lock:
            if seconds is not None:
                self._working -= 1
                self._seconds.append(seconds)
                self._cpu += cpu
            begin = self._next
            left = min(len(self._index), self._failed_at) - begin
            if left <= 0:
                return None
            self._working += 1
            size = max(1, left // (_PIECES_PER_WORKER * self.helpers), int(_SHORTEST_PIECE / self._builder.seconds))
            self._next = begin + min(left, size)
            return range(begin, self._next)

    def _is_mine_to_finish(self) -> bool:
        """True once: for the first to ask when all is done."""
        with self._lock:
            left = min(len(self._index), self._failed_at) - self._next
            if self._working or left > 0 or self._finished:
                return False
            self._finished = True
            return True

    # Samples

    def _load(self, piece: range) -> None:
        builder, epoch, index, samples = self._builder, self.epoch, self._index, self._samples
        dataset, policy = builder.dataset, builder.recipe.policy
        position = piece.start
        rest: Iterator | None = None  # of the samples, if they are kept as they are
        try:
            expected = builder.expected  # once: another worker may replace it at any moment
            if self._undecided and isinstance(expected, Layout):
                self._open_slots(expected)
            if policy.raises and not self._undecided and self._slots is None:
                keys = index[piece.start : piece.stop]
                rest = iter(keys)
                this_thread.sample.enter_all(epoch, keys, rest)
                loaded = [dataset[key] for key in rest if not epoch.cancelled]
                self.epoch.check()
                samples[piece.start : piece.stop] = loaded
                return
            here = this_thread.sample
            for position in piece:
                if position > self._failed_at:  # a moment old at worst: a sample too many
                    return
                here.enter(epoch, index[position], self._slots, position)
                try:
                    sample = dataset[index[position]]
                except Exception as error:
                    if policy.raises:
                        raise
                    annotate_sample(error, index[position])
                    sample = policy.resolve(error, index[position])
                    if sample is SKIP:
                        sample = Skipped.because_of(error, index[position])
                self.epoch.check()
                self._keep(position, sample)
                sample = None  # the next one may take its memory, which is in the caches
        except Cancelled:
            raise
        except BaseException as error:
            self.epoch.check()
            if rest is not None:
                position = piece.stop - 1 - length_hint(rest)
            annotate_sample(error, index[position])
            # Without this frame, which is of no interest to the reader of the traceback.
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]  # it was raised
            with self._lock:
                if position < self._failed_at:
                    self._failed_at = position
                    self._failure = without_stop_iteration(error, "the dataset")
            # The frames of the traceback refer to this one (f_back): no cycle through it.
            del self, builder, samples, dataset, policy, index, rest

    def _keep(self, position: int, sample: Any) -> None:
        """Puts *sample* where it belongs: into its slot, or as it is into the list."""
        if self._slots is None and self._undecided and type(sample) is not Skipped:
            self._open_slots(Layout.of(sample) if self._builder.can_have_slots else None)
        if self._slots is not None and self._slots.write(position, sample):
            self._samples[position] = _IN_SLOTS
        else:
            self._samples[position] = sample

    def _open_slots(self, layout: Layout | None) -> None:
        """Makes the slots for samples of *layout*, or none, unless another worker was faster."""
        builder = self._builder
        with self._lock:
            if self._undecided and self._failed_at >= 0:
                if layout is not None:
                    wanted, on_trial = builder.trial.choose(layout.nbytes, layout.slots)
                    self._tried = layout.nbytes if on_trial else 0
                    self._stacks = not (wanted or on_trial)
                    if wanted and not on_trial:
                        builder.some_have_slots = True
                    try:
                        if wanted:
                            self._slots = Slots(layout, len(self._index), builder.buffers, builder.pin_device)
                    except Exception as error:  # of the batch, before all samples; without our frames: no cycle
                        count = len(self._index)
                        annotate(error, f"raised in allocating {layout.nbytes} bytes for each of {count} samples")
                        self._failed_at, self._failure = -1, error.with_traceback(None)
                        return
                self._undecided = False

    # The batch

    def _finish(self) -> Fetched | Failure:
        self.epoch.check()
        if self._failure is not None:
            failure, self._failure = Failure(self._failure), None
            return failure
        self._builder.seconds = max(1e-9, sorted(self._seconds)[len(self._seconds) // 2])
        self._cpu -= time.thread_time()
        fetched = self._collate()
        if self._tried:
            cpu = self._cpu + time.thread_time()
            self._builder.trial.add(self._slots is not None, cpu, len(self._index) * self._tried)
        return fetched

    def _collate(self) -> Fetched:
        skipped = tuple(s for s in self._samples if type(s) is Skipped)
        if self._slots is not None and all(s is _IN_SLOTS for s in self._samples):
            try:
                self._slots.collate_columns(self._builder.recipe.collate_fn)
            except Exception:
                pass  # collated as a whole below, it raises torch's own error
            else:
                self._builder.expect(self._slots.layout)
                return Fetched(self._slots)
        samples = self._remaining()
        if not samples and skipped:
            return Fetched(EMPTY, skipped)
        builder = self._builder
        builder.expect(self._expected_next(samples))
        return Fetched(pinned(builder.recipe.collate_fn(samples), builder.pin_device), skipped)

    def _expected_next(self, samples: list) -> Layout | Mode:
        """What the next batch may look like, after one that was collated whole."""
        builder = self._builder
        if not builder.can_have_slots:
            return Mode.WHOLE
        if self._slots is not None and len(samples) == len(self._samples):
            builder.misjudged += 1
            return Mode.UNKNOWN  # not like the one before, so its first sample tells more than these
        builder.kept_whole += 1
        if builder.kept_whole % _LOOK_AGAIN:  # looking costs up to a tenth of small samples
            if self._stacks and not builder.some_have_slots:
                return Mode.WHOLE
            if self._slots is None and builder.expected is not Mode.UNKNOWN:
                return builder.expected
        return Layout.of(samples[0]) or Mode.WHOLE

    def _remaining(self) -> list:
        """All samples but the skipped; those that are in slots are copied out of them."""
        samples = [
            self._slots.sample(position) if sample is _IN_SLOTS else sample  # type: ignore[union-attr]  # has slots
            for position, sample in enumerate(self._samples)
            if type(sample) is not Skipped
        ]
        if self._slots is not None:
            self._slots.release()
        return samples


_IN_SLOTS: Any = type("InSlots", (), {})()
