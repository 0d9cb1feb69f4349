"""Exceptions of ftsafety.

    SafetyError
    ├── CommandLineError        the command line of repro asks for something impossible
    │   └── NotebookError       the notebook cannot be run
    ├── VersionError            no interpreter has the Python version that the script requires
    ├── LimitBroken             a run exceeded a limit; never leaves ftsafety.repro.watch
    └── NoCluster               no cluster to connect to (ftsafety.repro.cluster; a TwinError too)

Each message says what happened and what to do. Standard library only, for Python 3.9:
ftsafety.repro.arguments imports this file.
"""

from __future__ import annotations


class SafetyError(Exception):
    """Base class of the exceptions of ftsafety."""


class CommandLineError(SafetyError):
    """The command line asks for something impossible."""


class NotebookError(CommandLineError):
    """The notebook cannot be run."""


class MarkdownError(CommandLineError):
    """A Markdown text has no script."""


class VersionError(SafetyError):
    """No interpreter has the Python version that the script requires."""


class LimitBroken(SafetyError):
    """The processes of a run exceeded a limit, which the message names."""
