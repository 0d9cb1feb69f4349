"""Errors in loading samples: the policy ``on_error``,
the record of samples left out, and notes on exceptions.

Workers apply the policy; ``loader.skipped`` keeps the record, and one warning per epoch names
samples left out. After an exception in an iterable-style dataset, the worker asks the dataset's
iterator for the next sample. An exception in ``collate_fn`` belongs to no sample and is always
raised.
"""

import enum
import reprlib
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

from ftloader import fork
from ftloader.diagnosis.call_site import warn_user
from ftloader.diagnosis.exceptions import annotate, notes_of, text_of


class _Skip(enum.Enum):
    """Type of ``SKIP``. An enum, so that ``x is SKIP`` still holds after pickling,
    also in worker processes.
    """

    SKIP = "skip"

    def __repr__(self) -> str:
        return "ftloader.SKIP"


SKIP: Final = _Skip.SKIP  # returned by an ``on_error`` callable: leave this sample out

OnError = Literal["raise", "skip"] | Callable[[Exception, Any], Any]

_LONGEST_ERROR = 300  # characters of an error's type and text that are kept

MOST_FAILURES_IN_A_ROW = 1000
"""Number of consecutive failures of an iterable-style dataset after which a ``RuntimeError`` ends a
worker's share, under any policy: an iterator that always raises must not keep the loader busy
forever."""


class Skipped(NamedTuple):
    """Record of a sample that was left out."""

    index: Any  # as the sampler yielded it; for an iterable-style dataset (worker id, position)
    error: str  # "Type: message", in one line

    @classmethod
    def because_of(cls, error: BaseException, index: Any, with_the_rest: bool = False) -> "Skipped":
        """Return the record for sample *index*. *with_the_rest*: True if the worker's later samples
        are lost too.
        """
        text = " ".join(text_of(error).split())
        if len(text) > _LONGEST_ERROR:
            text = text[: _LONGEST_ERROR - 3] + "..."
        if with_the_rest:
            text += " (the dataset's generator ended there: the rest of its samples is missing)"
        return cls(index, text)


def split_skipped(samples: list) -> tuple[list, tuple[Skipped, ...]]:
    """Return the samples that were loaded, and the records of those that were left out."""
    skipped = tuple(sample for sample in samples if type(sample) is Skipped)
    if not skipped:
        return samples, ()
    return [sample for sample in samples if type(sample) is not Skipped], skipped


class ErrorPolicy:
    """Action for a sample whose loading raises an ``Exception``:
    the loader's argument ``on_error``.

    - ``"raise"``: raise the exception, as torch does.
    - ``"skip"``: leave the sample out. A map-style batch is smaller by one; an iterable-style batch
      is filled with the samples that follow. With ``__getitems__`` the whole batch is left out.
    - a callable ``on_error(error, index)``: it returns a sample to use instead, returns
      ``ftloader.SKIP``, or raises. Several worker threads may call it at the same time. The policy
      is picklable if the callable is.
    """

    __slots__ = ("_on_error", "raises")

    def __init__(self, on_error: OnError) -> None:
        if isinstance(on_error, str):
            if on_error not in ("raise", "skip"):
                raise ValueError(
                    f"on_error must be 'raise', 'skip' or a callable, got {on_error!r}"
                )
        elif not callable(on_error):
            kind = type(on_error).__name__
            raise TypeError(
                f"on_error must be 'raise', 'skip' or a callable(exception, index), got {kind}"
            )
        self._on_error = on_error
        self.raises: bool = isinstance(on_error, str) and on_error == "raise"

    def resolve(self, error: Exception, index: Any) -> Any:
        """Return a sample to use instead of the one that failed,
        or ``SKIP``. Not called for the policy "raise".
        """
        if isinstance(self._on_error, str):
            return SKIP
        return self._on_error(error, index)


class SkipLog:
    """Log of the samples that a ``DataLoader`` has left out so far:
    the attribute ``loader.skipped``.

    Iterators add to the log when they hand over a batch, so the records are in the order of the
    batches. Any thread may read the log at any time. A pickle or deep copy of the log has the same
    records.
    """

    KEPT = 1000  # samples that are described; all are counted
    _NAMED = 3  # samples that the warning names

    def __init__(
        self,
        count: int = 0,
        samples: tuple[Skipped, ...] = (),
        unreported: tuple[int, tuple[Skipped, ...]] = (0, ()),
    ) -> None:
        # Guards all writes. Reentrant, since a signal handler may ask for an epoch's end.
        self._lock = fork.rlock()
        self.count = count  # over all epochs
        self.samples = samples  # the first KEPT of them
        self._unreported = unreported  # since the last report: the number, and the first records

    def add(self, skipped: Sequence[Skipped]) -> None:
        """Count and record *skipped*, the samples that a batch lacks.
        Called when the batch is handed over.
        """
        if not skipped:
            return
        with self._lock:
            self.count += len(skipped)
            if len(self.samples) < self.KEPT:
                self.samples = (*self.samples, *skipped)[: self.KEPT]
            new, first = self._unreported
            self._unreported = new + len(skipped), (*first, *skipped)[: self._NAMED]

    def report(self) -> None:
        """Warn of all samples left out since the last report, unfinished epochs included. Called at
        an epoch's end.
        """
        with self._lock:
            (new, first), self._unreported = self._unreported, (0, ())
        if new == 0:
            return
        named = "; ".join(f"{describe_sample(index)}: {error}" for index, error in first)
        if new > len(first):
            named += f"; and {new - len(first)} more"
        warn_user(
            f"{new} of this epoch's samples could not be loaded and on_error left them out "
            f"({self.count} so far, see loader.skipped). By index: {named}"
        )

    def __repr__(self) -> str:
        return f"<SkipLog: {self.count} samples left out>"

    def __len__(self) -> int:
        return self.count

    def __reduce__(self) -> tuple:
        with self._lock:
            return SkipLog, (self.count, self.samples, self._unreported)


# Notes on exceptions (PEP 678) say which sample, batch and worker they came from.

describe_sample = reprlib.Repr(maxlist=8, maxtuple=8).repr
"""Return a short description of an index. Never raise, even if the index's own repr() does."""


def without_stop_iteration[E: BaseException](error: E, raised_by: str) -> E | RuntimeError:
    """Return *error*, or a ``RuntimeError`` in place of a ``StopIteration``, which would end the
    epoch (PEP 479).
    """
    if not isinstance(error, StopIteration):
        return error
    replacement = RuntimeError(f"{raised_by} raised StopIteration")
    replacement.__cause__ = error
    for note in notes_of(error):
        annotate(replacement, note)
    return replacement


def annotate_sample(error: BaseException, index: Any) -> None:
    """Add a note to *error* that it was raised while loading ``dataset[index]``."""
    annotate(error, f"raised while loading dataset[{describe_sample(index)}]")


def describe_index(index: Any) -> str:
    """Return a phrase that describes *index*, the indices of a batch, in a note on an exception."""
    if index is None or (type(index) is list and index and all(i is None for i in index)):
        return "of the worker's share"  # iterable-style: there are no indices
    description = f"from samples {describe_sample(index)}"
    if type(index) in (list, tuple):
        description += f" ({len(index)} samples)"
    return description
