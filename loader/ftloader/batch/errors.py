"""``on_error``: what becomes of a sample that cannot be loaded, and the record of it.

One truncated file among a million need not end a run, but no sample may vanish in silence: whatever is left out is
counted, described and, once an epoch, warned of. The policy acts where the sample is loaded (in the worker); the record
is kept where the batches are handed over, by the ``DataLoader``, as ``loader.skipped``.

Iterable-style datasets: after an exception the iterator is asked for its next sample. A class with ``__next__`` can go
on; a generator has ended, which its record says, since the rest of its samples is missing. An error in ``collate_fn``
is no sample's: it is raised.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

from ftloader import fork
from ftloader.batch.error_notes import describe_sample
from ftloader.diagnosis.call_site import warn_user


class _Skip(enum.Enum):
    """One member, because an enum's member stays the same object through pickling and copying, and so in worker
    processes."""

    SKIP = "skip"

    def __repr__(self) -> str:
        return "ftloader.SKIP"


SKIP: Final = _Skip.SKIP
"""Returned by an ``on_error`` callable: leave this sample out."""

OnError = Literal["raise", "skip"] | Callable[[Exception, Any], Any]

_LONGEST_ERROR = 300  # characters of an error's text that are kept

MOST_FAILURES_IN_A_ROW = 1000
"""Iterable-style: so often may the dataset's iterator raise without a sample in between. After that a ``RuntimeError``
ends the worker's share, under any policy: an iterator that raises for ever must not keep the loader busy for ever."""


class Skipped(NamedTuple):
    """A sample that was left out."""

    index: Any
    """What the sampler yielded; for an iterable-style dataset (worker id, position)."""
    error: str
    """``"Type: message"``, in one line."""

    @classmethod
    def because_of(cls, error: BaseException, index: Any, with_the_rest: bool = False) -> "Skipped":
        """The record for *index*; *with_the_rest*: what followed in the worker's share is lost with it. Never raises,
        whatever ``str(error)`` does."""
        try:
            text = " ".join(str(error).split())
        except Exception:
            text = "(its text could not be made)"
        if len(text) > _LONGEST_ERROR:
            text = text[: _LONGEST_ERROR - 3] + "..."
        if with_the_rest:
            text += " (the dataset's generator ended there: the rest of its samples is missing)"
        return cls(index, f"{type(error).__name__}: {text}")


class ErrorPolicy:
    """What to do about an ``Exception`` of one sample. Immutable; picklable if the callable is, so it travels to worker
    processes.

    Args:
        on_error:
            - ``"raise"``: raise it, as torch does.
            - ``"skip"``: leave the sample out. Map-style, its batch is smaller by one; iterable-style, the batch is
              filled with what follows. A dataset with ``__getitems__`` loads batches only: the batch is left out.
            - a callable ``on_error(error, index)``, called in the worker: it returns a sample to use instead, or
              ``ftloader.SKIP`` to leave this one out, or raises. With worker threads it may run in several threads at
              once; with worker processes under spawn or forkserver it must be picklable.

    Raises:
        ValueError: for another string.
        TypeError: for anything else that cannot be called.
    """

    __slots__ = ("_on_error", "raises")

    def __init__(self, on_error: OnError) -> None:
        if isinstance(on_error, str):
            if on_error not in ("raise", "skip"):
                raise ValueError(f"on_error must be 'raise', 'skip' or a callable, got {on_error!r}")
        elif not callable(on_error):
            raise TypeError(
                "on_error must be 'raise', 'skip' or a callable that takes the exception and "
                f"the sample's index, got {type(on_error).__name__}"
            )
        self._on_error = on_error
        self.raises: bool = isinstance(on_error, str) and on_error == "raise"
        """True for ``"raise"``: there is nothing to resolve."""

    def resolve(self, error: BaseException, index: Any) -> Any:
        """A sample in place of the one at *index*, or ``SKIP``; else raises, as for any ``KeyboardInterrupt`` or
        ``SystemExit``."""
        if self.raises or not isinstance(error, Exception):
            raise error
        return SKIP if isinstance(self._on_error, str) else self._on_error(error, index)


class SkipLog:
    """What a ``DataLoader`` has left out so far, as ``loader.skipped``.

    The loader owns it and its iterators add to it when they hand a batch over, so the order is that of the batches. Any
    thread may read it at any time. A pickled or deep-copied log goes on from what it held.
    """

    KEPT = 1000
    """So many samples are described; all are counted."""
    _NAMED = 3  # so many are named in the warning

    def __init__(
        self, count: int = 0, samples: tuple[Skipped, ...] = (), unreported: tuple[int, tuple[Skipped, ...]] = (0, ())
    ) -> None:
        # For what is written below; reentrant, since a signal handler may ask for an epoch's end.
        self._lock = fork.rlock()
        self.count = count
        """How many samples have been left out, over all epochs."""
        self.samples = samples
        """The first ``KEPT`` of them."""
        self._unreported = unreported
        """Since the last report: how many, and the first of them."""

    def add(self, skipped: Sequence[Skipped]) -> None:
        """The samples left out of a batch that is being handed over."""
        if not skipped:
            return
        with self._lock:
            self.count += len(skipped)
            if len(self.samples) < self.KEPT:
                self.samples = (*self.samples, *skipped)[: self.KEPT]
            new, first = self._unreported
            self._unreported = new + len(skipped), (*first, *skipped)[: self._NAMED]

    def report(self) -> None:
        """At the end of an epoch: one warning, if anything was left out since the last.

        What an abandoned epoch left out is part of the next report.
        """
        with self._lock:
            (new, first), self._unreported = self._unreported, (0, ())
        if new == 0:
            return
        named = "; ".join(f"{describe_sample(index)}: {error}" for index, error in first)
        more = f"; and {new - len(first)} more" if new > len(first) else ""
        warn_user(
            f"{new} of this epoch's samples could not be loaded and on_error left them out "
            f"({self.count} so far, see loader.skipped). By index: {named}{more}"
        )

    def __repr__(self) -> str:
        return f"<SkipLog: {self.count} samples left out>"

    def __len__(self) -> int:
        return self.count

    def __reduce__(self) -> tuple:
        with self._lock:
            return SkipLog, (self.count, self.samples, self._unreported)
