"""Detection of harmless writes: those for which the order of the threads does not matter.

A method call on a container is harmless in two cases: the code does nothing with the container but
add entries, or nothing but take entries out and put them back. Any other write is harmless only if
all of the following is true:

- Each attribute or key gets an equal value at every write, and the value does not change
  afterwards. To check this, one thread loads the samples twice, the second time in reverse order.
- The value contains no open file, no lock and no object that cannot be compared.
- If the value is an item of a container, the code only uses single items: it does not iterate over
  the container, count items or remove items. The container has only one name, since its uses are
  found by name.
- The code assigns to no other target and uses no lock. Otherwise the value may be a flag that other
  data is ready.
- The value of an attribute or global variable is not a number, string, bytes, bool or None. The
  value of an item in a container is not a bool, integer or None. Such values may be flags for data
  that a library writes.
"""

import ast
import collections
import contextlib
import dis
import functools
import itertools
import linecache
import re
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeIs

import numpy as np
import torch

from ftloader.diagnosis.lookups import attributes_of, is_a
from ftsafety.audit.comparison import Frozen, freeze
from ftsafety.audit.file_positions import has_position
from ftsafety.audit.locks import is_lock
from ftsafety.audit.monitoring import Codes, events_in, monitoring
from ftsafety.audit.observer import Observed
from ftsafety.audit.pools import POOL
from ftsafety.audit.reachable import walk, with_several_names
from ftsafety.audit.report import SourceLine
from ftsafety.audit.serial import Serial
from ftsafety.audit.shared_writes import Write
from ftsafety.audit.writes import UNKNOWN, StoreInstruction, stores_in, tree_of

_LARGEST = 64 << 20
"""Largest size in bytes of all arrays together in a compared value."""
_LONGEST = 100_000
"""Largest number of elements of a container in a compared value."""
_FLAGS = (bool, int, float, str, bytes, type(None))
_FLAGS_OF_ITEMS = (bool, int, np.bool_, np.integer, type(None))
_SIZED = (list, tuple, dict, set)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_MEMBERSHIP = (ast.In, ast.NotIn)  # codespell:ignore notin
_OF_ITEMS = frozenset({"[]", "in", "get", "setdefault"})
"""Uses of a container that concern a single item."""
_ADDING = frozenset({"append", "appendleft", "add"})
_WHOLE_ITEMS = (dict, list, np.ndarray)
_INSTRUCTION = sys.monitoring.events.INSTRUCTION


class _Use(NamedTuple):
    """Use of a variable or attribute in a function."""

    function: ast.AST
    way: str
    """The name of the called method, "[]", "in", or "" for any other use."""


_Uses = dict[str, list[_Use]]
"""Uses by the name of an attribute (".name") or variable."""


def harmless(serial: Serial, codes: Codes, first: Observed, second: Observed) -> dict[Write, str]:
    """Return {harmless write: kind of the note that reports this write},
    for writes that both observations saw.
    """
    writes = first.writes & second.writes
    uses = _uses(codes)
    for name in with_several_names(serial.loads.dataset):
        uses.pop(name, None)
    lends_values = first.lends_values or second.lends_values
    notes = {}
    for write in writes:
        if _is_atomic(write, uses, lends_values):
            notes[write] = "atomic-calls"
    if _may_have_flag(writes, second):
        return notes
    candidates = {write for write in writes if _may_be_harmless(write, uses)}
    if candidates:
        for write in _with_same_value(serial, codes, candidates):
            notes[write] = "same-value"
    return notes


def _may_have_flag(writes: set[Write], observed: Observed) -> bool:
    """True if one of *writes* may be a flag that says that others are done."""
    if observed.has_locks or observed.locks:
        return True  # what is written under a lock may be the flag
    targets = set()
    for write in writes:
        if write.kind != "call" and not write.per_thread:
            targets.add(write.target)
    return len(targets) > 1


def _is_cache(uses: list[_Use]) -> bool:
    """True if the code only uses single items of the container."""
    return all(use.way in _OF_ITEMS for use in uses)


def _may_be_harmless(write: Write, uses: _Uses) -> bool:
    if write.kind not in ("checked", "item", "attribute", "global"):
        return False
    if not write.target.endswith("]"):
        return True
    container = _container(write.target)
    return container in uses and _is_cache(uses[container])


def _with_same_value(serial: Serial, codes: Codes, candidates: set[Write]) -> set[Write]:
    """Return those of *candidates* that write an equal value each time,
    in two passes in opposite orders.
    """
    passes = _Passes(serial, codes, candidates)
    equal: set[tuple[SourceLine, str]] = set()
    # A value of a user's class may raise anything when it is compared.
    with contextlib.suppress(Exception):
        for keys in (serial.loads.keys, serial.loads.keys[::-1]):
            serial.restore()
            serial.alone(functools.partial(passes.load, keys))
        equal = passes.equal()
    serial.restore()
    return {write for write in candidates if (write.line, write.target) in equal}


