"""Detection of harmless writes: those for which the order of the threads does not matter.

A method call on a container is harmless in two cases: the code does nothing with the container but add entries, or
nothing but take entries out and put them back. Any other write is harmless only if all of the following is true:

- Each attribute or key gets an equal value at every write, and the value does not change afterwards. To check this, one
  thread loads the samples twice, the second time in reverse order.
- The value contains no open file, no lock and no object that cannot be compared.
- If the value is an item of a container, the code only uses single items: it does not iterate over the container, count
  items or remove items. The container has only one name, since its uses are found by name.
- The code assigns to no other target and uses no lock. Otherwise the value may be a flag that other data is ready.
- The value of an attribute or global variable is not a number, string, bytes, bool or None. The value of an item in a
  container is not a bool, integer or None. Such values may be flags for data that a library writes.
"""

import ast
import collections
import contextlib
import dis
import functools
import linecache
import re
import sys
import threading
import types
from typing import Any

import numpy as np
import torch

from ftloader.diagnosis.lookups import attributes_of, is_a
from ftsafety.audit.comparison import Frozen, freeze
from ftsafety.audit.file_positions import has_position
from ftsafety.audit.locks import is_lock
from ftsafety.audit.monitoring import events_in, monitoring
from ftsafety.audit.observer import Observed
from ftsafety.audit.pools import POOL
from ftsafety.audit.reachable import walk, with_several_names
from ftsafety.audit.report import Line
from ftsafety.audit.serial import Serial
from ftsafety.audit.shared_writes import Write
from ftsafety.audit.writes import UNKNOWN, Store, stores_in, tree_of

_LARGEST = 64 << 20
"""Largest size in bytes of all arrays together in a compared value."""
_LONGEST = 100_000
"""Largest number of elements of a container in a compared value."""
_FLAGS = (bool, int, float, str, bytes, type(None))
_FLAGS_OF_ITEMS = (bool, int, np.bool_, np.integer, type(None))
_SIZED = (list, tuple, dict, set)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_MEMBERSHIP = (ast.In, ast.NotIn)  # codespell:ignore notin
_WHOLE_ITEMS = (dict, list, np.ndarray)
_INSTRUCTION = sys.monitoring.events.INSTRUCTION


def harmless(serial: Serial, codes: set[types.CodeType], first: Observed, second: Observed) -> dict[Write, str]:
    """Return {harmless write: kind of the note that reports this write}, for writes that both observations saw."""
    writes, several = first.writes & second.writes, with_several_names(serial.loads.dataset)
    uses = {name: ways for name, ways in _uses(codes).items() if name not in several}
    lends_values = first.lends_values or second.lends_values
    notes = {write: "atomic-calls" for write in writes if _is_atomic(write, uses, lends_values)}
    others = {write.target for write in writes if write.kind != "call" and not write.per_thread}
    if len(others) > 1 or second.has_locks or second.locks:  # what is written under a lock may be the flag
        return notes
    items = {"[]", "in", "get", "setdefault"}
    caches = {name for name, ways in uses.items() if items.issuperset(use for _, use in ways)}
    candidates = {
        write
        for write in writes
        if write.kind in ("checked", "item", "attribute", "global")
        and (not write.target.endswith("]") or _container(write.target) in caches)
    }
    if candidates:
        passes = _Passes(serial, codes, candidates)
        with contextlib.suppress(Exception):  # a value of a user's class may raise anything when it is compared
            for keys in (serial.loads.keys, serial.loads.keys[::-1]):
                serial.snapshot.restore()
                serial.alone(functools.partial(passes.load, keys))
            shown = passes.shown()
            notes |= {write: "same-value" for write in candidates if (write.line, write.target) in shown}
        serial.snapshot.restore()
    return notes


class _Passes:
    """Recorder of the values that are written while one thread loads samples. Used by one thread at a time."""

    def __init__(self, serial: Serial, codes: set[types.CodeType], candidates: set[Write]) -> None:
        self._serial = serial
        self._names = {(write.line, write.target) for write in candidates}
        targets = {(line.filename, target) for line, target in self._names}
        self._stores: dict[types.CodeType, dict[int, Store]] = {}
        self._next: dict[types.CodeType, set[int]] = {}  # offsets of the instructions that follow a store
        for code in codes:
            stores = {at: store for at, store in stores_in(code).items() if (code.co_filename, store.target) in targets}
            if stores:
                offsets = [instruction.offset for instruction in dis.get_instructions(code)]
                self._stores[code] = stores
                self._next[code] = {after for before, after in zip(offsets, offsets[1:]) if before in stores}
        self._written: dict[tuple, list[tuple[Any, Store, Any, Frozen | None]]] = collections.defaultdict(list)
        """Lists of (owner, store, key, copy of the written value), by ((line, target), id(owner), copy of the key)."""
        self._pending: tuple | None = None
        self._thread = 0

    def load(self, keys: list) -> None:
        """Load *keys* as one pass; copy each written value after its write, and once more at the end of the pass."""
        self._thread = threading.get_ident()
        with monitoring({_INSTRUCTION: self._on_instruction}) as tool:
            sys.monitoring.restart_events()
            with events_in(tool, set(self._stores), _INSTRUCTION):
                for key in keys:
                    self._serial.one(key)
        for values in self._written.values():
            owner, store, key, _ = values[-1]
            values.append((owner, store, key, _copy(_value(owner, store, key))))

    def shown(self) -> set[tuple[Line, str]]:
        """Return (line, target) of each write that ran in both passes and whose value was equal in all copies."""
        bad, good = set(), set()
        for (name, *_), values in self._written.items():
            copies = [copy for *_, copy in values]
            if copies[0] is None or any(copy != copies[0] for copy in copies):
                bad.add(name)
            if len(copies) >= 4:  # when written, and at the end, of each of two passes
                good.add(name)
        return good - bad

    def _on_instruction(self, code: types.CodeType, offset: int) -> Any:
        if threading.get_ident() != self._thread:
            return None
        frame = sys._getframe(1)
        if self._pending and self._pending[0] is frame:
            _, name, owner, store, key = self._pending
            # Keys that cannot be compared are in one group.
            self._written[name, id(owner), _copy(key)].append((owner, store, key, _copy(_value(owner, store, key))))
        self._pending = None
        store = self._stores[code].get(offset)
        if store is None:
            return None if offset in self._next[code] else sys.monitoring.DISABLE
        name = (Line(code.co_filename, frame.f_lineno), store.target)
        owner = store.receiver(frame)
        if name in self._names and owner is not UNKNOWN:
            self._pending = frame, name, owner, store, store.key_value(frame)
        return None


