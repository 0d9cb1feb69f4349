"""Observation of the dataset's code: the lines that write to shared objects, move file positions or call libraries.

One thread loads samples, and after it another thread loads the same samples. If both write to an object, the threads
share it. Only one thread loads at a time, so a lock that is held is held by that thread.
"""

import collections
import contextlib
import dis
import functools
import itertools
import sys
import threading
import types
import weakref
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from ftloader.diagnosis.lookups import attributes_of, is_a
from ftsafety.audit import file_positions
from ftsafety.audit.draws import Draw, recording, watching
from ftsafety.audit.monitoring import events_in, monitoring
from ftsafety.audit.pools import BUFFERS, POOL, assigned, is_part, is_value
from ftsafety.audit.reachable import Node, is_held, is_lock, variables_of, walk
from ftsafety.audit.report import Line
from ftsafety.audit.samples import attempt, thread
from ftsafety.audit.writes import UNKNOWN, Store, stores_in

TURNS = 2

_MUTATORS: dict[type, frozenset[str]] = {
    list: frozenset({"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"}),
    dict: frozenset({"update", "pop", "popitem", "clear", "move_to_end"}),  # not setdefault, which is atomic
    set: frozenset({"add", "discard", "remove", "pop", "clear", "update"}),
    collections.deque: frozenset({"append", "appendleft", "pop", "popleft", "clear", "extend", "rotate"}),
    bytearray: frozenset({"append", "extend", "pop", "clear", "insert", "remove"}),
    np.ndarray: frozenset({"fill", "sort", "resize", "put", "partition", "itemset", "setfield"}),
}
_EVENTS = sys.monitoring.events


class Write(NamedTuple):
    """Line that writes into an object shared by threads."""

    line: Line
    target: str
    kind: str
    """"augmented", "checked", "item", "attribute", "call", "cycle" or "global"."""
    per_thread: bool
    """True if only one thread reads what is written: a threading.local, or a key that is the thread's number."""


class Move(NamedTuple):
    """Line of user code that changes the position in an open file, such as a call of ``seek()`` or ``read()``."""

    line: Line
    file: str
    direct: bool
    """True if the line calls a method of the file, False if it calls a library, which may have a lock of its own."""


@dataclass
class Observed:
    """Writes, moves of file positions, draws and library calls that one observation saw."""

    writes: set[Write] = field(default_factory=set)
    moves: set[Move] = field(default_factory=set)
    draws: set[Draw] = field(default_factory=set)
    libraries: dict[str, Line] = field(default_factory=dict)
    """By top-level package that the dataset's lines call: the first line that calls this package."""
    locks: set[Line] = field(default_factory=set)
    """Lines that write while their thread holds a lock."""
    has_locks: bool = False
    """True if the dataset refers to a lock of its own."""
    lends_values: bool = False
    """True if samples may depend on entries that threads took out of a shared container: the entries contain arrays or
    containers, or are numbers or strings, or are assigned to no local variable at once."""
    instructions: int = 0
    """Number of instructions that the interpreter reported."""


class _Turn:
    """Record of one thread's writes and moves of file positions. Other threads read it after this thread's end."""

    def __init__(self) -> None:
        self.touched: dict[int, Any] = {}  # keeps the objects alive, so that ids stay unique
        self.records: list[tuple[int, Write, bool]] = []
        self.moves: dict[file_positions.OpenFile, list[tuple[Line, bool, bool]]] = {}
        # By id and descriptor, what was taken out of a shared container and not put back, so is this thread's alone;
        # and the id of that container.
        self.lent: dict[int, tuple[Any, int]] = {}
        self.alone: list[tuple[Any, Write, bool]] = []  # writes to such objects, by the current sample
        # A container from which the last call takes an object, the frame that gets it, its variables, and their names.
        self.taking: tuple[Any, types.FrameType, dict[str, Any], list[str]] | None = None
        self.others: set[int] = set()  # ids of what else threads share, found once for each sample and class
        self.classes: set[int] = set()  # ids of the classes whose variables are among these


