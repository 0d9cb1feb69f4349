"""Keeps a loader's state from one iterator to the next: a loaded state,
or the progress of the latest epoch.
"""

import copy
from collections.abc import Mapping
from typing import Any

from ftloader import fork
from ftloader.compat.lightning import check_lightning
from ftloader.protocols import is_iterable
from ftloader.state import format as states
from ftloader.state import samplers
from ftloader.state.progress import EpochProgress
from ftloader.state.samplers import OwnGenerators


class StateStore:
    """Holder of a loaded state or, once an iterator has started,
    of the progress of the latest epoch.

    The store does not refer to the iterator. Copies and pickles of a loader get the loaded state,
    not the progress.

    ``_now``, a pair of loaded state and progress, is replaced in one step. The lock ``starting`` is
    held while an epoch starts or a state between epochs is made: both use the random generators. It
    is reentrant: user code runs under it.
    """

    def __init__(self, loaded: tuple[Mapping[str, Any], states.SavedState] | None = None) -> None:
        self.starting = fork.rlock()
        self._now: tuple[
            tuple[Mapping[str, Any], states.SavedState] | None, EpochProgress | None
        ] = loaded, None

    def __reduce__(self) -> tuple:
        return StateStore, (self._now[0],)

    @property
    def saved(self) -> states.SavedState:
        """The loaded state that no iterator has used yet, or ``NOTHING``."""
        loaded = self._now[0]
        if loaded is None:
            return states.NOTHING
        return loaded[1]

    @property
    def latest(self) -> EpochProgress | None:
        """The progress of the latest epoch; None if a state was loaded since."""
        return self._now[1]

    def resumed_length(self, index_sampler: Any) -> int | None:
        """Return ``samplers.resumed_length`` of the loaded state,
        or of the epoch that was started from it.
        """
        loaded, progress = self._now
        if loaded is not None:
            return samplers.resumed_length(loaded[1], index_sampler)
        if progress is None or progress.finished:
            return None
        return progress.length

    def began(self, progress: EpochProgress) -> None:
        """Record *progress* as that of the latest epoch,
        and drop the loaded state, which has been used.
        """
        self._now = None, progress

    def load(self, state: Mapping[str, Any], loader: Any) -> None:
        """Check and keep *state* for the next iterator. If it is invalid,
        raise ``ValueError`` and change nothing.
        """
        elastic = samplers.elastic(loader._index_sampler)
        if state == {}:
            if elastic is not None:
                samplers.load(loader._index_sampler, {elastic: {}})
            self._now = None, None
            return
        resume = samplers.rest_as_epoch(states.parse(state), loader._index_sampler)
        states.check_fit(state, resume, loader, batches=elastic is None or resume.mid_epoch)
        _check_parts(resume, loader)
        if elastic is not None and not resume.mid_epoch and resume.sampler is not None:
            # Or an error. The next iterator loads it again, since the program may have set another
            # epoch until then.
            samplers.load(loader._index_sampler, resume.sampler["states"])
        # At once, since other loaders may draw from them before the next iterator is made.
        OwnGenerators(loader).load(resume.generators or {})
        self._now = (copy.deepcopy(dict(state)), resume), None
        if not resume.mid_epoch:
            # Not later, so that the program may set another epoch before the next pass.
            _begin_next_pass(resume, loader)

    def state(self, loader: Any) -> dict[str, Any]:
        loaded, progress = self._now
        if loaded is not None or progress is None or progress.finished:
            with self.starting:  # and look again: an epoch may have started in between
                loaded, progress = self._now
                if loaded is not None:
                    saved, resume = loaded
                    state = copy.deepcopy(dict(saved))
                    # The generators as they are now: other loaders may draw from them.
                    if resume.generators is not None:
                        state["generators"] = OwnGenerators(loader).save()
                    return state
                if progress is None or progress.finished:
                    return _between_epochs(loader, progress)
        state = progress.state(OwnGenerators(loader).save)
        if state["loader"]["style"] == "map":
            _add_datasets(state, states.dataset_state(loader.dataset))
        return state


def _add_datasets(state: dict[str, Any], dataset_state: Any) -> None:
    """Add to *state* the state of the loader's map-style dataset.
    Raise the error of a state that could not be taken.
    """
    if type(dataset_state) is states.FailedState:
        copy.deepcopy(dataset_state)  # raises
    workers = state["datasets"]
    if workers is None:
        state["dataset"] = dataset_state
        return
    for worker_id, worker_state in enumerate(workers):
        # before a worker's first message its copy is like the loader's dataset
        if worker_state is None:
            workers[worker_id] = dataset_state