def _value(owner: Any, store: Store, key: Any) -> Any:
    """Return the value that *store* wrote into *owner*; UNKNOWN if it may be a flag or reading may run user code."""
    if store.key is None:
        value = (owner if store.is_global else attributes_of(owner)).get(store.target.rpartition(".")[2], UNKNOWN)
        return UNKNOWN if is_a(value, _FLAGS) else value
    if key is UNKNOWN or type(owner) not in _WHOLE_ITEMS or (type(owner) is not dict and type(key) is not int):
        return UNKNOWN
    with contextlib.suppress(Exception):
        return UNKNOWN if is_a(owner[key], _FLAGS_OF_ITEMS) else owner[key]
    return UNKNOWN


def _copy(value: Any) -> Frozen | None:
    """Return a copy of *value* for comparison; None if *value* is too large or cannot be compared."""
    with contextlib.suppress(Exception):  # a user's container may raise anything
        if value is UNKNOWN:
            return None
        if is_a(value, np.memmap) and value.mode == "r":
            return Frozen("memmap", (str(value.filename), value.offset, value.dtype.str, value.shape))
        values = [node.value for node in walk(value)]
        if any(has_position(each) or is_lock(each) for each in values):
            return None
        if sum(each.nbytes for each in values if is_a(each, (np.ndarray, torch.Tensor))) > _LARGEST:
            return None
        if any(is_a(each, _SIZED) and len(each) > _LONGEST for each in values):
            return None
        copy = freeze(value)
        return copy if _is_comparable(copy) else None
    return None


def _is_comparable(copy: Frozen) -> bool:
    return copy.form not in (("opaque",), ("pickled",)) and all(map(_is_comparable, copy.parts))


def _container(target: str) -> str:
    """Return the name of the container if *target* is an item: ".cache" for "self.cache[key]". Else return ""."""
    tree = ast.parse(target, mode="eval").body
    return _name(tree.value) if isinstance(tree, ast.Subscript) else ""


def _name(node: ast.AST) -> str:
    return f".{node.attr}" if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _uses(codes: set[types.CodeType]) -> dict[str, list[tuple[ast.AST, str]]]:
    """Return how the functions *codes* use each attribute (".name") and variable: {name: [(function, use), ...]}.

    A use is the name of the called method, "[]", "in", or "" for any other use. ``__init__`` is left out.
    """
    firsts = {(code.co_filename, code.co_firstlineno) for code in codes}
    uses: dict[str, list[tuple[ast.AST, str]]] = collections.defaultdict(list)
    for file in {file for file, _ in firsts}:
        for function in ast.walk(tree_of(file)):
            if isinstance(function, _FUNCTIONS) and getattr(function, "name", "") != "__init__":
                first = min([function.lineno, *(each.lineno for each in getattr(function, "decorator_list", ()))])
                for name, use in _uses_in(function) if (file, first) in firsts else ():
                    uses[name].append((function, use))
    return uses


def _uses_in(function: ast.AST) -> list[tuple[str, str]]:
    """Return (name, use) for each use of an attribute or variable in *function*, in the order of the lines."""
    uses: dict[int, str] = {}
    loads: list[tuple[int, int, str, str]] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript):
            uses[id(node.value)] = "[]"
        elif isinstance(node, ast.Compare) and isinstance(node.ops[-1], _MEMBERSHIP) and len(node.ops) == 1:
            uses[id(node.comparators[0])] = "in"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            uses[id(node.func.value)] = node.func.attr
        if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
            loads.append((node.lineno, node.end_col_offset or 0, _name(node), uses.get(id(node), "")))
    return [(name, use) for *_, name, use in sorted(loads)]


def _is_atomic(write: Write, uses: dict[str, list[tuple[ast.AST, str]]], lends_values: bool) -> bool:
    """True if *write* calls a method of a container that is a pool, or to which code only adds entries.

    A pool is a container from which one function takes entries out and puts them back, and whose entries do not affect
    the samples. If *lends_values*, they may: then no container is a pool.
    """
    method = write.target.rpartition(".")[2].rstrip("()")
    names = re.findall(rf"(\.\w+)\.{method}\(", linecache.getline(*write.line))
    if write.kind != "call" or len(names) != 1 or names[0] not in uses:
        return False
    functions, ways = zip(*uses[names[0]])
    if {"append", "appendleft", "add"}.issuperset(ways):
        return True
    # In one function, which takes, then puts back: else it may be a stack, from which threads take what others put.
    takes = [way.startswith("pop") for way in ways]
    in_order = takes[0] and not takes[-1] and takes == sorted(takes, reverse=True)
    return POOL.issuperset(ways) and len({*functions}) == 1 and in_order and not lends_values
