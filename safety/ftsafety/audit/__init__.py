"""Is my dataset safe under threads? ``audit(dataset)`` tries to show that it is not.

    from ftsafety.audit import audit

    report = audit(dataset)
    print(report)

    python -m ftsafety.audit my_package.data:train_set

The program runs the audit in a process of its own, and so survives a crash and threads that are stuck forever.

The steps, each in the file of its name: which samples are loaded, and how (samples); what the dataset refers to, and
restoring it (reachable); which of its lines write where, seen with two threads that take turns (observer, writes,
file_positions); all threads at once against a serial reference (concurrent_loads, comparison); what a second look
confirms (run); what libraries say of themselves (libraries, gil); the outcome in words and as JSON (report). The
program: cli, arguments, child.

Importing this package imports nothing else: `./twins audit` checks its arguments before there is a torch.
"""

import importlib
from typing import Any

_HOMES = {"AuditError": "run", "Finding": "report", "Report": "report", "audit": "run"}

__all__ = ["AuditError", "Finding", "Report", "audit"]  # noqa: F822  # by __getattr__


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
