"""The state of a loader, between its iterators: kept by ``DataLoader`` as ``_states``."""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from torch.utils.data import RandomSampler

from ftloader import fork_locks
from ftloader.state import generators, samplers
from ftloader.state.format import (
    Resume,
    check_fit,
    dataset_state,
    describe_loader,
    is_iterable,
    is_stateful,
    lives_on,
    load_iterable,
    make_state,
    parse,
)
from ftloader.state.generators import State
from ftloader.state.progress import Progress


class StateKeeper:
    """What was loaded and not yet used, and the progress of the latest iterator.

    It does not refer to the iterator, so one that is dropped is collected as ever. Copies
    and pickles of a loader get what was loaded, not the progress.

    ``_lock`` guards the attributes, is held for a few assignments only, and no other is
    taken under it; reentrant for signal handlers that save a state (see ``Progress``), which
    is always in one of the attributes. ``_starting`` is held while an epoch starts
    (``iter(sampler)`` included, hence reentrant) and while a state between two epochs is made,
    since both concern the generators that the epoch is about to draw from.
    """

    def __init__(self) -> None:
        self._starting = fork_locks.rlock()
        self._lock = fork_locks.rlock()
        self._loaded: tuple[Mapping[str, Any], Resume] | None = None
        self._claimed: tuple[Mapping[str, Any], Resume] | None = None
        self._progress: Progress | None = None

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {"_loaded": self._loaded or self._claimed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        StateKeeper.__init__(self)
        self._loaded = state["_loaded"]

    # For iterators

    @contextmanager
    def starting(self) -> Iterator[None]:
        """The block starts an epoch of an iterator that there is, and ends in ``began``."""
        with self._starting:
            yield

    @contextmanager
    def claimed(self) -> Iterator[Resume | None]:
        """The block makes an iterator, and ends in ``began``. It has what was loaded, which
        no other iterator gets, unless the block raises."""
        with self._starting:
            loaded = None
            try:
                with self._lock:
                    loaded = self._loaded
                    if loaded is not None:
                        self._claimed = loaded
                    self._loaded = None
                yield loaded[1] if loaded is not None else None
            except BaseException:
                with self._lock:
                    if loaded is not None and self._claimed is loaded:
                        self._loaded, self._claimed = loaded, None
                raise

    def latest(self) -> Progress | None:
        """The progress of the latest epoch, unless a state was loaded since."""
        with self._lock:
            return self._progress

    def began(self, progress: Progress) -> None:
        """The latest epoch is that of *progress*."""
        with self._lock:
            self._progress, self._claimed = progress, None

    # For the loader

    def load(self, state: Mapping[str, Any], loader: Any) -> None:
        """Checks *state* and keeps it for the next iterator. Raises ``ValueError``, and then
        nothing has changed."""
        loaded = None
        if state != {}:
            resume = parse(state)
            check_fit(state, resume, loader)
            _check_samplers(resume, loader)
            _check_dataset(resume, loader)
            # At once, since other loaders may draw from them before the next iterator is made.
            own = samplers.of_objects(resume.generators or {})
            generators.load(samplers.find(samplers.sampler_of(loader), loader.generator, own))
            if not resume.midst and samplers.stand_at(samplers.of_process(resume.generators)):
                resume = replace(resume, generators=own)  # the program has put the process's back
            loaded = copy.deepcopy(dict(state)), resume
        with self._lock:
            self._loaded, self._claimed, self._progress = loaded, None, None
        if loaded is not None and not resume.midst:
            # Here, so that the caller may set another epoch for the pass that comes.
            if is_iterable(loader):
                if resume.dataset is not None:
                    load_iterable(loader.dataset, resume.dataset)
                return
            samplers.set_epochs(loader._index_sampler, resume.order["epochs"], distributed=False)

    def state(self, loader: Any) -> dict[str, Any]:
        """The state of *loader*."""
        with self._lock:
            progress = self._progress if self._loaded is None and self._claimed is None else None
        if progress is None or progress.is_finished:
            with self._starting:  # and look again: an epoch may have started meanwhile
                with self._lock:
                    loaded, claimed, progress = self._loaded, self._claimed, self._progress
                if loaded is not None:
                    return _not_yet_used(loader, *loaded)
                if claimed is not None:  # this thread is in the midst of making the iterator
                    return copy.deepcopy(dict(claimed[0]))
                if progress is None or progress.is_finished:
                    return _between_epochs(loader, progress)
        state = progress.state(samplers.digest, lambda: samplers.of_objects(_generators(loader)))
        if state["loader"]["style"] == "map":
            own = dataset_state(loader.dataset)
            if state["datasets"] is None:
                state["dataset"] = own
            else:  # of a worker that has not said anything yet, its copy is as the loader's is
                state["datasets"] = [own if given is None else given for given in state["datasets"]]
        return state


def _generators(loader: Any) -> dict[str, State]:
    # Without a generator of its own the loader draws its base seed from torch's.
    always = ("torch",) if loader.generator is None else ()
    return samplers.capture(samplers.sampler_of(loader), loader.generator, always)


def _not_yet_used(loader: Any, state: Mapping[str, Any], resume: Resume) -> dict[str, Any]:
    """What was loaded, with the generators as they are now: other loaders may draw from them."""
    now = None
    if resume.generators is not None:
        now = _generators(loader)
        kept = samplers.of_process(resume.generators)  # to be gone on from in any case
        now = samplers.of_objects(now) if resume.midst else now | kept
    return {**copy.deepcopy(dict(state)), "generators": now}


def _between_epochs(loader: Any, progress: Progress | None) -> dict[str, Any]:
    index_sampler = samplers.sampler_of(loader)
    parts: dict[str, Any] = {"phase": "begin" if progress is None else "end"}
    if progress is not None and loader.persistent_workers:
        parts["base_seed"], parts["epoch"] = progress.next_epoch()
    if progress is not None:
        parts["sampler"] = progress.last_snapshot()
    elif stateful := samplers.stateful_samplers(index_sampler):
        parts["sampler"] = {"drawn": 0, "states": samplers.states_of(stateful)}
    if is_iterable(loader) and progress is not None and lives_on(loader):
        parts["workers"] = tuple(progress.next_shares(ahead=loader.num_workers > 0))
        parts["dataset"] = progress.dataset
    else:
        parts["dataset"] = dataset_state(loader.dataset)
    parts["order"] = {"generators": {}, "epochs": samplers.epochs(index_sampler)}
    state = make_state(describe_loader(loader), generators=_generators(loader), **parts)
    return copy.deepcopy(state)  # of the progress, which its next epoch goes on from


def _check_samplers(resume: Resume, loader: Any) -> None:
    index_sampler = samplers.sampler_of(loader)
    for saved in (resume.order["generators"], resume.order.get("generators_at_iter", {}), resume.generators or {}):
        samplers.find(index_sampler, loader.generator, saved)
    if "seed" in resume.order and type(samplers.innermost(index_sampler)) is not RandomSampler:
        raise samplers.not_shuffled(index_sampler)
    if resume.sampler is not None:
        samplers.check_stateful(index_sampler, resume.sampler["states"])


def _check_dataset(resume: Resume, loader: Any) -> None:
    states = [resume.dataset, *(resume.datasets or ())]
    if any(state is not None for state in states) and not is_stateful(loader.dataset):
        raise ValueError(
            "the state holds one of the dataset, but the dataset "
            f"({type(loader.dataset).__name__}) has no state_dict() and load_state_dict(): use "
            "the dataset that the state was saved with"
        )
