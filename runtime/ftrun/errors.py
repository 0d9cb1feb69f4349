"""Exceptions of this package:

FtrunError
├── Interrupted             a signal asked this process to stop
├── Stopped                 a callback of a watch returned True
├── TimedOut                a child exceeded its time limit
├── Disconnected            the peer of a connection has gone
├── ServerError             a server cannot start
├── TwinError               a twin cannot be used
│   └── TwinLost            its server has gone
├── TargetError             FILE.py:NAME gives no dataset
├── MetadataError           the inline metadata of a script is malformed
├── LockError               a lock file cannot be used
├── OverlayError            packages cannot be installed for a twin
└── WheelsError             packages or their wheels cannot be judged
    ├── BadRequirements     an argument or file names no requirements
    ├── IndexFailed         the package index gave no answer
    ├── BadArchive          a wheel is damaged or too large
    └── NotReadable         a file is no library for this machine
"""

from __future__ import annotations

import signal


class FtrunError(Exception):
    """Base class of all exceptions of this package."""


class Interrupted(FtrunError):
    """Exception: a signal asked this process to stop."""

    def __init__(self, signum: int):
        super().__init__(signal.Signals(signum).name)
        self.signum = signum

    @property
    def exit_status(self) -> int:
        """The exit status by the shell's convention: 130 for SIGINT,
        143 for SIGTERM, 129 for SIGHUP.
        """
        return 128 + self.signum


class Stopped(FtrunError):
    """Exception: a callback of a watch returned True."""


class TimedOut(FtrunError):
    """The child exceeded its time limit and has been killed.
    `stderr` has what the child wrote to stderr.
    """

    def __init__(self, seconds: float, stderr: bytes):
        super().__init__(f"did not end within {seconds:.0f} s")
        self.stderr = stderr


class Disconnected(FtrunError):
    """The peer has closed the connection, or does not speak the protocol."""


class ServerError(FtrunError):
    """The server cannot start; the message says what to do."""


class TwinError(FtrunError):
    """The twin cannot be used; the message says what to do."""


class TwinLost(TwinError):
    """The server has gone or does not answer any more."""


class TargetError(FtrunError):
    """FILE.py:NAME gives no dataset; the message says why."""


class MetadataError(FtrunError):
    """The metadata cannot be read; the message says why."""


class LockError(FtrunError):
    """The lock file cannot be read, or one of its lines is not a pinned requirement."""


class OverlayError(FtrunError):
    """The packages cannot be installed for a twin; the message says why."""


class WheelsError(FtrunError):
    """Base class of the exceptions of ``ftrun.wheels``."""


class BadRequirements(WheelsError):
    """Raised if a file cannot be read, or an argument is no requirement. The message names it."""


class IndexFailed(WheelsError):
    """The index cannot be reached, lacks the project,
    or sends something that is no page of a project.
    """


class BadArchive(WheelsError):
    """Raised if a file is damaged, too large or no ZIP archive,
    or the server did not send the requested bytes.
    """


class NotReadable(WheelsError):
    """The file is no 64-bit ELF library for x86-64 or Arm, or is damaged."""
