"""Functions for notes, messages and tracebacks of exceptions of any class,
even one that allows no changes.

An exception's class may override attributes and methods so that they raise. The consumer must still
get the dataset's own exception. So these functions use the attributes of ``BaseException`` itself,
and never raise.
"""

import contextlib
import traceback
from types import TracebackType
from typing import Any

_TRACEBACK: Any = vars(BaseException)["__traceback__"]
_CHAIN: Any = [vars(BaseException)[name] for name in ("__cause__", "__context__")]


def annotate(error: BaseException, note: str) -> None:
    """Add *note* (PEP 678) to *error*. Do nothing if *error* has
    that note already or cannot take notes.
    """
    with contextlib.suppress(Exception):
        if note not in notes_of(error):
            BaseException.add_note(error, note)  # one step: threads may share the exception
    with contextlib.suppress(Exception):
        if getattr(error, "__notes__", None) is None:  # the class refuses attributes
            object.__setattr__(error, "__notes__", [note])


def notes_of(error: BaseException) -> list[str]:
    """Return the notes (PEP 678) of *error* that are strings."""
    with contextlib.suppress(Exception):
        notes = getattr(error, "__notes__", None)
        if isinstance(notes, list):
            return [note for note in notes if isinstance(note, str)]
    return []


def text_of(error: BaseException) -> str:
    """Return ``"Type: message"``; ``"Type"`` if there is no message."""
    try:
        text = str(error)
    except Exception:
        text = "(its text could not be made)"
    return f"{type(error).__name__}: {text}".removesuffix(": ")


def format_error(error: BaseException) -> str:
    """Return what the interpreter prints for *error* if nothing catches it, without the notes."""
    try:
        lines = traceback.TracebackException(type(error), error, traceback_of(error))
        lines.__notes__ = None
        return "".join(lines.format())
    except Exception:
        return text_of(error) + "\n"


def traceback_of(error: BaseException) -> TracebackType | None:
    """Return ``error.__traceback__``, even if the class overrides it."""
    return _TRACEBACK.__get__(error)


def set_traceback[E: BaseException](error: E, entry: TracebackType | None) -> E:
    _TRACEBACK.__set__(error, entry)
    return error


def drop_first_frame(error: BaseException) -> None:
    set_traceback(error, traceback_of(error).tb_next)  # type: ignore[union-attr]  # it was raised


def drop_frames[E: BaseException](error: E) -> E:
    """Remove *error*'s traceback, cause and context,
    since frames keep local variables alive. Return *error*.
    """
    for link in _CHAIN:
        link.__set__(error, None)
    return set_traceback(error, None)
