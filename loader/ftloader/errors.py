"""Exceptions of this package:

    FtloaderError
    ├── CacheError and what is below it: see ``cache.errors``
    ├── DecodeError (also OSError, ValueError): an image that cannot be read or decoded
    └── BackendUnavailable (also RuntimeError): a decoder or device that cannot be used
    Cancelled, Exhausted: internal, raised and caught between a worker and its batch

All other errors are Python's own classes, as torch raises them.
"""

import contextlib
import errno
import pickle
from typing import Any


class FtloaderError(Exception):
    """Base class of the exceptions of this package that reach the program."""


class Cancelled(Exception):
    """Exception in a worker that builds a batch of a cancelled epoch:
    the consumer no longer wants the batch.
    """


class Exhausted(Exception):
    """Exception for the end of a worker's share. Not ``StopIteration``,
    which user code may raise by mistake.
    """


class DecodeError(FtloaderError, OSError, ValueError):
    """Error for an image that cannot be read or decoded: missing,
    unreadable, truncated, corrupt or unknown.

    Most of Pillow's errors are ``OSError``, so code that catches ``OSError`` still works. The
    message names the image and the reason. Pickling keeps the path, the notes and, if possible,
    ``__cause__``: the library's or system's error.

    Attributes:
        path: the file as given (``str``). None for an image in memory. None also for an error from
            torch's process workers, since torch rebuilds the error from its message alone.
    """

    def __init__(self, message: str, path: str | None = None) -> None:
        # Not OSError's form (errno, strerror), so that the whole message is shown.
        super().__init__(message)
        self.path = path

    @classmethod
    def of(cls, name: str, path: str | None, cause: BaseException) -> "DecodeError":
        """Return (do not raise) an error for the image called *name*,
        whose ``__cause__`` is *cause*.
        """
        error = cls(f"cannot decode {name}: {describe(cause)}", path)
        error.__cause__ = cause
        if isinstance(cause, OSError) and cause.errno is not None:
            error.errno = cause.errno
            if cause.errno == errno.EMFILE:
                error.add_note("Raise the limit of open files (ulimit -n) or use fewer workers.")
        return error

    def __reduce__(self) -> tuple:
        state: dict[str, Any] = self.__dict__ | {"errno": self.errno}
        with contextlib.suppress(Exception):  # causes that cannot be pickled, or not rebuilt
            pickle.loads(pickle.dumps(self.__cause__))
            state["__cause__"] = self.__cause__
        return type(self), (str(self), self.path), state

    def __str__(self) -> str:
        # With errno set, OSError would add "[Errno n]" and the file's name.
        return str(self.args[0])


class BackendUnavailable(FtloaderError, RuntimeError):
    """Error for a backend or device that cannot be used. It names the argument to change or the
    package to install.
    """


def describe(error: BaseException) -> str:
    """Return the type and message of *error* in one line; the type alone if there is no message."""
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: {error.strerror}"
    message = " ".join(str(error).split())
    if not message:
        return type(error).__name__
    return f"{type(error).__name__}: {message}"
