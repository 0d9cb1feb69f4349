"""Context managers for ``sys.monitoring`` (PEP 669)."""

import contextlib
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from ftloader.diagnosis.call_site import is_user_code
from ftsafety.audit.libraries import LIMITS

Codes = set[types.CodeType]
"""Functions of a dataset."""

_EVENTS = sys.monitoring.events


@contextlib.contextmanager
def monitoring(callbacks: dict[int, Callable]) -> Iterator[int]:
    """Context manager: register *callbacks*, by event, and yield their tool id. RuntimeError if no
    tool id is free.
    """
    tool = _free_tool_id()
    sys.monitoring.use_tool_id(tool, "ftsafety.audit")
    try:
        for event, callback in callbacks.items():
            sys.monitoring.register_callback(tool, event, callback)
        yield tool
    finally:
        sys.monitoring.set_events(tool, 0)
        for event in callbacks:
            sys.monitoring.register_callback(tool, event, None)
        sys.monitoring.free_tool_id(tool)


def _free_tool_id() -> int:
    for tool in reversed(range(6)):
        if sys.monitoring.get_tool(tool) is None:
            return tool
    raise RuntimeError(
        "the audit needs one of sys.monitoring's tool ids, but all are in use: stop a profiler"
    )


@contextlib.contextmanager
def events_in(tool: int, codes: Codes, events: int) -> Iterator[None]:
    """Context manager: switch on *events* (bits of sys.monitoring.events) in the functions *codes*,
    for tool id *tool*.

    No thread may run these functions while the ``with`` block is entered or left.
    """
    for code in codes:
        sys.monitoring.set_local_events(tool, code, events)
    try:
        yield
    finally:
        for code in codes:
            sys.monitoring.set_local_events(tool, code, 0)


@contextlib.contextmanager
def discovering(files: set[str]) -> Iterator[Codes]:
    """Context manager: collect the functions that run inside the ``with`` block and are in user
    code or in *files*.

    Functions of the libraries in LIMITS are left out,
    since the libraries may have locks of their own.
    """
    codes: Codes = set()

    def started(code: types.CodeType, offset: int) -> Any:
        if is_user_code(code.co_filename) or code.co_filename in files:
            codes.add(code)
        return sys.monitoring.DISABLE

    with monitoring({_EVENTS.PY_START: started}) as tool:
        sys.monitoring.restart_events()
        sys.monitoring.set_events(tool, _EVENTS.PY_START)
        yield codes
    folders = tuple(_folders_with_limits())
    for code in list(codes):
        if code.co_filename.startswith(folders):
            codes.remove(code)


def _folders_with_limits() -> Iterator[str]:
    """Yield the folders of the imported packages in LIMITS."""
    for name in LIMITS:
        module = sys.modules.get(name)
        for path in getattr(module, "__path__", ()):
            yield os.path.join(path, "")
