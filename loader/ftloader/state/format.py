"""The saved state of a loader: the state's parts, and the checks made when a state is loaded.

``DataLoader.state_dict()`` returns a dictionary of plain values: dictionaries with string keys,
lists, strings, numbers, None. Only results of user-supplied ``state_dict()`` methods may have any
type. The dictionary survives ``pickle``, ``torch.save`` (also with ``weights_only=True``) and, if
the user-supplied parts do, JSON.

The class ``SavedState`` describes the dictionary's parts.
The part ``loader`` is what ``describe_loader`` returns.

The workers divide an iterable-style dataset among themselves.
A state describes each worker's share by:

- ``batches``: number of batches of this epoch that have been handed over
- ``snapshot``: latest state of the worker's dataset and the dataset's iterator; None: start from
  the dataset as it is
- ``snapshot_at``: number of this epoch's batches before the snapshot; None if the loader does not
  know the state that the dataset had at the start of the epoch
- ``after``: if the snapshot is from the end of the previous pass, the number of batches in that
  pass; else 0

A resumed worker loads the snapshot. Then it loads the samples of the batches handed over since the
snapshot, and drops them. No snapshot is taken once the dataset has ended, so a resumed worker
reaches the dataset's end again. With ``num_workers=0`` and in persistent workers, an epoch starts
with the dataset as the previous pass left it. To resume such an epoch, ``iter(dataset)`` is called
twice, as in torchdata: for the previous pass, and for this one.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn

from ftloader.diagnosis.exceptions import drop_frames, notes_of, text_of
from ftloader.diagnosis.lookups import optional
from ftloader.protocols import is_iterable, is_stateful

FORMAT = "ftloader.DataLoader"
VERSION = 6
Share = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SavedState:
    """Parts of a loaded and checked state, from which an epoch starts.
    Do not change the object or its values.
    """

    phase: str = "begin"  # "begin" (before an epoch), "middle" or "end" (after one)
    # of the epoch (between epochs: of the next one), None if it is not drawn yet
    base_seed: int | None = None
    epoch: int = 0  # number of that epoch in its iterator (persistent workers go on counting)
    shared_seed: int | None = None  # torch's, for data pipes
    # source of the batch order (``state.samplers``)
    order: Mapping[str, Any] = field(default_factory=dict)
    # States of the loader's and its samplers' own generators; None if the sampler was just drawing.
    generators: Mapping[str, Any] | None = None
    drawn: int = 0  # number of batches drawn from the sampler
    ended: bool = False  # True if the sampler had ended
    # states of samplers that have one, and the number of batches before them
    sampler: Mapping[str, Any] | None = None
    handed_over: int = 0  # the batches before this number have been handed over
    # with ``in_order=False``, the numbers of later batches that have been handed over too
    ahead: tuple[int, ...] = ()
    # number of the last batch drawn, and a digest of its indices
    last: Mapping[str, Any] | None = None
    # Each worker's share of an iterable-style dataset. Given in the middle of an epoch, and between
    # epochs if the next epoch uses the same dataset objects and they have a state.
    workers: tuple[Mapping[str, Any], ...] | None = None
    next_worker: int = 0  # worker whose turn is next
    # Batches of the epoch that were handed over before its rest was loaded
    # as an epoch (``samplers.rest_as_epoch``).
    steps_before: int = 0
    # map-style, processes and threads with copies: the state of each worker's dataset
    datasets: tuple[Any, ...] | None = None
    # state of the loader's own dataset; iterable-style: from the start of the epoch
    dataset: Any = None

    @property
    def mid_epoch(self) -> bool:
        return self.phase == "middle"

    @property
    def last_batch(self) -> int:
        """Number of the last batch drawn; -1 if the state does not have it."""
        if self.last is None:
            return -1
        return self.last["batch"]

    def dataset_of(self, worker_id: int, copies: int) -> Any:
        """Return the saved state for the map-style dataset of worker *worker_id*, one of *copies*
        workers, or None.
        """
        if self.datasets is None:
            return None
        if len(self.datasets) == copies:
            return self.datasets[worker_id]
        return self.only_dataset()

    def only_dataset(self) -> Any:
        """Return the state that the map-style dataset had in all processes of the saved run; None
        if none was saved.

        Raise ``ValueError`` if these processes had different states.
        """
        first, *others = self.datasets or (None,)
        if not all(same(other, first) for other in others):
            raise ValueError(
                f"the state holds {len(others) + 1} different states of the dataset, one of each "
                f"worker's copy, so it can only be loaded with num_workers={len(others) + 1} and "
                "worker_method='process' or copy_dataset=True"
            )
        return first


NOTHING: Final = SavedState()  # the start of an epoch if no state was loaded


def fresh_share(dataset: Any = None, known: bool = True, after: int = 0) -> dict[str, Any]:
    """Return the description that a saved state has of a worker's share at the start of an epoch.

    *dataset*: the dataset's state at the end of the previous pass, which had *after* batches, or
    None. *known*: False if the loader does not know the dataset's state.
    """
    snapshot = None
    if dataset is not None:
        snapshot = {"states": {"dataset": dataset}, "position": 0}
    return {"batches": 0, "snapshot": snapshot, "snapshot_at": 0 if known else None, "after": after}


@dataclass(frozen=True, slots=True)
class WorkerState:
    """State from which one worker starts an epoch.
    Picklable if the user-supplied states in it are.
    """

    # iterable-style: the share to continue, or None to start from the dataset as it is
    share: Share | None = None
    dataset: Any = None  # map-style: state for this worker's dataset
    every: int | None = None  # snapshot_every_n_steps
    lives_on: bool = False  # iterable-style: True if the next epoch uses the same dataset object


def same(state: Any, other: Any) -> bool:
    """Return True if two states compare equal; False if they differ
    or cannot be compared (states with tensors).
    """
    try:
        return bool(state == other)
    except Exception:  # from a comparison of user-supplied types
        return False


def require_stateful(value: Any, name: str) -> None:
    """Raise ``ValueError`` unless *value* has ``state_dict()`` and ``load_state_dict()``. *name*:
    for the message.
    """
    if not is_stateful(value):
        raise ValueError(
            f"the state holds one of the {name}, but the {name} ({type(value).__name__}) has no "
            "state_dict() and load_state_dict(): use the dataset that the state was saved with"
        )


@dataclass(frozen=True, slots=True)
class FailedState:
    """Placeholder for the state of a dataset, iterator or sampler whose ``state_dict()`` failed.

    Copying it raises the error. So users see the error only
    if they call the loader's ``state_dict()``.
    """

    whose: str
    why: str
    # without its traceback, which refers to iterators; None after pickling
    error: Exception | None = None

    def __reduce__(self) -> tuple:
        return FailedState, (self.whose, self.why)

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise RuntimeError(
            f"the state of {self.whose} could not be taken: {self.why}. Let "
            f"{self.whose}.state_dict() return what copy.deepcopy() can copy and, with worker "
            "processes, pickle can send, or leave out state_dict() and load_state_dict(): the "
            "loader then does without them"
        ) from self.error


def state_of(part: Any) -> Any:
    """Return a deep copy of ``part.state_dict()``, or a ``FailedState`` if that fails."""
    try:
        return copy.deepcopy(part.state_dict())
    except Exception as error:
        why = "; ".join([text_of(error), *notes_of(error)])
        # frames refer to the iterator
        return FailedState(type(part).__name__, why, drop_frames(error))


def dataset_state(dataset: Any) -> Any:
    """Return a copy of the dataset's state (see ``state_of``),
    or None if the dataset has no ``state_dict()``.
    """
    if not is_stateful(dataset):
        return None
    return state_of(dataset)


def describe_loader(loader: Any) -> dict[str, Any]:
    """Return the settings of *loader* to save under the key ``loader``:
    dataset style, batch size, ``drop_last``.
    """
    batch_size, drop_last = loader.batch_size, loader.drop_last
    if batch_size is None and loader.batch_sampler is not None:
        # As if torch had made the batch sampler: wrappers of loaders turn one into the other.
        batch_size = optional(loader.batch_sampler, "batch_size")
        drop_last = optional(loader.batch_sampler, "drop_last") is True
        if type(batch_size) is not int:
            batch_size = "batch_sampler"
    style = "iterable" if is_iterable(loader) else "map"
    return {"style": style, "batch_size": batch_size, "drop_last": bool(drop_last)}


def make_state(loader: Mapping[str, Any], **parts: Any) -> dict[str, Any]:
    """Return a state dictionary with *loader* (from ``describe_loader``),
    *parts* and defaults for other parts.
    """
    state: dict[str, Any] = {"format": FORMAT, "version": VERSION, "loader": dict(loader)}
    filled = replace(NOTHING, **parts)
    for name in SavedState.__dataclass_fields__:
        value = getattr(filled, name)
        if isinstance(value, tuple):
            value = list(value)
        state[name] = value
    return state


def parse(state: Any) -> SavedState:
    """Return a copy of *state* as ``SavedState``. Raise ``ValueError``
    if *state* is not in this version's format.
    """
    _check_format(state)
    parts = {name: copy.deepcopy(state[name]) for name in SavedState.__dataclass_fields__}
    for name in ("ahead", "workers", "datasets"):
        if parts[name] is not None:
            parts[name] = tuple(parts[name])
    return SavedState(**parts)


def _check_format(state: Any) -> None:
    """Raise ``ValueError`` if *state* is not in this version's format."""
    if not isinstance(state, Mapping):
        raise ValueError(f"the state must be a dictionary from state_dict(), not {type(state)}")
    if "_snapshot" in state or "_sampler_iter_yielded" in state:
        raise ValueError(
            "this is a state of torchdata's StatefulDataLoader, which counts differently: "
            "finish that epoch with StatefulDataLoader and save ftloader.DataLoader's from then on"
        )
    if state.get("format") != FORMAT:
        first = ", ".join(map(repr, list(state)[:5]))
        raise ValueError(
            f"this is not a state of ftloader.DataLoader (it has the keys {first or 'of no state'})"
        )
    if state.get("version") != VERSION:
        raise ValueError(
            f"the state has version {state.get('version')!r}, and this loader reads version "
            f"{VERSION}: load it with the release of the loader that saved it"
        )
    expected = {"format", "version", "loader", *SavedState.__dataclass_fields__}
    if set(state) - {"_iterator_finished"} != expected:  # Accelerate's loaders add this
        keys = sorted(map(str, state))
        raise ValueError(
            f"the state is damaged or was changed: its keys are {keys}, not {sorted(expected)}"
        )


