"""Collection of exceptions that Python prints and ignores: in ``__del__`` and callbacks, or at the
end of a thread.
"""

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
    """Context manager: collect ignored exceptions of all threads. Only the first of each type and
    place is printed.

    Replaces sys.unraisablehook and threading.excepthook. At the end, the previous hooks are
    restored, except where the block has set another hook: that hook stays.
    """
    # There is no lock, since a hook may interrupt another one of its thread.
    exceptions: list[Raised] = []
    # Describing an exception takes time, which a flood of them would multiply.
    by_place: dict[tuple, Raised] = {}

    ended = False

    def take(hook: Callable[[Any], Any], args: Any) -> None:
        if ended:
            hook(args)
            return
        if args.exc_type is SystemExit:  # a thread may end itself by it
            return
        frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(args.exc_traceback)]
        place = args.exc_type, *frames[-1:]
        if place not in by_place:
            exception = _described(args)
            if by_place.setdefault(place, exception) is exception:
                hook(args)
        exceptions.append(by_place[place])

    hooks = sys.unraisablehook, threading.excepthook
    collectors = [functools.partial(take, hook) for hook in hooks]
    sys.unraisablehook, threading.excepthook = collectors
    try:
        yield exceptions
    finally:
        ended = True
        if sys.unraisablehook is collectors[0]:
            sys.unraisablehook = hooks[0]
        if threading.excepthook is collectors[1]:
            threading.excepthook = hooks[1]


def _described(args: Any) -> Raised:
    """Return a copy of the exception in *args*, a hook's argument. Its `line` is the innermost line
    of user code.
    """
    error = args.exc_value if args.exc_value is not None else args.exc_type()
    frames = traceback.extract_tb(args.exc_traceback)
    place = "a function without lines"
    if frames:
        place = f"{frames[-1].filename}:{frames[-1].lineno}"
    return dataclasses.replace(raised(error, traceback.extract_stack()), ignored=place)