def load_iterable(dataset: Any, state: Any) -> bool:
    """Load *state* into *dataset*, unless the dataset is in that state already.
    Return True if it was loaded.
    """
    # load_state_dict() may put a dataset into the middle of a pass, even with the state that the
    # dataset has already.
    if states.same(dataset.state_dict(), state):
        return False
    dataset.load_state_dict(copy.deepcopy(state))
    return True


def _begin_next_pass(resume: states.SavedState, loader: Any) -> None:
    """Load into the sampler or the dataset the state between two epochs *resume*."""
    if not is_iterable(loader):
        samplers.set_epochs(loader._index_sampler, resume.order["epochs"], distributed=False)
    elif loader.num_workers == 0 and resume.workers is not None:
        snapshot = resume.workers[0]["snapshot"]
        if snapshot is not None and load_iterable(loader.dataset, snapshot["states"]["dataset"]):
            iter(loader.dataset)  # see ``ftloader.state.format``
    elif resume.dataset is not None:
        load_iterable(loader.dataset, resume.dataset)


def _between_epochs(loader: Any, progress: EpochProgress | None) -> dict[str, Any]:
    """Return the state after the epoch of *progress*,
    or before the first epoch if *progress* is None.
    """
    index_sampler = loader._index_sampler
    parts: dict[str, Any] = {"phase": "begin", "dataset": None}
    if progress is not None:
        parts["phase"] = "end"
        if loader.persistent_workers:
            parts["base_seed"] = progress.fixed["base_seed"]
            parts["epoch"] = progress.fixed["epoch"] + 1
    parts["sampler"] = _next_snapshot(index_sampler, progress)
    if is_iterable(loader) and progress is not None and states.lives_on(loader):
        parts["dataset"] = progress.fixed["dataset"]
        if parts["dataset"] is not None:
            parts["workers"] = progress.next_shares()
    else:
        parts["dataset"] = states.dataset_state(loader.dataset)
    parts["order"] = {"generators": {}, "epochs": samplers.epochs(index_sampler)}
    state = states.make_state(
        states.describe_loader(loader), generators=OwnGenerators(loader).save(), **parts
    )
    return copy.deepcopy(state)  # parts belong to the progress, which the next epoch uses


def _next_snapshot(index_sampler: Any, progress: EpochProgress | None) -> Mapping[str, Any] | None:
    """Return the samplers' states from which the pass after that of *progress* starts, or None."""
    if progress is None or samplers.elastic(index_sampler) is not None:
        stateful = samplers.stateful_samplers(index_sampler)
        if not stateful:
            return None
        return {"drawn": 0, "states": samplers.next_pass_states(stateful)}
    if not progress.snapshots:
        return None
    return progress.snapshots[-1]


def _check_parts(resume: states.SavedState, loader: Any) -> None:
    """Raise ``ValueError`` if samplers or dataset of *loader* cannot continue from *resume*."""
    _check_samplers(resume, loader)
    length = samplers.resumed_length(resume, loader._index_sampler)
    if length is not None:
        check_lightning(length, len(loader), len(loader._index_sampler))
    if any(state is not None for state in (resume.dataset, *(resume.datasets or ()))):
        states.require_stateful(loader.dataset, "dataset")


def _check_samplers(resume: states.SavedState, loader: Any) -> None:
    """Raise ``ValueError`` if the samplers of *loader* cannot continue from the state *resume*."""
    index_sampler, order = loader._index_sampler, resume.order
    for saved in (
        order["generators"],
        order.get("generators_at_iter", {}),
        resume.generators or {},
    ):
        OwnGenerators(loader).at(saved)  # or an error
    ranks = samplers.ranks(index_sampler)
    if resume.mid_epoch and (saved_ranks := order.get("ranks", ranks)) != ranks:
        raise ValueError(
            f"the state is from the middle of an epoch that {saved_ranks} rank(s) share, and this "
            f"loader's sampler divides it among {ranks}. Use "
            "ftloader.distributed.DistributedSampler, with which the number of ranks may change, "
            "or a state from between two epochs, or the same number of ranks"
        )
    inner = samplers.innermost(index_sampler)
    if ("seed" in order or "default" in order) and not samplers.draws_from_default(inner):
        raise ValueError(
            "the state comes from a loader with shuffle=True (or another of torch's random "
            f"samplers), and this one has a {type(inner).__name__}: create it with the same sampler"
        )
    if resume.sampler is not None:
        samplers.check_stateful(index_sampler, resume.sampler["states"])
