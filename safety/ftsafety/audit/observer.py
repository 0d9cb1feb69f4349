"""Observation of the dataset's code: the lines that write to shared objects,
move file positions or call libraries.

One thread loads samples, and after it another thread loads the same samples. If both write to an
object, the threads share it. Only one thread loads at a time, so a lock that is held is held by
that thread.

Three recorders keep what is seen: of writes (shared_writes), of file positions (moved_files), and
of the objects that samples take out of shared containers (lent_objects).
"""

import contextlib
import functools
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

from ftloader.diagnosis.lookups import is_a
from ftsafety.audit.calls import ObjectChange, call_of
from ftsafety.audit.draws import Draw, recording_draws, reporting_calls
from ftsafety.audit.file_positions import has_position, of_object
from ftsafety.audit.lent_objects import PoolRecorder
from ftsafety.audit.locks import Guards, is_lock
from ftsafety.audit.monitoring import Codes, events_in, monitoring
from ftsafety.audit.moved_files import Move, MoveRecorder
from ftsafety.audit.places import definition
from ftsafety.audit.pools import POOL
from ftsafety.audit.reachable import Node
from ftsafety.audit.report import SourceLine
from ftsafety.audit.samples import attempt, thread
from ftsafety.audit.shared_writes import Write, WriteRecorder, Written
from ftsafety.audit.writes import UNKNOWN, StoreInstruction, stores_in

TURNS = 2

_EVENTS = sys.monitoring.events


@dataclass(frozen=True)
class Observed:
    """Writes, moves of file positions, draws and library calls that one observation saw."""

    writes: set[Write]
    moves: set[Move]
    draws: set[Draw]
    libraries: dict[str, SourceLine]
    """By top-level package that the dataset's lines call:
    the first line that calls this package.
    """
    locks: set[SourceLine]
    """Lines that write while their thread holds a lock."""
    has_locks: bool
    """True if the dataset refers to a lock of its own."""
    lends_values: bool
    """True if samples may depend on entries that threads took out of a shared container: the
    entries contain arrays or containers, or are numbers or strings, or are assigned to no local
    variable at once."""
    instructions: int
    """Number of instructions that the interpreter reported."""


class Observations(NamedTuple):
    """Two observations of one dataset, and the objects that the dataset refers to."""

    first: Observed
    second: Observed
    nodes: list[Node]


