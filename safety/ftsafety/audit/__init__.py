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
from ftsafety.audit.run import AuditError, audit

__all__ = ["AuditError", "Finding", "Report", "audit"]


class _CallablePackage(types.ModuleType):
    """``ftsafety.audit(...)`` is ``ftsafety.audit.audit(...)``."""

    def __call__(self, dataset: Any, **options: Any) -> Report:
        return audit(dataset, **options)


_CallablePackage.__call__.__doc__ = audit.__doc__
# A module's class may be set: docs.python.org/3/reference/datamodel.html#customizing-module-attribute-access
sys.modules[__name__].__class__ = _CallablePackage
