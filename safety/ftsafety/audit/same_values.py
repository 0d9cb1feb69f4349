"""Detection of harmless writes: all threads write the same value, as into a cache, so the order does not matter.

A write counts as harmless only if all of these hold, in two passes over the samples in opposite orders:

- Each attribute or key gets an equal value at every write, and the value does not change afterwards.
- The value contains no file position, no lock and no object that cannot be compared.
- A container is used for single items only: no function that ran iterates over it, counts or removes items.
- Nothing else is written: no other attribute, global variable or container. For the value may be a flag for other data.
- The value of an attribute or global variable is not a number, string, bool or None; the value of a container's item is
  not a bool, integer or None. Such values may be flags for data that a library writes.
"""

import ast
import collections
import contextlib
import dis
import functools
import linecache
import sys
import threading
import types
from typing import Any

import numpy as np
import torch

from ftsafety.audit.comparison import Frozen, freeze
from ftsafety.audit.file_positions import has_position
from ftsafety.audit.monitoring import events_in, monitoring
from ftsafety.audit.observer import Write
from ftsafety.audit.reachable import attributes_of, is_a, is_lock, walk
from ftsafety.audit.report import Line
from ftsafety.audit.serial import AuditError, Serial
from ftsafety.audit.writes import UNKNOWN, Store, stores_in

_LARGEST = 64 << 20
"""Largest size in bytes of the arrays in a compared value."""
_LONGEST = 100_000
"""Largest number of elements of a container in a compared value."""
_FLAGS = (bool, int, float, str, bytes, type(None))
_FLAGS_OF_ITEMS = (bool, int, np.bool_, np.integer, type(None))
_SIZED = (list, tuple, dict, set)
_MEMBERSHIP = (ast.In, ast.NotIn)  # codespell:ignore notin
_WHOLE_ITEMS = (dict, list, np.ndarray)
_INSTRUCTION = sys.monitoring.events.INSTRUCTION


def harmless(serial: Serial, codes: set[types.CodeType], writes: set[Write]) -> set[Write]:
    """Return the harmless writes among *writes*."""
    if len({write.target for write in writes if write.kind != "call" and not write.per_thread}) > 1:
        return set()
    kinds = {write for write in writes if write.kind in ("checked", "item", "attribute", "global")}
    others = _other_uses(codes)
    candidates = {write for write in kinds if not write.target.endswith("]") or _container(write.target) not in others}
    if not candidates:
        return set()
    passes = _Passes(serial, codes, candidates)
    try:
        for keys in (serial.loads.keys, serial.loads.keys[::-1]):
            serial.snapshot.restore()
            serial.alone(functools.partial(passes.load, keys))
        shown = passes.shown()
    except AuditError:
        raise
    except Exception:  # a value of a user's class may raise anything when it is compared
        return set()
    finally:
        serial.snapshot.restore()
    return {write for write in candidates if (write.line, write.target) in shown}


class _Passes:
    """Recorder of the values that are written while one thread loads samples. Used by one thread at a time."""

    def __init__(self, serial: Serial, codes: set[types.CodeType], candidates: set[Write]) -> None:
        self._serial = serial
        self._names = {(write.line, write.target) for write in candidates}
        self._stores: dict[types.CodeType, dict[int, Store]] = {}
        self._next: dict[types.CodeType, set[int]] = {}  # offsets of the instructions that follow a store
        for code in codes:
            stores = {offset: store for offset, store in stores_in(code).items() if self._is_candidate(code, store)}
            if stores:
                offsets = [instruction.offset for instruction in dis.get_instructions(code)]
                self._stores[code] = stores
                self._next[code] = {after for before, after in zip(offsets, offsets[1:]) if before in stores}
        self._written: dict[tuple, list[tuple[Any, Store, Any, Frozen | None]]] = collections.defaultdict(list)
        """(owner, store, key, copy of the value) of each write, by (line, target) and the owner's and key's identity"""
        self._unknown: set[tuple[Line, str]] = set()
        """(line, target) of writes that could not be recorded"""
        self._pending: tuple | None = None
        self._thread = 0

    def _is_candidate(self, code: types.CodeType, store: Store) -> bool:
        return any(line.filename == code.co_filename and target == store.target for line, target in self._names)

    def load(self, keys: list) -> None:
        """Load *keys* and copy each written value twice: after its write, and at the end of the pass."""
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
        """Return (line, target) of each write whose copies are all equal and that ran in both passes."""
        bad, good = set(self._unknown), set()
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
            copy = _copy(_value(owner, store, key))
            try:
                identity = key if is_a(key, collections.abc.Hashable) else id(key)
                self._written[name, id(owner), identity].append((owner, store, key, copy))
            except Exception:  # of the __hash__ or __eq__ of a user's class
                self._unknown.add(name)
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
    """Return the value that *store* has written into *owner*; UNKNOWN if it is a possible flag or unsafe to read."""
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
    """Return the container part of a target: "self.cache" for "self.cache[key]"."""
    tree = ast.parse(target, mode="eval").body
    return ast.unparse(tree.value) if isinstance(tree, ast.Subscript) else target


def _other_uses(codes: set[types.CodeType]) -> set[str]:
    """Return the expressions in *codes* that are used as a whole, not only by ``x[key]``, ``in`` or ``get``."""
    firsts = collections.defaultdict(set)
    for code in codes:
        firsts[code.co_filename].add(code.co_firstlineno)
    found: set[str] = set()
    for file, lines in firsts.items():
        try:
            tree = ast.parse("".join(linecache.getlines(file)))
        except (SyntaxError, ValueError):
            continue
        for function in ast.walk(tree):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
                if first in lines and function.name != "__init__":
                    found.update(_uses_in(function))
    return found


def _uses_in(function: ast.AST) -> set[str]:
    single, all_uses = set(), {}
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript):
            single.add(id(node.value))
        elif isinstance(node, ast.Compare) and isinstance(node.ops[-1], _MEMBERSHIP) and len(node.ops) == 1:
            single.add(id(node.comparators[0]))
        elif isinstance(node, ast.Attribute) and node.attr in ("get", "setdefault"):
            single.add(id(node.value))
        if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
            all_uses[id(node)] = ast.unparse(node)
    return {text for identity, text in all_uses.items() if identity not in single}
