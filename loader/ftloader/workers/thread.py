"""The body of a worker thread, and the messages between the consumer and its workers.

Only the worker uses its ``WorkerContext``. Between two tasks the worker's thread refers to no
user-supplied object, so an iterator in a reference cycle through the dataset can be collected while
its workers wait.
"""

import contextlib
import contextvars
import ctypes
import enum
import os
import sys
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any

import torch

from ftloader.batch.errors import describe_index, without_stop_iteration
from ftloader.batch.fetch import (
    EMPTY,
    BatchFailure,
    BatchSettings,
    Epoch,
    Fetched,
    MapFetcher,
    Outcome,
)
from ftloader.batch.iterable import Fetcher, IterableFetcher, StatefulMapFetcher
from ftloader.batch.memory import keep_freed_memory
from ftloader.compat.torch_private import LIBRARY, DatasetKind, pinned
from ftloader.current import this_thread
from ftloader.diagnosis.exceptions import annotate, drop_first_frame
from ftloader.diagnosis.page_faults import faults_of_this_thread
from ftloader.diagnosis.recording import READ_EVERY, WorkerTimes, seconds_queued
from ftloader.errors import Cancelled
from ftloader.state.format import WorkerState, fresh_share
from ftloader.workers.copies import Copier, UserObjects
from ftloader.workers.info import acting_as, describe_worker


@dataclass(frozen=True, slots=True)
class BatchTask:
    """Message to a worker: build *batch* (a ``WholeBatch``)
    or help to build it (a ``SharedBatch``).

    *contexts* has each worker's context, by worker id.
    The message is sent once per worker that may help.
    """

    contexts: tuple[Any, ...]
    number: int
    batch: Any


class Command(enum.Enum):
    """Message, other than a ``BatchTask``, to a worker."""

    END = "end"
    WAKE = "wake"  # run for a moment and do nothing: see WorkerPool.wake
    FREE = "free"  # the same, and note no times: see WorkerPool.let_free
    PARK = "park"  # take no tasks until a RESUME
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Result:
    """Message to the consumer: the outcome of a batch.
    Sent once for each batch, unless its epoch is cancelled.
    """

    epoch: Epoch
    number: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Departure:
    """Message to the consumer: this worker failed to start or, if *task_lost*, ended in the middle
    of a task.
    """

    worker_id: int
    exception: BaseException
    task_lost: bool


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """Settings that all workers of one iterator share:
    the loader's arguments, and the epoch to start with.
    """

    settings: BatchSettings
    dataset_kind: int
    takes_states: bool  # of each worker's map-style dataset
    num_workers: int
    base_seed: int
    epoch_number: int
    adopt_modes: Callable[[], None]  # see consumer_modes
    states: list[WorkerState]  # starting point of each worker
    times: list[WorkerTimes]  # of each worker
    pin_memory_device: str | None  # device type to pin batches for, or None to leave them unpinned
    pin_memory_device_index: int | None