class Observer:
    """Observer of a dataset from which two threads load in turns. Makes one observation. Owned by one thread."""

    def __init__(
        self, dataset: Any, load: Callable[[Any, int], Any], codes: set[types.CodeType], nodes: list[Node]
    ) -> None:
        self._dataset, self._load, self._codes, self._place = dataset, load, codes, definition(dataset)
        self._stores: dict[types.CodeType, dict[int, Store]] = {code: stores_in(code) for code in codes}
        self._shared = {id(node.value): node.value for node in nodes}
        self._files = [node.value for node in nodes if file_positions.has_position(node.value)]
        self._locks = [node.value for node in nodes if is_lock(node.value)]
        self._turns: dict[int, _Turn] = {}  # by thread
        self._last: tuple[Line, bool, dict, bool] | None = None
        self._open_before: set[file_positions.OpenFile] = set()
        self._held_before: set[int] = set()  # ids of locks held before the sample, so by other threads
        self._pools: set[int] = set()  # ids of containers from which samples take objects
        self._pooled: dict[int, tuple[Any, Any]] = {}  # by id, the taken objects and their containers
        self.seen = Observed(has_locks=bool(self._locks))

    def observe(self, keys: list) -> Observed:
        """Load *keys* in one thread, then in another; return the writes, library calls and moves of file positions.

        Both threads stay alive until the end, so that their ids differ.
        """
        callbacks: dict[int, Callable] = {_EVENTS.INSTRUCTION: self._on_instruction, _EVENTS.CALL: self._on_call}
        with monitoring(callbacks) as tool:
            sys.monitoring.restart_events()
            with events_in(tool, self._codes, _EVENTS.INSTRUCTION | _EVENTS.CALL):
                self._take_turns(keys, contextlib.nullcontext, self._watched_load)
        self._conclude()
        return self.seen

    def observe_draws(self, keys: list) -> None:
        """Load *keys* in one thread, then in another; add the draws from global generators to ``seen.draws``.

        Not part of `observe`, since CPython 3.13 may lose events if two tools monitor the same code.
        """
        with watching():
            self._take_turns(keys, lambda: recording(self.seen.draws), self._load)

    def _take_turns(self, keys: list, around: Callable, load: Callable[[Any, int], Any]) -> None:
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

        threads = [thread(f"audit-turn-{n}", run, n) for n in range(TURNS)]
        try:
            for each, event in zip(threads, finished, strict=True):
                each.start()
                event.wait()
        finally:
            leave.set()
        for each in threads:
            each.join()

    def _watched_load(self, key: Any, number: int) -> None:
        turn = self._turns.setdefault(threading.get_ident(), _Turn())
        self._held_before = {id(lock) for lock in self._locks if is_held(lock)}
        before = file_positions.positions(self._files)
        self._open_before = set(before)
        self._last = (self._place, True, before, False)
        try:
            sample = self._load(key, number)
            for record in turn.alone:  # of a buffer that is in the sample, which others use while it is looked at
                if is_a(record[0], BUFFERS) and is_part(record[0], sample):
                    self._add(turn, *record)
        finally:
            self._look_at_files(self._place, True)
            self._last = turn.taking = None
            turn.lent.clear()
            turn.alone.clear()
            turn.others.clear()
            turn.classes.clear()

    # The callbacks run in the thread whose turn it is. The other thread waits.

    def _on_instruction(self, code: types.CodeType, offset: int) -> Any:
        self.seen.instructions += 1
        store = self._stores.get(code, {}).get(offset)
        if store is None:
            return sys.monitoring.DISABLE
        frame = sys._getframe(1)
        receiver = store.receiver(frame)
        if receiver is not UNKNOWN:
            own = is_a(receiver, threading.local) or _is_this_thread(store.key_value(frame), store.key_text)
            self._record(frame, receiver, store.target, store.kind, own)
        return None

    def _on_call(self, code: types.CodeType, offset: int, function: Any, argument: Any) -> None:
        if threading.get_ident() in self._turns:  # else it is a thread that the dataset started itself
            with contextlib.suppress(Exception):  # would be raised in the dataset
                self._take_up_call(sys._getframe(1), function, argument)

    def _take_up_call(self, frame: types.FrameType, function: Any, argument: Any) -> None:
        line, turn = Line(frame.f_code.co_filename, frame.f_lineno), self._turns[threading.get_ident()]
        self._settle(turn)
        receiver, name = _method(function, argument)
        inner = file_positions.of_object(receiver if receiver is not None else argument)
        # A ZipFile that is read holds its own lock around each seek and read (Lib/zipfile, _SharedFile).
        archive = is_a(receiver, (zipfile.ZipFile, zipfile.ZipExtFile))
        self._look_at_files(line, archive or self._guarded(frame), file_positions.has_position(inner))
        module = _module_of(function, receiver)
        if module:
            self.seen.libraries.setdefault(module, line)
        if function is next and is_a(argument, itertools.cycle):
            self._record(frame, argument, "an itertools.cycle", "cycle")
        elif function is setattr:
            own = is_a(argument, threading.local)
            self._record(frame, argument, "an attribute by setattr()", "attribute", per_thread=own)
        elif is_a(receiver, torch.Tensor):
            if name.endswith("_") and not name.startswith("_") and name != "requires_grad_":
                self._record(frame, receiver, f"a tensor by .{name}()", "call")
        else:
            for kind, names in _MUTATORS.items():
                if is_a(receiver, kind) and name in names:
                    self._record(frame, receiver, f"a {kind.__name__} by .{name}()", "call")
        if name in POOL and id(receiver) in self._shared:
            if name.startswith(("pop", "get")) and not is_a(receiver, dict):
                self._pools.add(id(receiver))
                user, variables = assigned(frame)
                turn.taking = receiver, user, dict(user.f_locals), variables
            else:  # no longer alone: what was taken from it, or all that was taken if it came from elsewhere
                kept = {key: held for key, held in turn.lent.items() if held[1] != id(receiver)}
                turn.lent = kept if len(kept) < len(turn.lent) or id(receiver) not in self._pools else {}
        if file_positions.has_position(inner) and not any(inner is known for known in self._files):
            self._files.append(inner)

    def _record(self, frame: types.FrameType, receiver: Any, target: str, kind: str, per_thread: bool = False) -> None:
        line = Line(frame.f_code.co_filename, frame.f_lineno)
        turn = self._turns.get(threading.get_ident())
        if turn is None:
            return  # a thread that the dataset started itself
        self._settle(turn)
        if receiver is frame.f_globals:
            self._shared[id(receiver)] = receiver
        guarded = self._guarded(frame)
        record = receiver, Write(line, target, kind, per_thread), guarded
        if id(receiver) in turn.lent:
            turn.alone.append(record)
            return
        if guarded:
            self.seen.locks.add(line)
        self._add(turn, *record)

    def _add(self, turn: _Turn, receiver: Any, write: Write, guarded: bool) -> None:
        # A SimpleQueue does not show its entries. What samples take out of it is shared as it is.
        _, receiver = self._pooled.get(id(receiver), (None, receiver))
        turn.touched[id(receiver)] = receiver
        turn.records.append((id(receiver), write, guarded))

    def _settle(self, turn: _Turn) -> None:
        """Record in *turn* the objects that the thread's previous call took out of a shared container, if any."""
        if turn.taking is None:
            return
        (pool, frame, before, names), turn.taking = turn.taking, None
        taken = [value for name in names if (value := frame.f_locals.get(name)) is not before.get(name)]
        values = [node.value for entry in taken for node in walk(entry)]
        unseen = not names or (taken and all(map(is_value, taken)))  # nothing was taken if the call raised
        self.seen.lends_values |= bool(unseen) or any(is_a(value, BUFFERS) for value in values)
        new = {id(cls): cls for cls in map(type, [self._dataset, *values]) if id(cls) not in turn.classes}
        turn.classes.update(new)
        roots = [*variables_of(new.values()), *(() if turn.others else (self._dataset, frame.f_globals))]
        turn.others.update(id(node.value) for root in roots for node in walk(root))
        for value in values:
            if id(value) not in turn.others:
                self._pooled[id(value)] = value, pool
                turn.lent[id(value)] = value, id(pool)
                with contextlib.suppress(Exception):  # no descriptor, or closed
                    turn.lent[value.fileno() if file_positions.has_position(value) else id(value)] = value, id(pool)

    def _look_at_files(self, line: Line, guarded: bool, direct: bool = False) -> None:
        """Record the file positions that have moved since the previous call of this method.

        Each move is recorded at the *line* of the previous call. The arguments of this call are kept for the next call.
        """
        if self._last is None:
            return
        where, under_lock, before, by_line = self._last
        after = file_positions.positions(self._files)
        turn = self._turns.get(threading.get_ident())
        if turn is not None:
            # A file opened for this sample belongs to the thread, though another file may get its descriptor later.
            moved = {file for file, position in after.items() if before.get(file, position) != position}
            moved = {file for file in moved if file.identity[1] not in turn.lent}
            for file in self._open_before & moved:
                turn.moves.setdefault(file, []).append((where, under_lock, by_line))
        self._last = (line, guarded, after, direct)

    def _guarded(self, frame: types.FrameType | None) -> bool:
        """True if this thread holds a lock of the dataset, or a lock in a variable of its running functions."""
        if any(id(lock) not in self._held_before and is_held(lock) for lock in self._locks):
            return True
        while frame is not None and frame.f_code in self._codes:
            # Attributes of self too: a lock may have been made after the observation began.
            for variables in (frame.f_locals, frame.f_globals, attributes_of(frame.f_locals.get("self"))):
                for value in list(variables.values()):
                    if is_lock(value) and id(value) not in self._held_before and is_held(value):
                        return True
            frame = frame.f_back
        return False

    def _conclude(self) -> None:
        turns = list(self._turns.values())
        for turn in turns:
            for identity, write, guarded in turn.records:
                shared = identity in self._shared or all(identity in other.touched for other in turns)
                if write.per_thread or (shared and not guarded):
                    self.seen.writes.add(write)
        files = [set(turn.moves) for turn in turns]
        for file in set.intersection(*files) if files else ():
            for turn in turns:
                for line, guarded, direct in turn.moves[file]:
                    if not guarded:
                        self.seen.moves.add(Move(line, file.name, direct))


