"""What an iterator gives until its end: batches, and the exceptions between them."""

from collections.abc import Iterable
from typing import Any


def outcomes(iterable: Iterable[Any]) -> list[Any]:
    """Return all batches of *iterable*, and the exceptions between them, in their order."""
    iterator, found = iter(iterable), []
    while True:
        try:
            found.append(next(iterator))
        except StopIteration:
            return found
        except Exception as error:
            found.append(error)
            assert len(found) < 10_000, "an iterator that raises forever"


def drain(iterable: Iterable[Any]) -> tuple[list[Any], list[Exception]]:
    """Return the batches of *iterable* as lists, and the exceptions."""
    found = outcomes(iterable)
    errors = [outcome for outcome in found if isinstance(outcome, Exception)]
    return [outcome.tolist() for outcome in found if not isinstance(outcome, Exception)], errors
