"""Loading of samples for an audit, in the same way as ftloader's worker threads."""

import contextlib
import os
import random
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterable
from typing import Any

from torch.utils.data import IterableDataset
from torch.utils.data.datapipes.datapipe import IterDataPipe

from ftloader.compat.torch_private import DatasetKind
from ftloader.current import enter_sample, sample_scope
from ftloader.diagnosis.call_site import is_user_code, treat_as_engine
from ftloader.diagnosis.lookups import is_a
from ftloader.workers.copies import Copier, UserObjects
from ftloader.workers.info import acting_as, describe_worker
from ftloader.workers.thread import consumer_modes, own_context
from ftsafety.audit.comparison import Frozen, Raised, freeze

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
"""The folder of the audit's own files. Their frames are left out of stacks."""
treat_as_engine(HERE)
BASE_SEED = 2**40 + 1
"""The base seed of ``sample_rng()``, an arbitrary constant."""


class _Epoch:
    base_seed = BASE_SEED
    number = 0


class Loads:
    """Samples to load: the audit calls ``load(key, thread)`` for each of ``keys``."""

    unit: str
    units: str
    each_with = ""
    """What each thread has for itself, in words."""

    def __init__(self, dataset: Any, keys: list, threads: int) -> None:
        self.dataset = dataset
        self.keys = keys
        self.threads = threads

    def load(self, key: Any, thread: int) -> Any:
        """Load the sample *key* in the same way as the loader's worker number *thread* does."""
        raise NotImplementedError

    def begin_again(self) -> None:
        """Forget what earlier loads have left, as new workers do. No thread may be loading."""

    def can_be_copied(self) -> bool:
        """Return True if threads share the dataset, and each could have a copy."""
        return False

    def shown(self, keys: Iterable[Any]) -> str:
        """Return the first eight of *keys*, sorted, in words: "indices 1, 2"."""
        ordered = sorted(set(keys), key=_order)
        listed = ", ".join(map(repr, ordered[:8]))
        if len(ordered) > 8:
            listed += ", ..."
        unit = self.unit if len(ordered) == 1 else self.units
        return f"{unit} {listed}"


def _order(key: Any) -> tuple[bool, Any]:
    """Return the sort key of a sample's *key*: numbers first,
    then others by their representation.
    """
    if isinstance(key, int):
        return False, key
    return True, repr(key)


class IndexedLoads(Loads):
    """Samples of a map-style dataset; the keys are indices. Threads share the dataset."""

    unit, units = "index", "indices"

    def load(self, key: Any, thread: int) -> Any:
        return self._load_from(self.dataset, key, thread)

    def can_be_copied(self) -> bool:
        with contextlib.suppress(TypeError, MemoryError):
            _copy(self.dataset, DatasetKind.Map)
            return True
        return False

    def _load_from(self, dataset: Any, key: Any, thread: int) -> Any:
        load_several = getattr(dataset, "__getitems__", None)
        with _worker(thread, self.threads, dataset), sample_scope():
            enter_sample(_Epoch, key)
            if callable(load_several):
                return load_several([key])[0]
            return dataset[key]


class CopiedLoads(IndexedLoads):
    """Samples of a map-style dataset of which each thread has a copy, as with
    ``DataLoader(copy_dataset=True)``.
    """

    each_with = ", each with a copy of the dataset"

    def __init__(self, dataset: Any, keys: list, threads: int) -> None:
        super().__init__(dataset, keys, threads)
        # {thread number: (dataset, its copy)}; each thread uses its own entry
        self._copies: dict[int, tuple[Any, Any]] = {}
        self._turn = threading.Lock()  # one copy at a time, as in the loader

    def begin_again(self) -> None:
        self._copies = {}

    def can_be_copied(self) -> bool:
        return False

    def load(self, key: Any, thread: int) -> Any:
        original, copy = self._copies.get(thread, (None, None))
        if original is not self.dataset:
            with self._turn:
                copy = _copy(self.dataset, DatasetKind.Map)
            self._copies[thread] = self.dataset, copy
        return self._load_from(copy, key, thread)


class IterableLoads(Loads):
    """First samples that each worker loads from its own copy of an iterable-style dataset; the keys
    are worker ids.
    """

    unit, units = "worker", "workers"

    def __init__(self, dataset: Any, samples: int, threads: int) -> None:
        super().__init__(dataset, list(range(threads)), threads)
        self._samples = samples

    def load(self, key: Any, thread: int) -> Any:
        dataset = _copy(self.dataset, DatasetKind.Iterable)
        with _worker(key, self.threads, dataset), sample_scope():
            samples = []
            enter_sample(_Epoch, (key, 0))
            iterator = iter(dataset)
            for position in range(self._samples):
                enter_sample(_Epoch, (key, position))
                try:
                    samples.append(next(iterator))
                except StopIteration:
                    break
            return samples


def _copy(dataset: Any, kind: int) -> Any:
    return Copier(UserObjects(dataset, list, None), kind, 1).copy().dataset


