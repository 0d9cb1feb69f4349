"""Is my dataset safe under threads? ``ftsafety.audit(dataset)`` tries to show that it is not.

    report = ftsafety.audit(dataset)
    print(report)

    python -m ftsafety.audit my_package.data:train_set

The package itself is what is called, so that one name serves as function and as program. The
program runs the audit in a process of its own, and so survives what the function cannot: a
crash, and threads that are stuck for ever.

The steps, each in the file that its name suggests: which samples and how they are loaded
(samples); what the dataset refers to, and putting it back (reachable); which of its lines write
where, seen with two threads that take turns (observer, writes, file_positions); all threads at once
against a serial reference (concurrent_loads, comparison); what a second look confirms (run); what libraries
say of themselves (libraries, gil); the outcome in words and as JSON (report). The program: cli,
arguments, child.
"""

import sys
import types
from typing import Any

from ftsafety.audit.report import Finding, Report

__all__ = ["AuditError", "Finding", "Report", "audit"]  # noqa: F822  # two of them by __getattr__


def __getattr__(name: str) -> Any:
    # The program's own process does without torch, which takes seconds to import.
    if name in ("AuditError", "audit"):
        from ftsafety.audit import run

        return getattr(run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _CallablePackage(types.ModuleType):
    """``ftsafety.audit(...)`` is ``ftsafety.audit.audit(...)``."""

    def __call__(self, dataset: Any, **options: Any) -> Report:
        """See ``help(ftsafety.audit.audit)``."""
        return __getattr__("audit")(dataset, **options)


# A module's class may be set: docs.python.org/3/reference/datamodel.html#customizing-module-attribute-access
sys.modules[__name__].__class__ = _CallablePackage