def _method(function: Any, argument: Any) -> tuple[Any, str]:
    """Return (object, method name) if *function*(*argument*, ...) is the call of a method, else (None, "")."""
    while type(function) is functools.partial:
        function = function.func
    if isinstance(function, (types.BuiltinMethodType, types.MethodType)):
        receiver = function.__self__
        return (None, "") if isinstance(receiver, types.ModuleType) else (receiver, function.__name__)
    if isinstance(function, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return argument, function.__name__
    if isinstance(function, types.FunctionType) and argument is not sys.monitoring.MISSING:
        if function.__name__ in dir(type(argument)):
            return argument, function.__name__
    return None, ""


def _module_of(function: Any, receiver: Any) -> str:
    owner = type(receiver) if receiver is not None else function
    if isinstance(owner, weakref.ProxyTypes):
        return ""
    try:
        module = getattr(owner, "__module__", None)
    except Exception:  # a user's __getattr__ may do anything
        return ""
    return module.partition(".")[0].lstrip("_") if isinstance(module, str) else ""


def line_naming(codes: set[types.CodeType], attribute: str) -> Line | None:
    """Return the first line in the functions *codes* that reads *attribute*, or None. ``__init__`` is searched last."""
    for code in sorted(codes, key=lambda code: (code.co_name == "__init__", code.co_filename, code.co_firstlineno)):
        for instruction in dis.get_instructions(code):
            if instruction.opname.startswith("LOAD_ATTR") and instruction.argval == attribute:
                return Line(code.co_filename, instruction.line_number or 0)
    return None


def _is_this_thread(key: Any, text: str) -> bool:
    numbers = (threading.get_ident(), threading.get_native_id())
    if any(type(part) is int and part in numbers for part in (key if type(key) is tuple else (key,))):
        return True
    return any(name in text for name in ("get_ident", "current_thread", "get_native_id"))


def definition(dataset: Any) -> Line:
    """Return the line where *dataset* defines ``__getitem__`` or ``__iter__``, for findings that name no other line."""
    iterable = is_a(dataset, torch.utils.data.IterableDataset)
    torchs = sys.modules["torch.utils.data.dataset"].__file__
    for name in ("__iter__",) if iterable else ("__getitems__", "__getitem__"):
        code = getattr(getattr(type(dataset), name, None), "__code__", None)
        if code is not None and code.co_filename != torchs:
            return Line(code.co_filename, code.co_firstlineno)
    module = sys.modules.get(type(dataset).__module__)
    return Line(getattr(module, "__file__", None) or f"<{type(dataset).__qualname__}>", 1)
