"""The line of user code behind a call, for reports of draws from global random generators."""

import types
from typing import Any, NamedTuple

from ftloader.diagnosis.call_site import Origin, origin_of


class CallSite(NamedTuple):
    """A line of code, and how it leads to a call."""

    filename: str
    lineno: int
    module: str
    registry: dict[Any, Any]
    """The module's ``__warningregistry__``."""
    drawn_at: str | None
    """"file:line" in an installed package through which the line leads to the draw, if any."""
    called: str | None
    """Name of the function of random, NumPy or torch in which the call was made, if any."""


def find_call_site(frame: types.FrameType) -> CallSite:
    """Return the line behind a call made in *frame*, which may be in a library.

    That is the innermost line that is not part of an installed package. If this package's code comes before any such
    line, it is the innermost line outside of random, NumPy and torch.
    """
    called = None
    drawing: types.FrameType | None = None  # the first outside of random, NumPy and torch
    current: types.FrameType | None = frame
    while current is not None:
        origin = origin_of(current.f_code.co_filename)
        if origin is Origin.USER:
            return _make(current, drawing or current, called)
        if drawing is not None:
            if origin is Origin.ENGINE:
                break
        elif origin is Origin.GENERATOR:
            called = _function_name(current) or called
        elif origin is Origin.INSTALLED:
            drawing = current
        current = current.f_back
    return _make(drawing or frame, drawing or frame, called)


def _make(frame: types.FrameType, drawing: types.FrameType, called: str | None) -> CallSite:
    drawn_at = None
    if frame is not drawing:
        drawn_at = f"{drawing.f_code.co_filename}:{drawing.f_lineno}"
    variables = frame.f_globals
    return CallSite(
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=variables.get("__name__", "<unknown>"),
        registry=variables.setdefault("__warningregistry__", {}),
        drawn_at=drawn_at,
        called=called,
    )


def _function_name(frame: types.FrameType) -> str | None:
    module = frame.f_globals.get("__name__", "")
    if module.startswith(("torch._compile", "torch._dynamo")):
        return None  # importing torch._dynamo wraps torch.manual_seed
    # random.randint is a method of a hidden instance of random.Random.
    name = frame.f_code.co_qualname.removeprefix("Random.")
    return f"{module}.{name}"
