"""Functions that look something up in a user's object only to tell or to warn: none raises, whatever the object does.

torch would not have asked. Lazy objects and dead proxies answer ``isinstance``, which asks for ``__class__``, with an
exception; a ``__getattr__`` may raise ``KeyError``.
"""

from typing import Any


def optional(value: Any, name: str, default: Any = None) -> Any:
    """Return the attribute *name* of *value*; *default* if it has none, or looking it up raises an ``Exception``."""
    try:
        return getattr(value, name, default)
    except Exception:
        return default


def is_a(value: Any, classes: type | tuple[type, ...]) -> bool:
    """Return True if the class of *value* is one of *classes* or a subclass. Unlike isinstance, never asks *value*."""
    return issubclass(type(value), classes)


def attributes_of(value: Any) -> dict[str, Any]:
    """Return a copy of the ``__dict__`` of *value*, made in one step; {} if it has none."""
    try:
        return dict(object.__getattribute__(value, "__dict__"))
    except Exception:
        return {}
