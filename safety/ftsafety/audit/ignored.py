"""Collection of exceptions that Python prints and ignores: in ``__del__`` and callbacks, or at the end of a thread."""

import contextlib
import dataclasses
import functools
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from ftsafety.audit.comparison import Raised
from ftsafety.audit.samples import raised


@contextlib.contextmanager
def collecting() -> Iterator[list[Raised]]:
    """Context manager: collect ignored exceptions of all threads. Only the first of each type and place is printed.

    Replaces sys.unraisablehook and threading.excepthook. At the end, the previous hooks are restored, except where the
    block has set another hook: that hook stays.
    """
    found: list[Raised] = []  # there is no lock, since a hook may interrupt another one of its thread
    known: dict[tuple, Raised] = {}  # describing an exception takes time, which a flood of them would multiply

    ended = False

    def take(hook: Callable[[Any], Any], args: Any) -> None:
        if ended:
            hook(args)
            return
        if args.exc_type is SystemExit:  # a thread may end itself by it
            return
        frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(args.exc_traceback)]
        place = args.exc_type, *frames[-1:]
        if place not in known and known.setdefault(place, got := _described(args)) is got:
            hook(args)
        found.append(known[place])

    hooks = sys.unraisablehook, threading.excepthook
    own = [functools.partial(take, hook) for hook in hooks]
    sys.unraisablehook, threading.excepthook = own
    try:
        yield found
    finally:
        ended = True
        if sys.unraisablehook is own[0]:
            sys.unraisablehook = hooks[0]
        if threading.excepthook is own[1]:
            threading.excepthook = hooks[1]


def _described(args: Any) -> Raised:
    """Return a copy of the exception in *args*, a hook's argument. Its `line` is the innermost line of user code."""
    error = args.exc_value if args.exc_value is not None else args.exc_type()
    where = traceback.extract_tb(args.exc_traceback)
    place = f"{where[-1].filename}:{where[-1].lineno}" if where else "a function without lines"
    return dataclasses.replace(raised(error, traceback.extract_stack()), ignored=place)
