"""Notes on exceptions: which sample, batch and worker they came from (PEP 678)."""

import contextlib
import reprlib
from typing import Any

# Short, and never fails whatever the index is (its own repr() may raise).
describe_sample = reprlib.Repr(maxlist=8, maxtuple=8).repr


def annotate(error: BaseException, note: str) -> None:
    """Adds *note* to *error*, unless its class uses ``__notes__`` for something else."""
    with contextlib.suppress(TypeError):
        error.add_note(note)


def notes_of(error: BaseException) -> list[str]:
    """The notes on *error*."""
    notes = getattr(error, "__notes__", None)
    return [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else []


def without_stop_iteration[E: BaseException](error: E, raised_by: str) -> E | RuntimeError:
    """*error*, or a ``RuntimeError`` caused by it if it is a ``StopIteration``: that of user code would end the epoch
    in silence (as in a generator: PEP 479)."""
    if not isinstance(error, StopIteration):
        return error
    replacement = RuntimeError(f"{raised_by} raised StopIteration")
    replacement.__cause__ = error
    for note in notes_of(error):
        annotate(replacement, note)
    return replacement


def annotate_sample(error: BaseException, index: Any) -> None:
    """Says that *error* was raised while ``dataset[index]`` was loaded."""
    annotate(error, f"raised while loading dataset[{describe_sample(index)}]")


def describe_index(index: Any) -> str:
    """What the sampler yielded for a batch, in a few words for a note."""
    if index is None or (isinstance(index, list) and index and all(i is None for i in index)):
        return "of the worker's share"  # iterable-style: there are no indices
    size = f" ({len(index)} samples)" if isinstance(index, (list, tuple)) else ""
    return f"from samples {describe_sample(index)}{size}"