class Observer:
    """Observer of a dataset from which two threads load in turns. Makes one observation.

    Owned by one thread.
    """

    def __init__(
        self, dataset: Any, load: Callable[[Any, int], Any], codes: Codes, nodes: list[Node]
    ) -> None:
        """Prepare an observation.

        Args:
            dataset: the dataset.
            load: called with a key and the number of a thread, loads a sample.
            codes: the dataset's functions.
            nodes: the dataset and what it refers to.
        """
        values = [node.value for node in nodes]
        locks = [value for value in values if is_lock(value)]
        self._load = load
        self._codes = codes
        self._definition = definition(dataset)
        self._stores: dict[types.CodeType, dict[int, StoreInstruction]] = {}
        for code in codes:
            self._stores[code] = stores_in(code)
        self._threads: set[int] = set()  # others are threads that the dataset started itself
        self._instructions = 0
        self._libraries: dict[str, SourceLine] = {}
        self._has_locks = bool(locks)
        self._guards = Guards(locks, codes)
        self._writes = WriteRecorder(values)
        self._moves = MoveRecorder([value for value in values if has_position(value)])
        self._pools = PoolRecorder(dataset)

    def observe(self, keys: list) -> Observed:
        """Load *keys* in one thread, then in another,
        and once more so for the draws; return what was seen.

        The draws are not observed together with the rest, since CPython 3.13 may lose events if two
        tools monitor the same code.
        """
        self._observe_lines(keys)
        return Observed(
            writes=self._writes.writes(),
            moves=self._moves.moves(),
            draws=self._observe_draws(keys),
            libraries=self._libraries,
            locks=self._writes.guarded_lines,
            has_locks=self._has_locks,
            lends_values=self._pools.lends_values,
            instructions=self._instructions,
        )

    def _observe_lines(self, keys: list) -> None:
        callbacks: dict[int, Callable] = {
            _EVENTS.INSTRUCTION: self._on_instruction,
            _EVENTS.CALL: self._on_call,
        }
        with monitoring(callbacks) as tool:
            sys.monitoring.restart_events()
            with events_in(tool, self._codes, _EVENTS.INSTRUCTION | _EVENTS.CALL):
                _take_turns(keys, self._loading, self._watched_load)

    def _observe_draws(self, keys: list) -> set[Draw]:
        draws: set[Draw] = set()
        with reporting_calls():
            _take_turns(keys, lambda: recording_draws(draws), self._load)
        return draws

    @contextlib.contextmanager
    def _loading(self) -> Iterator[None]:
        self._threads.add(threading.get_ident())
        self._writes.start_thread()
        self._moves.start_thread()
        yield

    def _watched_load(self, key: Any, number: int) -> None:
        self._guards.start_sample()
        self._moves.start_sample(self._definition)
        try:
            self._writes.end_sample(self._load(key, number))
        finally:
            self._moves.end_sample(self._definition, self._pools.lent)
            self._writes.forget_lent()
            self._pools.end_sample()

    # The callbacks run in the thread whose turn it is. The other thread waits.

    def _on_instruction(self, code: types.CodeType, offset: int) -> Any:
        self._instructions += 1
        store = self._stores.get(code, {}).get(offset)
        if store is None:
            return sys.monitoring.DISABLE
        frame = sys._getframe(1)
        receiver = store.receiver(frame)
        if receiver is not UNKNOWN:
            per_thread = is_a(receiver, threading.local) or store.is_of_thread(frame)
            self._record(frame, ObjectChange(receiver, store.target, store.kind, per_thread))
        return None

    def _on_call(self, code: types.CodeType, offset: int, function: Any, argument: Any) -> None:
        if threading.get_ident() in self._threads:
            with contextlib.suppress(Exception):  # would be raised in the dataset
                self._take_up_call(sys._getframe(1), function, argument)

    def _take_up_call(self, frame: types.FrameType, function: Any, argument: Any) -> None:
        line = SourceLine(frame.f_code.co_filename, frame.f_lineno)
        self._pools.settle()
        call = call_of(function, argument)
        file = of_object(call.subject())
        # A ZipFile that is read holds its own lock around each seek
        # and read (Lib/zipfile, _SharedFile).
        guarded = call.reads_archive() or self._guards.hold(frame)
        self._moves.next_call(line, guarded, has_position(file), self._pools.lent)
        if module := call.module():
            self._libraries.setdefault(module, line)
        for change in call.changes():
            self._record(frame, change)
        if call.method in POOL and self._writes.is_shared(call.receiver):
            self._pools.next_call(frame, call.receiver, call.method)
        self._moves.watch(file)

    def _record(self, frame: types.FrameType, change: ObjectChange) -> None:
        if threading.get_ident() not in self._threads:
            return
        self._pools.settle()
        receiver = change.receiver
        if receiver is frame.f_globals:
            self._writes.share(receiver)
        line = SourceLine(frame.f_code.co_filename, frame.f_lineno)
        write = Write(line, change.target, change.kind, change.per_thread)
        written = Written(
            value=receiver,
            shared_as=self._pools.shared_as(receiver),
            write=write,
            guarded=self._guards.hold(frame),
        )
        is_lent = id(receiver) in self._pools.lent
        self._writes.record(written, is_lent)


def _take_turns(
    keys: list, around: Callable[[], AbstractContextManager], load: Callable[[Any, int], Any]
) -> None:
    """Load *keys* in one thread, then in another. Both stay alive until the end,
    so that their ids differ.
    """
    finished = [threading.Event() for _ in range(TURNS)]
    leave = threading.Event()

    def run(number: int) -> None:
        try:
            with around():
                for key in keys:
                    attempt(functools.partial(load, key, number))
        finally:
            finished[number].set()
            leave.wait()  # so that the next thread cannot reuse this one's ids

    threads = [thread(f"audit-turn-{number}", run, number) for number in range(TURNS)]
    try:
        for turn, event in zip(threads, finished, strict=True):
            turn.start()
            event.wait()
    finally:
        leave.set()
    for turn in threads:
        turn.join()
