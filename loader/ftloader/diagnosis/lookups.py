"""Functions that look something up in a user's object only to tell or to warn: none raises,
whatever the object does.

torch would not have asked. Lazy objects and dead proxies answer ``isinstance``, which asks for
``__class__``, with an exception; a ``__getattr__`` may raise ``KeyError``.
"""

import contextlib
import types
from typing import Any


def optional(value: Any, name: str, default: Any = None) -> Any:
    """Return the attribute *name* of *value*; *default* if it has none,
    or looking it up raises an ``Exception``.
    """
    try:
        return getattr(value, name, default)
    except Exception:
        return default


def is_a(value: Any, classes: type | tuple[type, ...]) -> bool:
    """Return True if the class of *value* is one of *classes* or a subclass. Unlike isinstance,
    never asks *value*.
    """
    return issubclass(type(value), classes)


def attributes_of(value: Any) -> dict[str, Any]:
    """Return the ``__dict__`` of *value* itself, which other threads may change; {} if it has none.

    A property that a user's class has under this name is not called.
    """
    with contextlib.suppress(Exception):  # of a metaclass
        for cls in type.__getattribute__(type(value), "__mro__"):
            member = type.__getattribute__(cls, "__dict__").get("__dict__")
            if type(member) in (types.GetSetDescriptorType, types.MemberDescriptorType):
                attributes = member.__get__(value)
                return attributes if type(attributes) is dict else {}
    return {}
