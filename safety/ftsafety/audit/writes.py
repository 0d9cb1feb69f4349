"""The bytecode instructions of a function that write into objects,
and the objects that they write into.

``sys.monitoring`` reports the instruction. The instruction's position in the source is used to find
the written target in the syntax tree.
"""

import ast
import contextlib
import dis
import linecache
import threading
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

_STORES = {
    "STORE_ATTR",
    "STORE_SUBSCR",
    "DELETE_ATTR",
    "DELETE_SUBSCR",
    "STORE_SLICE",
    "STORE_GLOBAL",
}
_TARGETS = (ast.Attribute, ast.Subscript, ast.Name)
_THREAD_NUMBERS = ("get_ident", "current_thread", "get_native_id")
UNKNOWN = object()


@dataclass(frozen=True)
class StoreInstruction:
    """Instruction that writes into an object."""

    target: str
    """The target as in the source: "self.count"."""
    kind: str
    """As `shared_writes.Write.kind`: "augmented" for ``+=`` and other operators that read, compute
    and write; "checked" if a test around the write, or just before it, reads the same target."""
    owner: types.CodeType | None = None
    """The expression of the object that is written into;
    None if evaluating it may have side effects.
    """
    key: types.CodeType | None = None
    key_text: str = ""
    is_global: bool = False

    def receiver(self, frame: types.FrameType) -> Any:
        """Return the object that is written into, as evaluated in *frame*;
        UNKNOWN if it cannot be evaluated.
        """
        return frame.f_globals if self.is_global else _evaluate(self.owner, frame)

    def key_value(self, frame: types.FrameType) -> Any:
        """Return the key of the written item, evaluated in *frame*;
        UNKNOWN if there is no key, or evaluation fails.
        """
        return _evaluate(self.key, frame)

    def is_of_thread(self, frame: types.FrameType) -> bool:
        """True if the key of the written item is the number of this thread, or contains it."""
        if any(name in self.key_text for name in _THREAD_NUMBERS):
            return True
        numbers = (threading.get_ident(), threading.get_native_id())
        key = self.key_value(frame)
        parts = key if type(key) is tuple else (key,)
        return any(type(part) is int and part in numbers for part in parts)


def _evaluate(code: types.CodeType | None, frame: types.FrameType) -> Any:
    if code is None:
        return UNKNOWN
    try:
        return eval(code, frame.f_globals, dict(frame.f_locals))
    except Exception:  # a user's property that raises, or a name that is gone
        return UNKNOWN


def stores_in(code: types.CodeType) -> dict[int, StoreInstruction]:
    """Return the writing instructions of *code*, by offset. Without its source, only writes to
    globals are found.
    """
    # Instructions are matched to nodes of the tree by the position where the target ends,
    # in UTF-8 bytes.
    by_end = {}
    for node, target in _targets(code.co_filename):
        by_end[node.end_lineno, node.end_col_offset] = target
    stores = {}
    for instruction in dis.get_instructions(code):
        positions = instruction.positions
        if instruction.opname not in _STORES or positions is None:
            continue
        store: StoreInstruction | None = by_end.get(
            (positions.end_lineno, positions.end_col_offset)
        )
        if instruction.opname == "STORE_GLOBAL":
            store = _store_of_global(instruction.argval, store)
        if store is not None:
            stores[instruction.offset] = store
    return stores


def _store_of_global(name: str, store: StoreInstruction | None) -> StoreInstruction:
    """Return the write to the global variable *name*. *store*:
    that of its target, if the source is known.
    """
    if store is not None and store.kind == "augmented":
        return StoreInstruction(name, "augmented", is_global=True)
    return StoreInstruction(name, "global", is_global=True)


@cache
def tree_of(filename: str) -> ast.Module:
    """Return the syntax tree of a file; an empty one if its source cannot be read."""
    with contextlib.suppress(SyntaxError, ValueError):
        return ast.parse("".join(linecache.getlines(filename)))
    return ast.Module([], [])


