"""Saves the values from which a sampler's order can be rebuilt, and restores them.

An order is rebuilt in the first of these ways that applies:

1. The sampler (or its iterator, or the sampler inside torch's ``BatchSampler``) has
   ``state_dict()`` and ``load_state_dict()``: the state from the start of the epoch, or a later
   one, is loaded.
2. For torch's samplers that draw from the default generator, the state's ``order`` has ``seed``
   (``RandomSampler``) or ``default`` (the default generator's state). A copy of the sampler draws
   from a generator with this seed or state.
3. Random generators that are attributes (of any name) of the sampler, or of samplers inside it, get
   the states that they had before the first draw: ``generators``, or ``generators_at_iter`` if
   ``iter(sampler)`` has drawn. Also, ``set_epoch`` is called with the epoch's number.

Then the indices are drawn again, up to the point of the state. Then the generators get the states
that they had when the loader's state was saved, since another loader may draw from them too. An
order that comes from the program's global generators, or changes for another reason, needs way 1. A
digest of the last batch drawn shows whether the rebuilt order is the saved one.

An *elastic* sampler (``ftloader.distributed.DistributedSampler``) is asked for its state after each
batch. So the loader's state has the sampler's state at the batch that the training loop was given
last, and nothing is drawn again (``rest_as_epoch``). The rest of the epoch may go to another number
of ranks, in batches of another size.
"""

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from ftloader.diagnosis.lookups import attributes_of, is_a, optional
from ftloader.protocols import is_elastic, is_stateful
from ftloader.rng import generators
from ftloader.rng.generators import State
from ftloader.rng.sample import canonical_bytes
from ftloader.state.format import SavedState, state_of

_DRAWING = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)

_TORCHS = {BatchSampler, DistributedSampler, SequentialSampler, *_DRAWING}
_INNER = ("sampler", "batch_sampler", "_sampler", "_batch_sampler")
LOADER = "loader.generator"
ITERATOR = "iterator"


def chain(index_sampler: Any) -> list[Any]:
    """Return *index_sampler* and all samplers inside it, the outermost first."""
    samplers = [index_sampler]
    for sampler in samplers:
        for name in _INNER:
            inner = attributes_of(sampler).get(name)
            if inner is not None and all(inner is not other for other in samplers):
                samplers.append(inner)
    return samplers


def draw_only_at_first(index_sampler: Any) -> bool:
    """Return True if all samplers are torch's, which draw nothing once they have yielded."""
    return all(type(sampler) in _TORCHS for sampler in chain(index_sampler))


class OwnGenerators:
    """Random generators that a loader or its samplers hold, except torch's default one. Each call
    finds them again.
    """

    def __init__(self, loader: Any) -> None:
        self._index_sampler, self._loaders = loader._index_sampler, loader.generator

    def now(self) -> list[tuple[Any, State]]:
        """Return (generator, its current state) for each of the generators."""
        return self.at(self.save())

    def save(self) -> dict[str, State]:
        return {path: generators.save(generator) for path, generator in self._found().items()}

    def at(self, saved: Mapping[str, State]) -> list[tuple[Any, State]]:
        """Return (generator, state) for each state in *saved*. Raise ``ValueError`` if the loader
        lacks a generator.
        """
        positions = self._found()
        for path in (path for path in saved if path not in positions):
            kind = "generator"
            if path != LOADER:
                kind = f"sampler's random generator ({path})"
            raise ValueError(
                f"the state comes from a loader whose {kind} this one does not have: create the "
                "DataLoader with the same sampler and generator arguments as the saved one"
            )
        return [(positions[path], state) for path, state in saved.items()]

    def load(self, saved: Mapping[str, State]) -> None:
        generators.load(self.at(saved))

    def _found(self) -> dict[str, Any]:
        values = {LOADER: self._loaders}  # torch has checked its type
        for position, sampler in enumerate(chain(self._index_sampler)):
            for name, value in attributes_of(sampler).copy().items():
                values[f"{position}.{name}"] = value
        return {
            path: value
            for path, value in values.items()
            if is_a(value, generators.KINDS) and value is not torch.default_generator
        }


def draws_from_default(sampler: Any) -> bool:
    """Return True if *sampler* is one of torch's samplers
    and draws from torch's default generator.
    """
    return type(sampler) in _DRAWING and sampler.generator in (None, torch.default_generator)


def epochs(index_sampler: Any) -> dict[str, int]:
    """Return {position in ``chain()``: current ``epoch``}
    for the samplers that have ``set_epoch``.
    """
    return {
        str(position): sampler.epoch
        for position, sampler in enumerate(chain(index_sampler))
        if callable(optional(sampler, "set_epoch")) and type(optional(sampler, "epoch")) is int
    }


def ranks(index_sampler: Any) -> int:
    """Return the number of ranks among which a sampler in ``chain()`` divides the samples; 1 if
    none does that.
    """
    # The names of torch's DistributedSampler, and of the batch sampler that Accelerate makes.
    names = ("num_replicas", "num_processes")
    numbers = (optional(sampler, name) for sampler in chain(index_sampler) for name in names)
    return next((int(number) for number in numbers if is_a(number, int)), 1)


def set_epochs(index_sampler: Any, saved: Mapping[str, int], *, distributed: bool) -> None:
    """Call ``set_epoch`` of each sampler in ``chain(index_sampler)``
    that has an epoch in *saved* (see ``epochs``).

    If *distributed* is False, leave out samplers of the class ``DistributedSampler``.
    """
    samplers = chain(index_sampler)
    for position, epoch in saved.items():
        if int(position) >= len(samplers):
            continue
        sampler = samplers[int(position)]
        set_epoch = optional(sampler, "set_epoch")
        if callable(set_epoch) and (distributed or not is_a(sampler, DistributedSampler)):
            set_epoch(epoch)


