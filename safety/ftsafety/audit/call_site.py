"""The line of user code behind a call, for findings of draws from global random generators."""

import types

from ftloader.diagnosis.call_site import Origin, origin_of
from ftsafety.audit.report import Line


def find_call_site(frame: types.FrameType) -> tuple[Line, str | None]:
    """Return the line behind a call made in *frame*, which may be in a library.

    That is the innermost line that is not part of an installed package. If ftloader's code comes before any such line,
    it is the innermost line outside of random, NumPy and torch. Also returns the name of the function of random, NumPy
    or torch in which the call was made, if any.
    """
    called = None
    outside: types.FrameType | None = None  # the first frame outside of random, NumPy and torch
    current: types.FrameType | None = frame
    while current is not None:
        origin = origin_of(current.f_code.co_filename)
        if origin is Origin.USER:
            return Line(current.f_code.co_filename, current.f_lineno), called
        if outside is not None:
            if origin is Origin.ENGINE:
                break
        elif origin is Origin.GENERATOR:
            called = _function_name(current) or called
        elif origin is Origin.INSTALLED:
            outside = current
        current = current.f_back
    found = outside or frame
    return Line(found.f_code.co_filename, found.f_lineno), called


def _function_name(frame: types.FrameType) -> str | None:
    module = frame.f_globals.get("__name__", "")
    if module.startswith(("torch._compile", "torch._dynamo")):
        return None  # importing torch._dynamo wraps torch.manual_seed
    # random.randint is a method of a hidden instance of random.Random.
    name = frame.f_code.co_qualname.removeprefix("Random.")
    return f"{module}.{name}"