class _Location(NamedTuple):
    """Attribute, item or global variable that a line wrote."""

    name: tuple[SourceLine, str]
    """(line, target) of the write."""
    owner: Any
    """The object that was written into."""
    store: StoreInstruction
    key: Any

    def copy(self) -> Frozen | None:
        """Return a copy of the current value; None if it is too large or cannot be compared."""
        return _copy(_value(self.owner, self.store, self.key))


class _Passes:
    """Recorder of the values that are written while one thread loads samples.
    Used by one thread at a time.
    """

    def __init__(self, serial: Serial, codes: Codes, candidates: set[Write]) -> None:
        self._serial = serial
        self._names = {(write.line, write.target) for write in candidates}
        self._stores: dict[types.CodeType, dict[int, StoreInstruction]] = {}
        # Offsets of the instructions that follow a store.
        self._next: dict[types.CodeType, set[int]] = {}
        for code in codes:
            stores = self._candidates_in(code)
            if stores:
                self._stores[code] = stores
                self._next[code] = _offsets_after(code, stores)
        self._copies: dict[tuple, list[Frozen | None]] = collections.defaultdict(list)
        """Copies of written values, by ((line, target), id(owner), copy of the key)."""
        self._last: dict[tuple, _Location] = {}
        """The location of the last copy, by the same."""
        self._pending: tuple[types.FrameType, _Location] | None = None
        self._thread = 0

    def _candidates_in(self, code: types.CodeType) -> dict[int, StoreInstruction]:
        targets = set()
        for line, target in self._names:
            if line.filename == code.co_filename:
                targets.add(target)
        stores = {}
        for offset, store in stores_in(code).items():
            if store.target in targets:
                stores[offset] = store
        return stores

    def load(self, keys: list) -> None:
        """Load *keys* as one pass; copy each written value after its write, and once more at the
        end of the pass.
        """
        self._thread = threading.get_ident()
        with monitoring({_INSTRUCTION: self._on_instruction}) as tool:
            sys.monitoring.restart_events()
            with events_in(tool, set(self._stores), _INSTRUCTION):
                for key in keys:
                    self._serial.one(key)
        for identity, location in self._last.items():
            self._copies[identity].append(location.copy())

    def equal(self) -> set[tuple[SourceLine, str]]:
        """Return (line, target) of each write that ran in both passes
        and whose value was equal in all copies.
        """
        different = set()
        complete = set()
        for (name, *_), copies in self._copies.items():
            if copies[0] is None or copies.count(copies[0]) < len(copies):
                different.add(name)
            if len(copies) >= 4:  # when written, and at the end, of each of two passes
                complete.add(name)
        return complete - different

    def _on_instruction(self, code: types.CodeType, offset: int) -> Any:
        if threading.get_ident() != self._thread:
            return None
        frame = sys._getframe(1)
        if self._pending and self._pending[0] is frame:
            self._record(self._pending[1])
        self._pending = None
        store = self._stores[code].get(offset)
        if store is None:
            return None if offset in self._next[code] else sys.monitoring.DISABLE
        self._expect_value(frame, store)
        return None

    def _expect_value(self, frame: types.FrameType, store: StoreInstruction) -> None:
        """Have the value copied at the next instruction in *frame*, when it is written."""
        line = SourceLine(frame.f_code.co_filename, frame.f_lineno)
        name = (line, store.target)
        owner = store.receiver(frame)
        if name in self._names and owner is not UNKNOWN:
            key = store.key_value(frame)
            self._pending = frame, _Location(name, owner, store, key)

    def _record(self, location: _Location) -> None:
        # Keys that cannot be compared are in one group.
        identity = location.name, id(location.owner), _copy(location.key)
        self._copies[identity].append(location.copy())
        self._last[identity] = location


def _offsets_after(code: types.CodeType, stores: dict[int, StoreInstruction]) -> set[int]:
    offsets = set()
    for instruction, following in itertools.pairwise(dis.get_instructions(code)):
        if instruction.offset in stores:
            offsets.add(following.offset)
    return offsets


def _value(owner: Any, store: StoreInstruction, key: Any) -> Any:
    """Return the value that *store* wrote into *owner*; UNKNOWN if it may be a flag or reading may
    run user code.
    """
    if store.key is not None:
        return _item(owner, key)
    variables = owner if store.is_global else attributes_of(owner)
    name = store.target.rpartition(".")[2]
    value = variables.get(name, UNKNOWN)
    return UNKNOWN if is_a(value, _FLAGS) else value


def _item(owner: Any, key: Any) -> Any:
    if key is UNKNOWN or type(owner) not in _WHOLE_ITEMS:
        return UNKNOWN
    if type(owner) is not dict and type(key) is not int:
        return UNKNOWN
    with contextlib.suppress(Exception):
        value = owner[key]
        if not is_a(value, _FLAGS_OF_ITEMS):
            return value
    return UNKNOWN


