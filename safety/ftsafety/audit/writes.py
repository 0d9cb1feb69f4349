"""The bytecode instructions of a function that write into objects, and the objects that they write into.

``sys.monitoring`` reports the instruction. The instruction's position in the source is used to find the written target
in the syntax tree.
"""

import ast
import contextlib
import dis
import linecache
import threading
import types
from dataclasses import dataclass
from functools import cache
from typing import Any

_STORES = {"STORE_ATTR", "STORE_SUBSCR", "DELETE_ATTR", "DELETE_SUBSCR", "STORE_SLICE", "STORE_GLOBAL"}
_TARGETS = (ast.Attribute, ast.Subscript, ast.Name)
_THREAD_NUMBERS = ("get_ident", "current_thread", "get_native_id")
UNKNOWN = object()


@dataclass(frozen=True)
class Store:
    """Instruction that writes into an object."""

    target: str
    """The target as in the source: "self.count"."""
    kind: str
    """As `shared_writes.Write.kind`: "augmented" for ``+=`` and other operators that read, compute and write; "checked"
    if a test around the write, or just before it, reads the same target."""
    owner: types.CodeType | None = None
    """The expression of the object that is written into; None if evaluating it may have side effects."""
    key: types.CodeType | None = None
    key_text: str = ""
    is_global: bool = False

    def receiver(self, frame: types.FrameType) -> Any:
        """Return the object that is written into, as evaluated in *frame*; UNKNOWN if it cannot be evaluated."""
        return frame.f_globals if self.is_global else _evaluate(self.owner, frame)

    def key_value(self, frame: types.FrameType) -> Any:
        """Return the key of the written item, evaluated in *frame*; UNKNOWN if there is no key, or evaluation fails."""
        return _evaluate(self.key, frame)

    def is_of_thread(self, frame: types.FrameType) -> bool:
        """True if the key of the written item is the number of this thread, or contains it."""
        key = self.key_value(frame)
        parts = key if type(key) is tuple else (key,)
        numbers = (threading.get_ident(), threading.get_native_id())
        if any(type(part) is int and part in numbers for part in parts):
            return True
        return any(name in self.key_text for name in _THREAD_NUMBERS)


def _evaluate(code: types.CodeType | None, frame: types.FrameType) -> Any:
    if code is None:
        return UNKNOWN
    try:
        return eval(code, frame.f_globals, dict(frame.f_locals))
    except Exception:  # a user's property that raises, or a name that is gone
        return UNKNOWN


def stores_in(code: types.CodeType) -> dict[int, Store]:
    """Return the writing instructions of *code*, by offset. Without its source, only writes to globals are found."""
    # Instructions are matched to nodes of the tree by the position where the target ends, in UTF-8 bytes.
    ends = {(node.end_lineno, node.end_col_offset): store for node, store in _targets(code.co_filename)}
    found = {}
    for instruction in dis.get_instructions(code):
        positions = instruction.positions
        if instruction.opname not in _STORES or positions is None:
            continue
        store = ends.get((positions.end_lineno, positions.end_col_offset))
        if instruction.opname == "STORE_GLOBAL":
            kind = "augmented" if store and store.kind == "augmented" else "global"
            found[instruction.offset] = Store(instruction.argval, kind, is_global=True)
        elif store is not None:
            found[instruction.offset] = store
    return found


@cache
def tree_of(filename: str) -> ast.Module:
    """Return the syntax tree of a file; an empty one if its source cannot be read."""
    with contextlib.suppress(SyntaxError, ValueError):
        return ast.parse("".join(linecache.getlines(filename)))
    return ast.Module([], [])


@cache
def _targets(filename: str) -> list[tuple[ast.expr, Store]]:
    visitor = _Visitor()
    visitor.visit(tree_of(filename))
    return visitor.found


class _Visitor(ast.NodeVisitor):
    """Visitor that collects the targets of writes.

    `_tests`: conditions that may guard the current node, of the `if` statements around it or in its function's body.
    """

    def __init__(self) -> None:
        self.found: list[tuple[ast.expr, Store]] = []
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
        if not isinstance(node, _TARGETS) or any(node is known for known, _ in self.found[-50:]):
            return
        key = node.slice if isinstance(node, ast.Subscript) else None
        compared = ast.unparse(node.value if isinstance(node, ast.Subscript) else node)
        kind = "attribute" if key is None else "item"
        if augmented or self._reads_itself(node):
            kind = "augmented"
        elif any(compared in test for test in self._tests):
            kind = "checked"
        owner = None if isinstance(node, ast.Name) else _pure(node.value)
        keys = (_pure(key), ast.unparse(key)) if key is not None else ()
        self.found.append((node, Store(ast.unparse(node), kind, owner, *keys)))

    _assignment: ast.Assign | None = None

    def visit_Assign(self, node: ast.Assign) -> None:
        outer, self._assignment = self._assignment, node
        self.generic_visit(node)
        self._assignment = outer

    def _reads_itself(self, node: ast.Attribute | ast.Subscript | ast.Name) -> bool:
        """True if *node* is the target of an assignment whose right side reads it, as in ``self.n = self.n + 1``."""
        assigned = self._assignment
        if assigned is None or node not in assigned.targets or isinstance(assigned.value, (ast.BoolOp, ast.IfExp)):
            return False  # `self.file = self.file or open(...)` is a test
        text = ast.unparse(node)
        return any(
            isinstance(part, type(node)) and isinstance(part.ctx, ast.Load) and ast.unparse(part) == text
            for part in ast.walk(assigned.value)
        )

    visit_AsyncFunctionDef = visit_FunctionDef


def _pure(node: ast.expr) -> types.CodeType | None:
    """Return the compiled expression *node*; None if evaluating it a second time may have side effects."""
    allowed = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Load, ast.Tuple, ast.UnaryOp, ast.USub)
    pure = all(isinstance(part, allowed) for part in ast.walk(node))
    return compile(ast.Expression(node), "<audit>", "eval") if pure else None
