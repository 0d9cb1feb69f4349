"""The JSON schema (draft 7) of results.json, made of the classes of ftbench.document.model.

`python -m ftbench.document.schema` prints it.
"""

import json
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from ftbench.document.model import OPTIONAL, Results

TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}


def schema() -> dict:
    """The JSON schema of results.json; classes are its definitions, by their names."""
    definitions: dict[str, dict] = {}
    _of(Results, definitions)
    top = definitions.pop(Results.__name__)
    return {"$schema": "http://json-schema.org/draft-07/schema#", **top, "definitions": definitions}


def _of(kind: Any, definitions: dict[str, dict]) -> dict:
    """The schema of a type; the classes that it mentions are added to the definitions."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        found = _of(arguments[0], definitions)
        for said in kind.__metadata__:
            found |= {"description": said} if isinstance(said, str) else said
        return found
    if origin is Literal:
        return {"enum": [*arguments]}
    if origin is list:
        return {"type": "array", "items": _of(arguments[0], definitions)}
    if origin is dict:
        names, values = (_of(argument, definitions) for argument in arguments)
        return {"type": "object", "propertyNames": names, "additionalProperties": values}
    if origin in (Union, UnionType):
        found = _of(arguments[0], definitions)
        if "$ref" in found:
            return {"oneOf": [{"type": "null"}, found]}
        return {**found, "type": [found["type"], "null"]}
    if kind in TYPES:
        return {"type": TYPES[kind]}
    if kind.__name__ not in definitions:
        fields = get_type_hints(kind, include_extras=True)
        definitions[kind.__name__] = {
            **({"description": kind.__doc__} if kind.__doc__ else {}),
            "type": "object",
            "additionalProperties": False,
            "required": [n.rstrip("_") for n, of in fields.items() if OPTIONAL not in getattr(of, "__metadata__", ())],
            "properties": {name.rstrip("_"): _of(of, definitions) for name, of in fields.items()},
        }
    return {"$ref": f"#/definitions/{kind.__name__}"}


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