def _copy(value: Any) -> Frozen | None:
    """Return a copy of *value* for comparison;
    None if *value* is too large or cannot be compared.
    """
    with contextlib.suppress(Exception):  # a user's container may raise anything
        if value is UNKNOWN:
            return None
        if is_a(value, np.memmap) and value.mode == "r":
            properties = str(value.filename), value.offset, value.dtype.str, value.shape
            return Frozen("memmap", properties)
        values = [node.value for node in walk(value)]
        if _is_small(values):
            copy = freeze(value)
            if _is_comparable(copy):
                return copy
    return None


def _is_small(values: list[Any]) -> bool:
    """True if *values* are small enough to compare, and neither files nor locks."""
    array_bytes = 0
    for value in values:
        if has_position(value) or is_lock(value):
            return False
        if is_a(value, (np.ndarray, torch.Tensor)):
            array_bytes += value.nbytes
        if is_a(value, _SIZED) and len(value) > _LONGEST:
            return False
    return array_bytes <= _LARGEST


def _is_comparable(copy: Frozen) -> bool:
    if copy.form in (("opaque",), ("pickled",)):
        return False
    return all(map(_is_comparable, copy.parts))


def _container(target: str) -> str:
    """Return the name of the container if *target* is an item:
    ".cache" for "self.cache[key]". Else return "".
    """
    tree = ast.parse(target, mode="eval").body
    if not isinstance(tree, ast.Subscript):
        return ""
    return _name(tree.value)


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f".{node.attr}"
    if isinstance(node, ast.Name):
        return node.id
    return ""


def _uses(codes: Codes) -> _Uses:
    """Return how the functions *codes* use each attribute (".name") and variable, by its name.

    ``__init__`` is left out.
    """
    first_lines: dict[str, set[int]] = collections.defaultdict(set)
    for code in codes:
        first_lines[code.co_filename].add(code.co_firstlineno)
    uses: _Uses = collections.defaultdict(list)
    for file, lines in first_lines.items():
        for function in _functions_in(file):
            if _first_line(function) in lines:
                for name, way in _uses_in(function):
                    uses[name].append(_Use(function, way))
    return uses


def _functions_in(file: str) -> Iterator[ast.AST]:
    """Yield the syntax trees of the functions in *file*, without ``__init__``."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, _FUNCTIONS) and getattr(node, "name", "") != "__init__":
            yield node


def _first_line(function: Any) -> int:
    """Return the first line of a function, or of its first decorator: co_firstlineno."""
    line = function.lineno
    for decorator in getattr(function, "decorator_list", ()):
        line = min(line, decorator.lineno)
    return line


def _uses_in(function: ast.AST) -> list[tuple[str, str]]:
    """Return (name, way) for each use of an attribute or variable in *function*,
    in the order of the lines.
    """
    ways: dict[int, str] = {}
    loads: list[tuple[int, int, str, str]] = []
    for node in ast.walk(function):
        operand, way = _operand(node)
        if operand is not None:
            ways[id(operand)] = way
        if isinstance(node, (ast.Attribute, ast.Name)):
            if isinstance(node.ctx, ast.Load):
                column = node.end_col_offset or 0
                way = ways.get(id(node), "")
                loads.append((node.lineno, column, _name(node), way))
    loads.sort()
    return [(name, way) for _, _, name, way in loads]


def _operand(node: ast.AST) -> tuple[ast.AST | None, str]:
    """Return (expression, way) for an expression that *node* uses; (None, "") if it uses none in
    such a way.
    """
    if isinstance(node, ast.Subscript):
        return node.value, "[]"
    if _is_membership_test(node):
        return node.comparators[0], "in"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value, node.func.attr
    return None, ""


def _is_membership_test(node: ast.AST) -> TypeIs[ast.Compare]:
    return (
        isinstance(node, ast.Compare)
        and len(node.ops) == 1
        and isinstance(node.ops[0], _MEMBERSHIP)
    )


def _is_atomic(write: Write, uses: _Uses, lends_values: bool) -> bool:
    """True if *write* calls a method of a container that is a pool,
    or to which code only adds entries.

    A pool is a container from which one function takes entries out and puts them back, and whose
    entries do not affect the samples. If *lends_values*, they may: then no container is a pool.
    """
    if write.kind != "call":
        return False
    _, _, method = write.target.rpartition(".")
    calls = re.compile(rf"(\.\w+)\.{method.rstrip('()')}\(")
    names = calls.findall(linecache.getline(*write.line))
    if len(names) != 1 or names[0] not in uses:
        return False
    uses_of_container = uses[names[0]]
    ways = [use.way for use in uses_of_container]
    if _ADDING.issuperset(ways):
        return True
    if lends_values or not POOL.issuperset(ways):
        return False
    return _is_pool(uses_of_container)


def _is_pool(uses: list[_Use]) -> bool:
    """True if one function takes entries, then puts them back.

    Else the container may be a stack, from which threads take what others put.
    """
    functions = {use.function for use in uses}
    if len(functions) > 1:
        return False
    takes = [use.way.startswith("pop") for use in uses]
    in_order = takes == sorted(takes, reverse=True)
    return in_order and takes[0] and not takes[-1]
