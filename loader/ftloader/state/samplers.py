"""Samplers: what their order comes from, saved and put back.

How an order is found again, the first that applies:

1. The sampler (or its iterator) has ``state_dict()`` and ``load_state_dict()``: the state from the epoch's begin is
   loaded, or with ``snapshot_every_n_steps`` a later one. Under torch's own ``BatchSampler`` that goes for the sampler
   inside as well.
2. Of torch's samplers that draw from the default generator, ``seed`` (``RandomSampler``) or ``default`` (the state of
   the default generator) in the state's ``order`` say where they begin. A copy of the sampler with a generator of its
   own draws from there.
3. The random generators among the attributes of the sampler (``generator`` and any other name) and of the samplers
   inside it are put into the state that they had before the first draw (``generators``; ``generators_at_iter`` if
   ``iter(sampler)`` had drawn already), and ``set_epoch`` is called with the epoch's number.

Then it is drawn again, indices only, as far as it had been drawn, and the generators go on from where they were when
the state was made, since another loader may draw from them too. So nothing is copied but the states of generators,
whatever the dataset's length. Nothing is done to the program's own generators: an order that comes from them in another
way needs way 1, as does one that changes for any other reason. If the order found is another one than the batch last
drawn came from, that is a ``ValueError``.
"""

import copy
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler

from ftloader.rng import generators
from ftloader.rng.generators import State
from ftloader.rng.sample import canonical_bytes
from ftloader.state.format import is_iterable, is_stateful, state_of

_DRAWING = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)

_INNER = ("sampler", "batch_sampler", "_sampler", "_batch_sampler")
LOADER = "loader.generator"
ITERATOR = "iterator"


def sampler_of(loader: Any) -> Any:
    """What yields the batches' indices. Iterable-style datasets have torch's endless sampler, which is nothing to be
    kept."""
    return () if is_iterable(loader) else loader._index_sampler


def chain(index_sampler: Any) -> list[Any]:
    """*index_sampler* and the samplers inside it, each once, from the outermost."""
    found: list[Any] = []
    waiting = [index_sampler]
    while waiting:
        sampler = waiting.pop(0)
        if any(sampler is other for other in found):
            continue
        found.append(sampler)
        attributes = attributes_of(sampler)
        waiting += [attributes[name] for name in _INNER if attributes.get(name) is not None]
    return found


def attributes_of(sampler: Any) -> dict[str, Any]:
    """A copy, made in one step: it may be at work in another thread."""
    return dict(getattr(sampler, "__dict__", {}))


class OwnGenerators:
    """The generators that a loader's order could come from, the program's left out, by where they are. They are looked
    for at each call, since samplers may make new ones. Nothing is drawn."""

    def __init__(self, loader: Any) -> None:
        self._index_sampler, self._loaders = sampler_of(loader), loader.generator

    def save(self) -> dict[str, State]:
        """Their states."""
        return {path: generators.save(generator) for path, generator in self._found().items()}

    def at(self, saved: Mapping[str, State]) -> list[tuple[Any, State]]:
        """Each generator of which *saved* has a state, with that state. Raises ``ValueError`` if one is not there."""
        here = self._found()
        for path in (path for path in saved if path not in here):
            what = "generator" if path == LOADER else f"sampler's random generator ({path})"
            raise ValueError(
                f"the state comes from a loader whose {what} this one does not have: create the "
                "DataLoader with the same sampler and generator arguments as the saved one"
            )
        return [(here[path], state) for path, state in saved.items()]

    def load(self, saved: Mapping[str, State]) -> None:
        """Puts them into the states *saved*."""
        generators.load(self.at(saved))

    @contextmanager
    def standing_at(self, saved: Mapping[str, State]) -> Iterator[None]:
        """A block in which they are in the states *saved*; after it all are as before."""
        own = self.at(self.save())
        self.load(saved)
        try:
            yield
        finally:
            generators.load(own)

    def _found(self) -> dict[str, Any]:
        found = {LOADER: self._loaders}  # torch refuses what is none
        for position, sampler in enumerate(chain(self._index_sampler)):
            for name, value in attributes_of(sampler).items():
                found[f"{position}.{name}"] = value
        return {
            path: value
            for path, value in found.items()
            if generators.is_generator(value) and value is not torch.default_generator
        }


def draws_from_default(sampler: Any) -> bool:
    """Whether *sampler* is one of torch's that draw from the default generator, in their first step."""
    return type(sampler) in _DRAWING and sampler.generator in (None, torch.default_generator)


def epochs(index_sampler: Any) -> dict[str, int]:
    """The ``epoch`` of each sampler that has a ``set_epoch``, by its place in the chain."""
    return {
        str(position): sampler.epoch
        for position, sampler in enumerate(chain(index_sampler))
        if callable(getattr(sampler, "set_epoch", None)) and type(getattr(sampler, "epoch", None)) is int
    }


def set_epochs(index_sampler: Any, saved: Mapping[str, int], *, distributed: bool) -> None:
    """``set_epoch`` as saved; that of torch's ``DistributedSampler`` only if asked."""
    samplers = chain(index_sampler)
    for position, epoch in saved.items():
        sampler = samplers[int(position)] if int(position) < len(samplers) else None
        set_epoch = getattr(sampler, "set_epoch", None)
        if callable(set_epoch) and (distributed or not isinstance(sampler, DistributedSampler)):
            set_epoch(epoch)


def digest(index: Any) -> str | None:
    """A short name for what the sampler yielded; None where it has no stable form."""
    try:
        return hashlib.blake2b(canonical_bytes(index), digest_size=8).hexdigest()
    except TypeError:
        return None


def states_of(parts: Mapping[str, Any]) -> dict[str, Any]:
    """``state_of`` each of *parts*."""
    return {name: state_of(part) for name, part in parts.items()}


def load(index_sampler: Any, states: Mapping[str, Any]) -> None:
    """Loads the samplers' own states. Raises ``ValueError`` if the samplers have none."""
    check_stateful(index_sampler, states)
    for name, part in stateful_samplers(index_sampler).items():
        if name in states:
            part.load_state_dict(copy.deepcopy(states[name]))


def check_stateful(index_sampler: Any, states: Mapping[str, Any]) -> None:
    """Raises ``ValueError`` if there is no such sampler for one of the *states*."""
    for name in states.keys() - stateful_samplers(index_sampler).keys() - {ITERATOR}:
        raise lacking(name)


def stateful_samplers(index_sampler: Any) -> dict[str, Any]:
    """The samplers whose own state says where they are: *index_sampler* and, under torch's ``BatchSampler``, the
    sampler inside."""
    parts = {"sampler": index_sampler}
    if (inner := innermost(index_sampler)) is not index_sampler:
        parts["sampler inside"] = inner
    return {name: part for name, part in parts.items() if is_stateful(part)}


def innermost(index_sampler: Any) -> Any:
    """The sampler inside torch's ``BatchSampler``, else *index_sampler* itself."""
    return index_sampler.sampler if type(index_sampler) is BatchSampler else index_sampler


def lacking(name: str) -> ValueError:
    return ValueError(
        f"the state comes from a loader whose {name} has state_dict() and load_state_dict(), "
        "which this one's lacks: create the DataLoader with the same sampler"
    )