class WorkerContext:
    """User objects, ``WorkerInfo`` and fetcher of one worker. The consumer makes this and sends it
    with each task.

    *source*: the worker's user objects, or the ``Copier`` from which the worker's thread takes them
    before its first task.
    """

    def __init__(self, config: WorkerConfig, worker_id: int, source: UserObjects | Copier) -> None:
        self.config = config
        self._worker_id = worker_id
        self._copier = source if isinstance(source, Copier) else None
        if isinstance(source, UserObjects):
            self._use(source)
        # calls a function with a copy of the consumer's context variables
        self.within = own_context().run
        # None once a batch has been built from the share
        self.share = config.states[worker_id].share
        self._epoch: Epoch | None = None
        self._fetcher: Fetcher | None = None
        self.times = config.times[worker_id]

    def _use(self, objects: UserObjects) -> None:
        config, worker_id = self.config, self._worker_id
        self.dataset, collate_fn, self._worker_init_fn = objects
        self.settings = replace(config.settings, collate_fn=collate_fn)
        self.info = describe_worker(
            worker_id, config.num_workers, config.base_seed + worker_id, objects.dataset
        )

    @property
    def copying(self) -> bool:
        """True until this worker has its own user objects."""
        return self._copier is not None

    def _take_copy(self, copier: Copier) -> None:
        times, began = self.times, time.perf_counter()
        times.busy = True
        try:
            self._use(copier.copy())
        finally:
            self._copier = None
            times.busy = False
        times.copying += time.perf_counter() - began
        times.copied += copier.nbytes

    def start_up(self) -> None:
        """Make this worker's copies, select the device to pin memory for, and run
        ``worker_init_fn``. Called once per worker, in its thread.
        """
        if self._copier is not None:
            self._take_copy(self._copier)
        config = self.config
        if config.pin_memory_device_index is not None:
            torch.accelerator.set_device_index(config.pin_memory_device_index)
        if self._worker_init_fn is None:
            return
        try:
            with acting_as(self.info):
                self._worker_init_fn(self._worker_id)
        except StopIteration as error:
            raise without_stop_iteration(error, "worker_init_fn") from error

    def fetcher(self, epoch: Epoch) -> Fetcher | None:
        """Return this worker's fetcher for *epoch*;
        None if making a fetcher has failed in this epoch.
        """
        if epoch is self._epoch:
            return self._fetcher
        # If making the fetcher fails, this worker answers all later tasks
        # of the epoch with "ended".
        self._epoch, self._fetcher = epoch, None
        config, share = self.config, self.share
        if config.dataset_kind == DatasetKind.Map:
            self._fetcher = self._map_fetcher(epoch)
            return self._fetcher
        if share is not None and epoch.number != config.epoch_number:
            # that epoch was left before a batch was built
            share = fresh_share(
                (share["snapshot"] or {"states": {}})["states"].get("dataset"), after=share["after"]
            )
        state = replace(config.states[self._worker_id], share=share)
        self._fetcher = IterableFetcher(self.settings, self.dataset, self._worker_id, state)
        return self._fetcher

    def _map_fetcher(self, epoch: Epoch) -> MapFetcher:
        config = self.config
        if not config.takes_states:
            return MapFetcher(self.settings, self.dataset)
        state = config.states[self._worker_id]
        if epoch.number != config.epoch_number:
            state = replace(state, dataset=None)  # loaded in the first epoch
        return StatefulMapFetcher(self.settings, self.dataset, state)


class WholeBatch:
    """Batch that a single worker builds."""

    helpers = 1

    def __init__(self, epoch: Epoch, index: Any) -> None:
        self.epoch, self.index = epoch, index
        self.claimed = False  # True once a worker has begun

    def build(self, context: WorkerContext) -> Fetched:
        """Build and return the batch. Raise ``Cancelled`` if the epoch is cancelled; pass on
        exceptions of user code.
        """
        self.claimed = True
        try:
            fetcher = context.fetcher(self.epoch)
            if fetcher is None:
                return Fetched(EMPTY, ended=True)
            fetched = fetcher.fetch(self.index, self.epoch)
        except Cancelled:
            raise  # the next epoch continues the same share
        except BaseException:
            context.share = None
            raise
        context.share = None
        context.times.add(fetched.times)
        fetched.data = pinned(fetched.data, context.config.pin_memory_device)
        return fetched


def run_worker(
    worker_id: int,
    start: list[WorkerContext],
    tasks: "SimpleQueue[BatchTask | Command]",
    parking: "SimpleQueue[Command]",
    results: "weakref.ref[SimpleQueue[Result | Departure | None]]",
    started_up: "SimpleQueue[None]",
) -> None:
    """Run ``worker_init_fn``, put None into *started_up*,
    then execute *tasks*. *start* is [worker's context].
    """
    # *start* is a list, which is emptied here, since a Thread keeps its arguments while it runs.
    process = os.getpid()
    started = False
    try:
        keep_freed_memory()
        _limit_intra_op_threads()
        context = start.pop()
        # Made by this thread, so that reference counts and cache lines are its own,
        # without the GIL.
        times = WorkerTimes().add(context.config.times[worker_id])
        context.times = context.config.times[worker_id] = times
        try:
            context.config.adopt_modes()
            context.within(context.start_up)
        finally:
            _end_if_forked(process)
            started_up.put(None)
        del context
        started = True
        _serve(worker_id, times, tasks, parking, results, process)
    except BaseException as error:
        annotate(error, f"in loader worker thread {worker_id}, which has ended because of it")
        send(results, Departure(worker_id, error, task_lost=started))


def send(results: weakref.ref, message: Result | Departure | None) -> None:
    """Put *message* into the iterator's queue, if the iterator still exists."""
    queue = results()
    if queue is not None:
        queue.put(message)


