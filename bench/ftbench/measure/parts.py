"""Parts of a user's dataset: the attributes that threads of a process share and may fight over.

Also those of the datasets that it wraps (Subset, ConcatDataset), and what its transforms and its
collate_fn hold: attributes of an object, variables in the closure of a function.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from typing import Any

MOST_DEPTH = 4
"""Attributes of attributes that are parts: ``dataset.transform.transforms.0`` has four names."""
LONGEST_LIST = 40
"""Datasets or transforms of a list that are looked into."""


def parts_of(dataset: Any, collate: Any) -> dict[str, Any]:
    """Return the parts by name, such as ``vocabulary``, ``dataset.words``, ``collate_fn.padding``;
    those with the fewest names first.
    """
    parts: dict[str, Any] = {}
    holders = deque([((), dataset), (("collate_fn",), collate)])
    visited: dict[int, Any] = {}
    while holders:
        path, holder = holders.popleft()
        holder = _without_method(holder)
        if id(holder) in visited:
            continue
        visited[id(holder)] = holder
        for name, value in _members(holder).items():
            longer = (*path, name)
            if len(longer) < MOST_DEPTH and _is_holder(value):
                holders.append((longer, value))
            elif _is_counted(value):
                parts[".".join(longer)] = value
    return parts


def _without_method(value: Any) -> Any:
    """Return the object that *value* is a method of, or *value* itself."""
    return value.__self__ if isinstance(value, types.MethodType) else value


def _members(value: Any) -> dict[str, Any]:
    """Return the objects that *value* refers to, by name."""
    kind = type(value)
    if issubclass(kind, type):
        return {}
    if kind is functools.partial:
        return {**_numbered((value.func, *value.args)), **value.keywords}
    if kind in (list, tuple):
        return _numbered(value)
    if kind is types.FunctionType:
        return _closure(value)
    return _attributes(value)


def _numbered(values: Any) -> dict[str, Any]:
    return {str(number): value for number, value in enumerate(values)}


def _closure(function: types.FunctionType) -> dict[str, Any]:
    variables = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            variables[name] = cell.cell_contents
        except ValueError:  # nothing is in it yet
            continue
    return variables


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes in ``__dict__`` and ``__slots__``. Runs no code of *value*."""
    from ftloader.diagnosis.lookups import attributes_of

    attributes = attributes_of(value).copy()
    for cls in type(value).__mro__:
        for name, member in vars(cls).items():
            if type(member) is not types.MemberDescriptorType:
                continue
            try:
                attributes[name] = member.__get__(value)
            except AttributeError:  # not set
                continue
    return attributes


def _is_holder(value: Any) -> bool:
    """True if the members of *value* are parts, in place of *value*."""
    try:
        return _holds_parts(value)
    except RecursionError:  # a list in itself
        return False


def _holds_parts(value: Any) -> bool:
    """True for a dataset, a transform, a function with a closure, or a list of these."""
    import torch
    from torch.utils.data import Dataset

    kind = type(value)
    if kind in (list, tuple):
        return bool(value) and len(value) <= LONGEST_LIST and all(map(_holds_parts, value))
    if issubclass(kind, Dataset):
        return True
    if not callable(value) or issubclass(kind, (type, torch.nn.Module)):
        return False
    return isinstance(value, types.MethodType) or bool(_members(value))


def _is_counted(value: Any) -> bool:
    """True if the interpreter counts references to *value*: no function, class, module, small
    integer, None, True or False.
    """
    if value is None or isinstance(value, (bool, type, types.FunctionType, types.ModuleType)):
        return False
    if isinstance(value, types.BuiltinFunctionType):  # or a method of a C type
        return not isinstance(value.__self__, (types.ModuleType, types.NoneType))
    return not (isinstance(value, int) and -5 <= value <= 256)
