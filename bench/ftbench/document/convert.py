"""Conversion of dataclasses to JSON and back, and their JSON schema (draft 7)."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import asdict, fields, is_dataclass
from enum import StrEnum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

OPTIONAL = {
    "ranks",
    "start_method",
    "condition_seconds",
    "turn_loads",
    "turns_left_out",
    "machine_id",
    "further",
    "command",
}
"""JSON keys that may be missing; they are left out if their value is None or empty."""

INLINE = {"throughput", "change"}
"""Fields whose dataclass has no JSON object of its own:
its keys are among those of the object that has the field.
"""

TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    """Return {JSON key: annotation} for the fields of a dataclass;
    a field `from_` has the key "from".
    """
    hints = get_type_hints(kind, include_extras=True)
    return {field.name.rstrip("_"): hints[field.name] for field in fields(kind)}


def as_json(value: Any) -> dict:
    """Convert a dataclass object to dicts, lists and scalars, for JSON."""
    return asdict(value, dict_factory=_as_object)


def _as_object(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the JSON object of a dataclass object with these (field name, converted value)."""
    keys: dict[str, Any] = {}
    for name, part in items:
        if name in INLINE:
            keys |= part
        elif part or name not in OPTIONAL:
            keys[name.rstrip("_")] = part
    return keys


def from_json(kind: Any, value: Any) -> Any:
    """Convert a JSON *value* to an object of the type *kind*.
    The value must fit the schema of this type.

    Ignores keys that are not fields, like a trial's "note". Raises OverflowError for an integer too
    large for a float.
    """
    origin = get_origin(kind)
    arguments = get_args(kind)
    if value is None:
        return None
    if origin in (Annotated, Union, UnionType):
        return from_json(arguments[0], value)
    if origin is list:
        return [from_json(arguments[0], part) for part in value]
    if origin is dict:
        return {key: from_json(arguments[1], part) for key, part in value.items()}
    if is_dataclass(kind):
        return _from_object(kind, value)
    if kind is float:
        float(value)  # an integer that no float holds could not be printed
    return kind(value) if isinstance(kind, type) and issubclass(kind, StrEnum) else value


def _from_object(kind: Any, value: dict[str, Any]) -> Any:
    """Convert a JSON object to a dataclass object of the type *kind*."""
    hints = _hints(kind)
    arguments: dict[str, Any] = {}
    for field in fields(kind):
        key = field.name.rstrip("_")
        if key in INLINE:
            arguments[key] = from_json(hints[key], value)
        elif key in value:
            arguments[field.name] = from_json(hints[key], value[key])
    return kind(**arguments)


def schema(kind: Any) -> dict:
    """Return the JSON schema of a type. A dataclass's schema contains the schemas of its fields."""
    origin = get_origin(kind)
    arguments = get_args(kind)
    if origin is Annotated:
        return _annotated(schema(arguments[0]), kind.__metadata__)
    if origin is Literal:
        return {"enum": [*arguments]}
    if origin is list:
        return {"type": "array", "items": schema(arguments[0])}
    if origin is dict:
        names, values = map(schema, arguments)
        return {"type": "object", "propertyNames": names, "additionalProperties": values}
    if origin in (Union, UnionType):
        form = schema(arguments[0])
        return {**form, "type": [form["type"], "null"]}
    if kind is Any:
        return {}
    if kind in TYPES:
        return {"type": TYPES[kind]}
    return {"enum": [*map(str, kind)]} if issubclass(kind, StrEnum) else _schema_of_class(kind)


def _annotated(form: dict, annotations: tuple[str | dict, ...]) -> dict:
    """Return a schema with the bounds (dicts) and the meaning (a string) of a field."""
    for annotation in annotations:
        form |= {"description": annotation} if isinstance(annotation, str) else annotation
    return form


def _schema_of_class(kind: type) -> dict:
    """Return the JSON schema of a dataclass."""
    properties: dict[str, dict] = {}
    for key, hint in _hints(kind).items():
        form = schema(hint)
        properties |= form["properties"] if key in INLINE else {key: form}
    return {
        "description": kind.__doc__,
        "type": "object",
        "required": [key for key in properties if key not in OPTIONAL],
        "properties": properties,
    }