_SETTINGS = {"style": "the dataset's style"}  # words for what is no argument


def check_fit(
    state: Mapping[str, Any], resume: SavedState, loader: Any, batches: bool = True
) -> None:
    """Raise ``ValueError`` if the settings of *loader* do not fit *state*,
    which was parsed into *resume*.

    If *batches* is False, ``batch_size`` and ``drop_last`` may differ.
    """
    present, saved = describe_loader(loader), state["loader"]
    for name, value in saved.items():
        if present[name] != value and (batches or name == "style"):
            setting = _SETTINGS.get(name, name)
            raise ValueError(
                f"the state comes from a loader with another {setting}: {value!r} there, "
                f"{present[name]!r} here. The remaining batches are only defined for the same: "
                "create the DataLoader with the arguments of the saved one (num_workers, "
                "worker_method and prefetch_factor may differ)"
            )
    check_workers(resume, loader)


def lives_on(loader: Any) -> bool:
    """Return True if all epochs of an iterator use one dataset object:
    without workers, or with persistent ones.
    """
    return loader.num_workers == 0 or bool(loader.persistent_workers)


def check_workers(resume: SavedState, loader: Any) -> None:
    """Raise ``ValueError`` if the workers of *loader* cannot continue the iterable-style dataset
    saved in *resume*.
    """
    if resume.workers is None or not (resume.mid_epoch or lives_on(loader)):
        return
    saved, present = len(resume.workers), loader.num_workers
    # No worker and one worker read the same stream.
    # Any other number of workers splits it in another way.
    if max(1, present) != saved:
        remedy = f"num_workers={saved}"
        if saved == 1:
            remedy += " (or 0)"
        if resume.mid_epoch:
            remedy += " for the rest of this epoch, with threads or processes"
        else:
            remedy += (
                ", or workers with persistent_workers=False, with which every epoch begins as the "
                "loader's own dataset is"
            )
        raise ValueError(
            f"the state is that of an iterable-style dataset with {saved} worker(s), and this "
            f"loader has {present}. Such a dataset shares itself out among the workers: use "
            f"{remedy}"
        )
    if any(share["snapshot_at"] is None for share in resume.workers):
        raise ValueError(
            "the state was made at the start of an epoch after one that was left before its end, "
            "and the dataset lives on: where it was then is not known. Ask for the state once each "
            "worker has given a batch, go through epochs to their end, or use workers without "
            "persistent_workers"
        )
