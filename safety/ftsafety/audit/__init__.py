"""The audit of a dataset: a search for evidence that the dataset is not safe under threads.

    from ftsafety.audit import audit

    print(audit(dataset))

The steps and their modules:

1. Choose the samples to load (samples), and save the state of the dataset (reachable,
   snapshot).
2. Load the samples in one thread, as the reference (serial), and note which files that opens
    (opened_files).
3. Observe which lines of code write to objects, move file positions or draw random numbers, while
   two threads take turns (observer, shared_writes, moved_files, lent_objects, draws).
4. Load in all threads at the same time, and compare with the reference (at_once, concurrent_loads,
   comparison). Then load again to confirm each failure: the second look.
5. Add the documented limits of libraries (libraries) and the state of the GIL (gil).
6. Report findings, as text and as JSON (kinds, findings, report).

The program (cli, arguments, child) survives crashes and hangs of the dataset. Where loading reads
files that it may have written in an earlier run (opened_files), the program audits once more
without them (absent_files, empty_copies).

Importing this package imports nothing else, so `./twins audit` can check its arguments
before torch is installed.
"""

import importlib
from typing import Any

__all__ = ["AuditError", "Finding", "Report", "audit"]  # noqa: F822  # by __getattr__


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module(f"{__name__}.run"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
