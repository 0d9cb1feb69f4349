"""Calls that the dataset's lines make, as ``sys.monitoring`` reports them."""

import collections
import functools
import itertools
import sys
import threading
import types
import weakref
import zipfile
from typing import Any, NamedTuple

import numpy as np
import torch

from ftloader.diagnosis.lookups import is_a

# Methods that change a container, by its type. dict.setdefault is atomic, so it is left out.
_MUTATORS: dict[type, frozenset[str]] = {
    list: frozenset({"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"}),
    dict: frozenset({"update", "pop", "popitem", "clear", "move_to_end"}),
    set: frozenset({"add", "discard", "remove", "pop", "clear", "update"}),
    collections.deque: frozenset(
        {"append", "appendleft", "pop", "popleft", "clear", "extend", "rotate"}
    ),
    bytearray: frozenset({"append", "extend", "pop", "clear", "insert", "remove"}),
    np.ndarray: frozenset({"fill", "sort", "resize", "put", "partition", "itemset", "setfield"}),
}


class ObjectChange(NamedTuple):
    """Change of an object by a call. `target` and `kind` are those of `shared_writes.Write`."""

    receiver: Any
    target: str
    kind: str
    per_thread: bool = False


class Call(NamedTuple):
    """Call of *function*(*argument*, ...); of a method,
    also its object and name, else None and "".
    """

    function: Any
    argument: Any
    receiver: Any
    method: str

    def subject(self) -> Any:
        """Return the object whose method is called, or the first argument."""
        return self.argument if self.receiver is None else self.receiver

    def reads_archive(self) -> bool:
        """True if a method of a ZipFile or of one of its members is called."""
        return is_a(self.receiver, (zipfile.ZipFile, zipfile.ZipExtFile))

    def module(self) -> str:
        """Return the top-level package that the called object is from; "" if that is unknown."""
        owner = self.function if self.receiver is None else type(self.receiver)
        if isinstance(owner, weakref.ProxyTypes):
            return ""
        try:
            module = getattr(owner, "__module__", None)
        except Exception:  # a user's __getattr__ may do anything
            return ""
        return module.partition(".")[0].lstrip("_") if isinstance(module, str) else ""

    def changes(self) -> list[ObjectChange]:
        """Return the changes that the call makes to an object, which it names in words."""
        argument = self.argument
        receiver = self.receiver
        method = self.method
        if self.function is next and is_a(argument, itertools.cycle):
            return [ObjectChange(argument, "an itertools.cycle", "cycle")]
        if self.function is setattr:
            per_thread = is_a(argument, threading.local)
            return [ObjectChange(argument, "an attribute by setattr()", "attribute", per_thread)]
        if is_a(receiver, torch.Tensor):
            if _changes_tensor(method):
                return [ObjectChange(receiver, f"a tensor by .{method}()", "call")]
            return []
        return _changes_of_container(receiver, method)


def call_of(function: Any, argument: Any) -> Call:
    """Return the call of *function*(*argument*, ...), with the object and name of a method."""
    receiver, method = _method(function, argument)
    return Call(function, argument, receiver, method)


def _method(function: Any, argument: Any) -> tuple[Any, str]:
    while type(function) is functools.partial:
        function = function.func
    if isinstance(function, (types.BuiltinMethodType, types.MethodType)):
        receiver = function.__self__
        if isinstance(receiver, types.ModuleType):
            return None, ""
        return receiver, function.__name__
    if _is_method_of(function, argument):
        return argument, function.__name__
    return None, ""


def _is_method_of(function: Any, argument: Any) -> bool:
    """True if *function* is a method, as taken from a class,
    that is called with the object *argument*.
    """
    if isinstance(function, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return True
    if not isinstance(function, types.FunctionType) or argument is sys.monitoring.MISSING:
        return False
    return function.__name__ in dir(type(argument))


def _changes_of_container(receiver: Any, method: str) -> list[ObjectChange]:
    changes = []
    for kind, methods in _MUTATORS.items():
        if is_a(receiver, kind) and method in methods:
            changes.append(ObjectChange(receiver, f"a {kind.__name__} by .{method}()", "call"))
    return changes


def _changes_tensor(method: str) -> bool:
    in_place = method.endswith("_") and not method.startswith("_")
    return in_place and method != "requires_grad_"
