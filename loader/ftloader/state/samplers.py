"""Samplers: what their order comes from, saved and put back.

How an order is found again, the first that applies:

1. The sampler (or its iterator) has ``state_dict()`` and ``load_state_dict()``: they are
   used, and at most ``snapshot_every_n_steps - 1`` batches are skipped. Under torch's own
   ``BatchSampler`` that goes for the sampler inside as well.
2. The random generators that the order comes from are put into the state that they had
   before the first draw, ``set_epoch`` is called with the epoch's number, and what was
   handed over is skipped. The generators are those among the attributes of the sampler
   (``generator`` and any other name) and of the samplers inside it; for a sampler that is
   not torch's own also the process's: torch's, NumPy's and Python's.

So nothing is copied but the states of generators, whatever the dataset's length. A sampler
that goes on drawing from the process's generators during the epoch, as it yields, needs
way 1; so does one that gives another order for any other reason. If the order found is
another one than the batch last handed over came from, that is a ``ValueError``.
"""

import copy
import hashlib
from collections.abc import Mapping
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

from ftloader.canonical import canonical_bytes
from ftloader.state import generators
from ftloader.state.format import is_stateful

TORCHS = (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    # The same order whenever they are asked.
    list,
    tuple,
    range,
    torch.Tensor,
)
"""Types of samplers of which it is known what their order comes from."""

_INNER = ("sampler", "batch_sampler", "_sampler", "_batch_sampler")
GLOBAL = "global."
LOADER = "loader.generator"
ITERATOR = "iterator"


def chain(index_sampler: Any) -> list[Any]:
    """*index_sampler* and the samplers inside it, each once, from the outermost."""
    found: list[Any] = []
    waiting = [index_sampler]
    while waiting:
        sampler = waiting.pop(0)
        if any(sampler is other for other in found):
            continue
        found.append(sampler)
        attributes = getattr(sampler, "__dict__", {})
        waiting += [attributes[name] for name in _INNER if attributes.get(name) is not None]
    return found


def capture(index_sampler: Any, loader_generator: Any, always: tuple[str, ...] = ()) -> dict:
    """The states of all generators that an order could come from, by where they are.

    *always* names generators of the process to include in any case. Nothing is drawn.
    """
    samplers = chain(index_sampler)
    sources: dict[str, Any] = {}
    if loader_generator is not None:
        sources[LOADER] = loader_generator
    for position, sampler in enumerate(samplers):
        for name, value in getattr(sampler, "__dict__", {}).items():
            if generators.is_generator(value):
                sources[f"{position}.{name}"] = value
    names = {*always, *_globals_behind(samplers)}
    saved: dict[str, Any] = {}
    first: dict[int, str] = {}
    for path, generator in sources.items():
        if generator is torch.default_generator:
            names.add("torch")
        elif id(generator) in first:
            saved[path] = {"kind": "same", "as": first[id(generator)]}
        else:
            first[id(generator)] = path
            saved[path] = generators.save(generator)
    for name in sorted(names):
        saved[GLOBAL + name] = generators.save(generators.GLOBALS[name])
    return saved


def _globals_behind(samplers: list[Any]) -> tuple[str, ...]:
    """Which of the process's generators the order may come from."""
    if _is_followed(samplers[0]):
        return ()
    if not all(type(sampler) in TORCHS for sampler in samplers):
        return tuple(generators.GLOBALS)
    drawing = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
    if any(type(s) in drawing and s.generator is None for s in samplers):
        return ("torch",)
    return ()


def _is_followed(index_sampler: Any) -> bool:
    """Whether its position is kept by its own ``state_dict()``."""
    return bool(stateful_samplers(index_sampler))


def find(index_sampler: Any, loader_generator: Any, path: str) -> Any:
    """The generator that is where ``capture`` found one.

    Raises ``ValueError`` if there is none.
    """
    if path == LOADER:
        generator = loader_generator
    else:
        position, _, name = path.partition(".")
        samplers = chain(index_sampler)
        sampler = samplers[int(position)] if int(position) < len(samplers) else None
        generator = getattr(sampler, "__dict__", {}).get(name)
    if not generators.is_generator(generator):
        what = "generator" if path == LOADER else f"sampler's random generator ({path})"
        raise ValueError(
            f"the state comes from a loader whose {what} this one does not have: create the "
            "DataLoader with the same sampler and generator arguments as the saved one"
        )
    return generator


def restore(index_sampler: Any, loader_generator: Any, saved: Mapping[str, Any]) -> dict:
    """Puts the generators into the states of *saved*, except for the process's, whose
    states are returned by name (for ``generators.Elsewhere``)."""
    globals_ = {}
    for path, state in saved.items():
        if path.startswith(GLOBAL):
            globals_[path.removeprefix(GLOBAL)] = state
        else:
            source = saved[state["as"]] if state["kind"] == "same" else state
            generators.load(find(index_sampler, loader_generator, path), source)
    return globals_


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


def snapshot_of(parts: Mapping[str, Any], drawn: int = 0) -> dict | None:
    """The states of *parts* after *drawn* batches; None without parts."""
    if not parts:
        return None
    # Copies, since a state may be the sampler's own dictionary.
    states = {name: copy.deepcopy(part.state_dict()) for name, part in parts.items()}
    return {"drawn": drawn, "states": states}


def stateful_samplers(index_sampler: Any) -> dict[str, Any]:
    """The samplers whose own state says where they are: *index_sampler* and, under torch's
    ``BatchSampler``, the sampler inside."""
    parts = {"sampler": index_sampler}
    if (inner := innermost(index_sampler)) is not index_sampler:
        parts["sampler inside"] = inner
    return {name: part for name, part in parts.items() if is_stateful(part)}


def innermost(index_sampler: Any) -> Any:
    """The sampler inside torch's ``BatchSampler``, else *index_sampler* itself."""
    return index_sampler.sampler if type(index_sampler) is BatchSampler else index_sampler


def not_shuffled(index_sampler: Any) -> ValueError:
    """The error for a state of a shuffling loader that this sampler cannot use."""
    return ValueError(
        "the state comes from a loader with shuffle=True (or a RandomSampler), and this one has a "
        f"{type(innermost(index_sampler)).__name__}: create it with the same sampler"
    )


def lacking(name: str) -> ValueError:
    return ValueError(
        f"the state comes from a loader whose {name} has state_dict() and load_state_dict(), "
        "which this one's lacks: create the DataLoader with the same sampler"
    )
