"""Dataclasses to JSON, back, and their JSON schema (draft 7)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

OPTIONAL: dict[str, Any] = {}
"""Marks a field, by Annotated, whose key is left out if its value is None."""

TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the annotations of a dataclass's fields, Annotated included."""
    hints = get_type_hints(kind, include_extras=True)
    return {each.name: hints[each.name] for each in fields(kind)}


def _optional(hint: Any) -> bool:
    return any(each is OPTIONAL for each in getattr(hint, "__metadata__", ()))


def as_json(value: Any) -> Any:
    """Return *value* as dicts, lists and scalars; a field `from_` becomes the key "from"."""
    if is_dataclass(value):
        found = {}
        for name, hint in _hints(value.__class__).items():
            part = getattr(value, name)
            if part is not None or not _optional(hint):
                found[name.rstrip("_")] = as_json(part)
        return found
    if isinstance(value, Mapping):
        return {key: as_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(part) for part in value]
    return value


def from_json(kind: Any, value: Any) -> Any:
    """Return *value*, which fits the schema of *kind*, as an object of that type; raises OverflowError."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return from_json(arguments[0], value)
    if value is None:
        return None
    if origin in (Union, UnionType):
        return from_json(arguments[0], value)
    if origin is list:
        return [from_json(arguments[0], part) for part in value]
    if origin is dict:
        return {key: from_json(arguments[1], part) for key, part in value.items()}
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        found = {name: (hint, name.rstrip("_")) for name, hint in hints.items() if name.rstrip("_") in value}
        return kind(**{name: from_json(hint, value[key]) for name, (hint, key) in found.items()})
    if kind is float:
        float(value)  # an integer that no float holds could not be printed
    return kind(value) if isinstance(kind, type) and issubclass(kind, StrEnum) else value


def schema(kind: type) -> dict:
    """Return the JSON schema of a dataclass; the dataclasses that it mentions are its definitions."""
    definitions: dict[str, dict] = {}
    _schema(kind, definitions)
    top = definitions.pop(kind.__name__)
    return {"$schema": "http://json-schema.org/draft-07/schema#", **top, "definitions": definitions}


def _schema(kind: Any, definitions: dict[str, dict]) -> dict:
    """Return the schema of a type, and add the dataclasses that it mentions to the definitions."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        found = _schema(arguments[0], definitions)
        for each in kind.__metadata__:
            found |= {"description": each} if isinstance(each, str) else each
        return found
    if kind is Any:
        return {}
    if origin is Literal:
        return {"enum": [*arguments]}
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin is dict:
        names, values = (_schema(argument, definitions) for argument in arguments)
        return {"type": "object", "propertyNames": names, "additionalProperties": values}
    if origin in (Union, UnionType):
        found = _schema(arguments[0], definitions)
        if "$ref" in found:
            return {"oneOf": [{"type": "null"}, found]}
        return {**found, "type": [found["type"], "null"]}
    if kind in TYPES:
        return {"type": TYPES[kind]}
    if issubclass(kind, StrEnum):
        return {"enum": [each.value for each in kind]}
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = {}  # of a class that mentions itself
        hints = _hints(kind)
        definitions[kind.__name__] = {
            **({"description": kind.__doc__} if kind.__doc__ else {}),
            "type": "object",
            "additionalProperties": False,
            "required": [name.rstrip("_") for name, hint in hints.items() if not _optional(hint)],
            "properties": {name.rstrip("_"): _schema(hint, definitions) for name, hint in hints.items()},
        }
    return {"$ref": f"#/definitions/{kind.__name__}"}
