"""What decoding raises: one error for a bad image, one for a backend that is not there."""

import errno
import pickle
from typing import Any


class DecodeError(OSError, ValueError):
    """An image could not be read or decoded: missing, unreadable, truncated, corrupt, unknown.

    An ``OSError``, as Pillow's own errors mostly are, so that code that caught those goes on working, and a
    ``ValueError``. The message names the image and the reason. It survives pickling (from a process worker) with its
    path, its cause and its notes.

    Attributes:
        path: the file as it was given (``str``), or None for an image in memory or for an error rebuilt from its
            message alone, as torch does for its process workers.
        __cause__: the error of the library or of the operating system, if there was one.
    """

    def __init__(self, message: str, path: str | None = None) -> None:
        # Not OSError's (errno, strerror) form: what is shown is the message, whole.
        super().__init__(message)
        self.path = path

    @classmethod
    def of(cls, name: str, path: str | None, cause: BaseException) -> "DecodeError":
        """The error for the image called *name*, because of *cause*. Returns it unraised."""
        error = cls(f"cannot decode {name}: {describe(cause)}", path)
        error.__cause__ = cause
        if isinstance(cause, OSError) and cause.errno is not None:
            error.errno = cause.errno
            if cause.errno == errno.EMFILE:
                error.add_note("Raise the limit of open files (ulimit -n) or use fewer workers.")
        return error

    def __reduce__(self) -> tuple:
        state: dict[str, Any] = dict(self.__dict__)
        if self.__cause__ is not None and _survives_pickling(self.__cause__):
            state["__cause__"] = self.__cause__
        return type(self), (str(self), self.path), (self.errno, state)

    # Takes what __reduce__ gives, not a dictionary as BaseException's does.
    def __setstate__(self, state: tuple[int | None, dict[str, Any]]) -> None:  # type: ignore[override]
        self.errno, attributes = state
        self.__cause__ = attributes.pop("__cause__", None)
        self.__dict__.update(attributes)

    def __str__(self) -> str:
        # OSError would put "[Errno n]" and the file's name around it once errno is set.
        return str(self.args[0])


class BackendUnavailable(RuntimeError):
    """A backend or a device was asked for that this machine or installation does not have.

    The message names the argument to change or the package to install.
    """


def describe(error: BaseException) -> str:
    """*error* in one line: its message, after its type where the message alone would not do."""
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: {error.strerror}"
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _survives_pickling(error: BaseException) -> bool:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True
