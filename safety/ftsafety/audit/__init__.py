"""The audit of a dataset: it tries to show that the dataset is not safe under threads.

    from ftsafety.audit import audit

    print(audit(dataset))

The steps, by file: the samples to load (samples); what the dataset refers to, and restoring it (reachable); a reference
by one thread (serial); the lines that write, seen with two threads that take turns (observer, writes, file_positions,
draws); all threads at once, and a second look (at_once, concurrent_loads, comparison); what libraries say of themselves
(libraries, gil); the outcome in words and as JSON (kinds, findings, report). The program, which survives
crashes and hangs: cli, arguments, child.

Importing this package imports nothing else: `./twins audit` checks its arguments before there is a torch.
"""

import importlib
from typing import Any

__all__ = ["AuditError", "Finding", "Report", "audit"]  # noqa: F822  # by __getattr__


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module(f"{__name__}.run"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