def digest(index: Any) -> str | None:
    """Return a short hash of *index*, which a sampler yielded;
    None if ``canonical_bytes`` cannot convert it.
    """
    try:
        return hashlib.blake2b(canonical_bytes(index), digest_size=8).hexdigest()
    except TypeError:
        return None


def next_pass_states(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return, for each sampler of *parts* ({name: sampler}),
    the state from which the next pass will start.
    """
    states = {}
    for name, part in parts.items():
        # After a pass, only an elastic sampler's own state is still that of the pass.
        if is_elastic(part):
            states[name] = part.next_pass_state()
        else:
            states[name] = state_of(part)
    return states


def elastic(index_sampler: Any) -> str | None:
    """Return the name of the elastic sampler, as in ``stateful_samplers()``;
    None if no sampler is elastic.
    """
    return next(
        (name for name, part in stateful_samplers(index_sampler).items() if is_elastic(part)), None
    )


def rest_as_epoch(resume: SavedState, index_sampler: Any) -> SavedState:
    """For an elastic sampler, return *resume* as the start of an epoch that consists of the rest of
    the saved epoch.

    Return *resume* itself if no sampler is elastic (``is_elastic``), or the sampler's state in
    *resume* does not belong to the last batch handed over.
    """
    name = elastic(index_sampler)
    if name is None or resume.sampler is None:
        return resume
    # The name depends on batch_size, which may be another one. An elastic sampler is the only one
    # with a state.
    saved = next(iter(resume.sampler["states"].values()))
    sampler = {"drawn": 0, "states": {name: saved}}
    if not resume.mid_epoch:
        return replace(resume, sampler=sampler)
    if resume.ahead:
        check_ranks(saved, stateful_samplers(index_sampler)[name])
    if resume.ahead or resume.sampler["drawn"] != resume.handed_over:
        return resume
    order: dict[str, Any] = {"generators": {}, "epochs": {}}
    steps_before = resume.steps_before + resume.handed_over
    nothing = replace(
        resume, drawn=0, ended=False, handed_over=0, last=None, steps_before=steps_before
    )
    return replace(nothing, phase="begin", order=order, sampler=sampler)


def resumed_length(resume: SavedState, index_sampler: Any) -> int | None:
    """Return the number of batches of the epoch that *resume* continues: those handed over before,
    and those left.

    Return None for an epoch that no state of an elastic sampler continues: the sampler knows the
    length of that.
    """
    name = elastic(index_sampler)
    if name is None or resume.sampler is None or not resume.steps_before:
        return None
    left = stateful_samplers(index_sampler)[name].samples_left(
        next(iter(resume.sampler["states"].values()))
    )
    if type(index_sampler) is BatchSampler:
        size = index_sampler.batch_size
        if index_sampler.drop_last:
            left //= size
        else:
            left = -(-left // size)
    return resume.steps_before + resume.sampler["drawn"] + left


def check_ranks(state: Any, sampler: Any) -> None:
    """Raise ``ValueError`` if the sampler state *state* was saved
    with another number of ranks than *sampler* has.
    """
    if isinstance(state, Mapping) and state.get("num_replicas") != sampler.num_replicas:
        raise ValueError(
            "the state was taken when later batches had been handed over before earlier ones "
            f"(in_order=False), so only the same number of ranks, {state.get('num_replicas')}, can "
            f"continue it, and this loader's sampler has {sampler.num_replicas}. Use a state from "
            "between two epochs, or take states with in_order=True"
        )


def check_skipping(index_sampler: Any) -> None:
    """Raise ``ValueError`` if *index_sampler* leaves out batches at the start of an epoch's rest
    that was loaded.
    """
    skipped = optional(index_sampler, "skip_batches", 0)  # of Accelerate's SkipBatchSampler
    if skipped and any(
        is_elastic(part) and part.next_pass_state()["given"] for part in chain(index_sampler)
    ):
        raise ValueError(
            f"skip_first_batches() would leave out {skipped} batches that were never trained: the "
            "loaded state starts after the trained ones. Iterate over the loader that has loaded "
            "the state itself, or load no state"
        )


def load(index_sampler: Any, states: Mapping[str, Any]) -> None:
    """Load *states* into the samplers. Raise ``ValueError`` if a sampler cannot load its state."""
    check_stateful(index_sampler, states)
    for name, part in stateful_samplers(index_sampler).items():
        if name in states:
            part.load_state_dict(copy.deepcopy(states[name]))


def check_stateful(index_sampler: Any, states: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` if one of *states* ({sampler's name: state}) has no sampler here that
    can load it.
    """
    for name in states.keys() - stateful_samplers(index_sampler).keys() - {ITERATOR}:
        raise lacking(name)


def stateful_samplers(index_sampler: Any) -> dict[str, Any]:
    """Return {name: sampler}: *index_sampler* and ``innermost(index_sampler)``,
    if they have ``state_dict()``.
    """
    parts = {"sampler": index_sampler}
    if (inner := innermost(index_sampler)) is not index_sampler:
        parts["sampler inside"] = inner
    return {name: part for name, part in parts.items() if is_stateful(part)}


def innermost(index_sampler: Any) -> Any:
    """Return the sampler inside *index_sampler* if that is torch's ``BatchSampler``,
    else *index_sampler* itself.
    """
    if type(index_sampler) is BatchSampler:
        return index_sampler.sampler
    return index_sampler


def lacking(name: str) -> ValueError:
    """Return the error for a saved state that this loader's sampler, called *name*, cannot load."""
    return ValueError(
        f"the state comes from a loader whose {name} has state_dict() and load_state_dict(), "
        "which this one's lacks: create the DataLoader with the same sampler"
    )