def _serve(
    worker_id: int,
    times: WorkerTimes,
    tasks: SimpleQueue,
    parking: SimpleQueue,
    results: weakref.ref,
    process: int,
) -> None:
    """Execute tasks until a ``Command.END`` comes. Few calls lie between here and ``dataset[i]``:
    each costs time.
    """
    # Of earlier workers with this number.
    cpu, queued = times.cpu - time.thread_time(), times.queued - seconds_queued()
    faults = times.faults - faults_of_this_thread()

    def note_usage() -> float:
        times.cpu, times.queued = cpu + time.thread_time(), queued + seconds_queued()
        times.faults = faults + faults_of_this_thread()
        return time.perf_counter()

    noted = note_usage()
    while True:
        task = tasks.get()
        if isinstance(task, Command):
            if task is Command.FREE:
                continue
            noted = note_usage()
            if task is Command.PARK:
                task = _command_after_parking(parking)
            if task is Command.END:
                return
            continue
        context = outcome = None
        try:
            task.batch.epoch.check()
            context = task.contexts[worker_id]
            this_thread.worker = context.info
            times.busy = True
            outcome = context.within(task.batch.build, context)
        except Cancelled:
            pass
        except BaseException as error:
            # Without this frame, which is of no interest to the reader of the traceback.
            drop_first_frame(error)
            outcome = BatchFailure(without_stop_iteration(error, "the dataset or collate_fn"))
        finally:
            this_thread.worker = None
            times.busy = False
        _end_if_forked(process)
        if time.perf_counter() - noted > READ_EVERY:
            noted = note_usage()
        if isinstance(outcome, BatchFailure):
            building = f"building batch {task.number} {describe_index(task.batch.index)}"
            annotate(outcome.exception, f"in loader worker thread {worker_id}, {building}")
        if outcome is not None:
            send(results, Result(task.batch.epoch, task.number, outcome))
        # The frames in the traceback of a failure refer to this one (f_back). A local that led to
        # the failure would close a reference cycle around the batch and the dataset. And a waiting
        # worker refers to no user object.
        task = context = outcome = None


def _command_after_parking(parking: SimpleQueue) -> Command:
    """Wait while the worker is parked; return the command that ends this."""
    while (command := parking.get()) is Command.WAKE:
        pass
    return command


def _end_if_forked(process: int) -> None:
    """End this process if it is a child that user code has forked,
    so that its id is not *process*.
    """
    # ``os._exit``, since at the end of the thread the C library would run destructors that may
    # never return (torch's).
    if os.getpid() != process:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # None, or closed
                stream.flush()
        os._exit(0)


# Symbols of the libraries that torch links are found through torch's own.
_library = ctypes.CDLL(LIBRARY)
_setters = [
    getattr(_library, name, None) for name in ("omp_set_num_threads", "MKL_Set_Num_Threads_Local")
]


def _limit_intra_op_threads() -> None:
    """Make torch's operations in this thread use one CPU thread, as in torch's worker processes."""
    # OpenMP and MKL are set directly: torch.set_num_threads(1) would also set the default of all
    # new threads. initialises the thread's settings, which would else overwrite these later
    torch.get_num_threads()
    for set_number in filter(None, _setters):
        set_number(1)


def consumer_modes() -> Callable[[], None]:
    """Return a function that gives the worker thread
    that calls it the torch modes of the present thread.

    The modes are gradients, autocast and default device.
    """
    # A new thread starts with gradients on, no autocast and the CPU as default device; a forked
    # process does not. ``inference_mode`` becomes ``no_grad``, so that batches are ordinary
    # tensors.
    gradients = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    autocast = [
        (name, torch.is_autocast_enabled(name), torch.get_autocast_dtype(name))
        for name in ("cpu", "cuda")
    ]
    device = torch.get_default_device()

    def adopt() -> None:
        torch.set_grad_enabled(gradients)
        for name, enabled, dtype in autocast:
            torch.set_autocast_enabled(name, enabled)
            torch.set_autocast_dtype(name, dtype)
        # The cache of cast weights belongs to the process and is emptied on leaving autocast, which
        # workers never do.
        torch.set_autocast_cache_enabled(False)
        if device.type != "cpu":
            device.__enter__()

    return adopt


def own_context() -> contextvars.Context:
    """Return a copy, for one worker, of this thread's context variables.
    The ``decimal`` context is copied too.
    """
    # NumPy's ``errstate`` is such a variable.
    context = contextvars.copy_context()
    if "decimal" in sys.modules:
        decimal = sys.modules["decimal"]
        context.run(lambda: decimal.setcontext(decimal.getcontext().copy()))
    return context