@cache
def _targets(filename: str) -> list[tuple[ast.expr, StoreInstruction]]:
    visitor = _Visitor()
    visitor.visit(tree_of(filename))
    return visitor.targets


class _Visitor(ast.NodeVisitor):
    """Visitor that collects the targets of writes.

    `_tests`: conditions that may guard the current node,
    of the `if` statements around it or in its function's body.
    """

    def __init__(self) -> None:
        self.targets: list[tuple[ast.expr, StoreInstruction]] = []
        self._tests: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer, self._tests = self._tests, []
        # A test with an early return counts for what follows it: `if k in cache: return cache[k]`.
        for statement in node.body:
            if isinstance(statement, ast.If):
                self._tests.append(ast.unparse(statement.test))
        self.generic_visit(node)
        self._tests = outer

    def visit_If(self, node: ast.If) -> None:
        self._tests.append(ast.unparse(node.test))
        self.generic_visit(node)
        self._tests.pop()

    def visit_Try(self, node: ast.Try) -> None:
        # `try: return self.cache[k]` / `except KeyError: self.cache[k] = ...` checks too.
        self._tests.append("".join(ast.unparse(statement) for statement in node.body))
        self.generic_visit(node)
        self._tests.pop()

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add(node.target, augmented=True)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute | ast.Subscript | ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._add(node)
        self.generic_visit(node)

    visit_Subscript = visit_Name = visit_Attribute

    def _add(self, node: ast.expr, augmented: bool = False) -> None:
        if not isinstance(node, _TARGETS):
            return
        if any(node is target for target, _ in self.targets[-50:]):
            return
        kind = "augmented" if augmented else self._kind(node)
        text = ast.unparse(node)
        if isinstance(node, ast.Name):
            store = StoreInstruction(text, kind)
        elif isinstance(node, ast.Attribute):
            store = StoreInstruction(text, kind, _pure(node.value))
        else:
            key = node.slice
            store = StoreInstruction(text, kind, _pure(node.value), _pure(key), ast.unparse(key))
        self.targets.append((node, store))

    def _kind(self, node: ast.Attribute | ast.Subscript | ast.Name) -> str:
        """Return the `StoreInstruction.kind` of a target without an operator such as ``+=``."""
        if self._reads_itself(node):
            return "augmented"
        kind = "attribute"
        container = ast.unparse(node)
        if isinstance(node, ast.Subscript):
            kind = "item"
            container = ast.unparse(node.value)
        if any(container in test for test in self._tests):
            return "checked"
        return kind

    _assignment: ast.Assign | None = None

    def visit_Assign(self, node: ast.Assign) -> None:
        outer, self._assignment = self._assignment, node
        self.generic_visit(node)
        self._assignment = outer

    def _reads_itself(self, node: ast.Attribute | ast.Subscript | ast.Name) -> bool:
        """True if *node* is the target of an assignment whose right side reads it, as in ``self.n =
        self.n + 1``.
        """
        assignment = self._assignment
        if assignment is None or node not in assignment.targets:
            return False
        if isinstance(assignment.value, (ast.BoolOp, ast.IfExp)):
            return False  # `self.file = self.file or open(...)` is a test
        texts = map(ast.unparse, _loads(assignment.value, type(node)))
        return ast.unparse(node) in texts

    visit_AsyncFunctionDef = visit_FunctionDef


def _loads(expression: ast.expr, kind: Any) -> Iterator[ast.expr]:
    """Yield the parts of *expression* that are of *kind* and are read."""
    for part in ast.walk(expression):
        if isinstance(part, kind) and isinstance(part.ctx, ast.Load):
            yield part


def _pure(node: ast.expr) -> types.CodeType | None:
    """Return the compiled expression *node*; None
    if evaluating it a second time may have side effects.
    """
    allowed = (
        ast.Name,
        ast.Attribute,
        ast.Subscript,
        ast.Constant,
        ast.Load,
        ast.Tuple,
        ast.UnaryOp,
        ast.USub,
    )
    if not all(isinstance(part, allowed) for part in ast.walk(node)):
        return None
    return compile(ast.Expression(node), "<audit>", "eval")