def choose(
    dataset: Any,
    indices: Iterable[Any] | None,
    samples: int,
    threads: int,
    seed: int,
    copies: bool = False,
) -> Loads:
    """Return the samples to load: *indices*, or by default *samples* random ones, including the
    first and the last. *copies*: each thread loads them from a copy of a map-style dataset.

    Raises TypeError if *dataset* is no dataset, if it has no length and *indices* is None, or if
    it cannot be copied. Raises ValueError if there is nothing to load.
    """
    if is_a(dataset, (IterableDataset, IterDataPipe)):
        if indices is not None:
            raise TypeError("indices= is for map-style datasets; this one is iterable-style")
        return IterableLoads(dataset, samples, threads)
    if not hasattr(type(dataset), "__getitem__"):
        raise TypeError(
            f"{type(dataset).__name__} is no dataset: it has no __getitem__ and is no "
            f"torch.utils.data.IterableDataset"
        )
    if indices is None:
        keys = _random_indices(dataset, samples, seed)
    else:
        keys = list(indices)
    if not keys:
        raise ValueError("the dataset is empty: there is nothing to audit")
    if not copies:
        return IndexedLoads(dataset, keys, threads)
    _copy(dataset, DatasetKind.Map)
    return CopiedLoads(dataset, keys, threads)


def _random_indices(dataset: Any, samples: int, seed: int) -> list[int]:
    """Return *samples* random indices, including the first and the last.
    Raises TypeError as `choose` does.
    """
    try:
        length = len(dataset)
    except Exception as error:  # a __len__ may raise anything
        why = f" ({type(error).__name__}: {error})"
        if isinstance(error, TypeError | NotImplementedError):
            why = ""
        text = f"{type(dataset).__name__} has no length{why}: give indices (--indices I,J,...)"
        raise TypeError(text) from error
    if not length:
        return []
    indices = {0, length - 1}
    number = min(samples, length)
    indices.update(random.Random(seed).sample(range(length), number))
    return sorted(indices)[: max(samples, 2)]


def outcome(loads: Loads, key: Any, thread: int) -> Frozen:
    """Load the sample *key*; return a copy of the sample, or of the exception that was raised."""
    return attempt(lambda: loads.load(key, thread))[0]


def attempt(load: Any) -> tuple[Frozen, Any]:
    """Call ``load()``; return (copy of the sample, sample), or (copy of the exception, None)."""
    try:
        sample = load()
        return freeze(sample), sample
    except Exception as error:
        return raised(error), None


def raised(error: BaseException, stack: Iterable[traceback.FrameSummary] = ()) -> Raised:
    """Return a copy of *error*. Copies of two exceptions are equal
    if the exceptions have the same type.

    *stack*: frames to put before those of the traceback, such as the callers'.
    """
    frames = [*stack, *traceback.extract_tb(error.__traceback__)]
    text = "".join(traceback.format_exception_only(error)).strip()
    text = text.splitlines()[0]
    outside = [frame for frame in frames if not frame.filename.startswith(HERE)]
    listing = "".join(traceback.format_list(outside[-6:]))
    return Raised(
        f"raised {type(error).__qualname__}",
        line=_user_line(frames),
        text=text,
        traceback=listing + text,
    )


def _user_line(frames: list[traceback.FrameSummary]) -> str:
    """Return in words the innermost line of user code,
    else the innermost line; "" if there are no frames.
    """
    for frame in reversed(frames):
        if is_user_code(frame.filename):
            return _in_words(frame)
    if frames:
        return _in_words(frames[-1])
    return ""


def _in_words(frame: traceback.FrameSummary) -> str:
    return f"{frame.filename}:{frame.lineno}  {frame.line}"


def thread(name: str, target: Callable[..., None], *args: Any) -> threading.Thread:
    """Return a new daemon thread with the caller's torch modes and context variables, like a worker
    of the loader.
    """
    adopt_modes = consumer_modes()
    context = own_context()

    def run() -> None:
        adopt_modes()
        context.run(target, *args)

    return threading.Thread(target=run, name=name, daemon=True)


class Stuck(Exception):
    """No thread has finished a sample for a long time;
    `stacks` are the stacks of the threads that hang.
    """

    def __init__(self, seconds: float, stacks: str, names: list[str], line: str) -> None:
        super().__init__(f"no thread has finished a sample for {seconds:.0f} s")
        self.stacks = stacks
        self.names = names
        self.line = line


def stuck(threads: list[threading.Thread], seconds: float) -> Stuck:
    """Return a Stuck exception with the current stacks
    of those *threads* that hang in the dataset.
    """
    frames = sys._current_frames()
    texts = []
    names = []
    line = ""
    for loader in threads:
        stack = _stack_outside_audit(frames.get(loader.ident or 0))
        if not stack or not loader.is_alive():
            continue  # at the barrier
        names.append(loader.name)
        line = line or _in_words(stack[-1])
        listing = "".join(traceback.format_list(stack)).rstrip()
        texts.append(f"{loader.name}:\n{listing}")
    return Stuck(seconds, "\n".join(texts), names, line)


def _stack_outside_audit(frame: types.FrameType | None) -> list[traceback.FrameSummary]:
    """Return the stack of *frame* without the frames of the audit and of threading;
    [] if there is no frame.
    """
    if frame is None:
        return []
    stack = []
    for entry in traceback.extract_stack(frame):
        if not entry.filename.startswith(HERE) and entry.filename != threading.__file__:
            stack.append(entry)
    return stack


def _worker(number: int, threads: int, dataset: Any) -> contextlib.AbstractContextManager:
    return acting_as(describe_worker(number, threads, BASE_SEED + number, dataset))
