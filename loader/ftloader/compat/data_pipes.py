"""Data pipes (``IterDataPipe``, ``MapDataPipe``) under worker threads.

torch gives each worker process its own copy of the graph of pipes, seeds its shufflers with the seed shared by all
workers and shards it by (number of workers, worker id). Threads need the same three steps, on deep copies. A
``MapDataPipe`` is shared by all threads like any map-style dataset. Only one that wants to be sharded needs processes:
which thread builds which batch is not fixed.

torch walks a graph by pickling it with hooks that are attributes of the classes, so two threads that walk, copy or
pickle graphs at the same time disturb each other. The lock of this module is held around each of torch's steps of a
walk, whoever walks, and around copies and starts of processes that this package makes. It is re-entrant, since these
call methods of the user's pipes. It is not held around ``iter(pipe)``, a sampler or ``worker_init_fn``, which may wait
for the workers of a loader over another pipe.
"""

import contextlib
import copy
import inspect
import types
from typing import Any

import torch
from torch.utils.data import IterDataPipe, MapDataPipe
from torch.utils.data.graph import traverse_dps
from torch.utils.data.graph_settings import apply_random_seed, get_all_graph_pipes

from ftloader import fork
from ftloader.compat.torch_private import (
    DataPipeSerializationWrapper,
    graph,
    list_connected_datapipes,
    sharding_worker_init_fn,
    share_dist_seed,
)

_graphs = fork.rlock()
graph._list_connected_datapipes = fork.guarded(list_connected_datapipes, _graphs)


def is_data_pipe(dataset: Any) -> bool:
    return isinstance(dataset, (IterDataPipe, MapDataPipe))


def exclusive(dataset: Any) -> contextlib.AbstractContextManager:
    """A block in which *dataset*, if it is a data pipe, may be copied or pickled. For any other dataset it costs and
    excludes nothing."""
    return _graphs if is_data_pipe(dataset) else contextlib.nullcontext()


def needs_processes(dataset: Any) -> bool:
    """True for a ``MapDataPipe`` with a pipe that is to be sharded."""
    if not isinstance(dataset, MapDataPipe):
        return False
    try:
        pipes = get_all_graph_pipes(traverse_dps(_unwrapped(dataset)))
    except Exception:
        return False  # torch cannot walk it: nor could it be sharded in a process
    return any(inspect.ismethod(getattr(pipe, "apply_sharding", None)) for pipe in pipes)


def own_copy(dataset: Any, *functions: Any) -> tuple[Any, ...]:
    """The data pipe that one worker thread uses, a deep copy of an ``IterDataPipe``, a ``MapDataPipe`` itself; and the
    functions that come with it, where they are methods of a pipe of the graph those of its copy.

    Raises ``TypeError`` if some pipe of the graph cannot be copied.
    """
    if isinstance(dataset, MapDataPipe):
        return dataset, *functions
    copies: dict[int, Any] = {}
    inner = _unwrapped(dataset)
    try:
        with _graphs:
            duplicate = copy.deepcopy(inner, copies)
    except Exception as error:
        raise TypeError(
            f"the data pipe {inner} cannot be copied with copy.deepcopy(), and each worker "
            "thread needs its own copy. Give the pipe that holds what cannot be copied (a lock, "
            "an open file, a generator) a __getstate__ that leaves it out, or use "
            "worker_method='process'"
        ) from error
    of_copies = (
        types.MethodType(function.__func__, copies[id(function.__self__)])
        if isinstance(function, types.MethodType) and id(function.__self__) in copies
        else function
        for function in functions
    )
    return duplicate if inner is dataset else type(dataset)(duplicate), *of_copies


def seed(dataset: Any, shared_seed: int | None) -> None:
    """Seeds the shufflers of a worker's own ``IterDataPipe`` for an epoch, with torch's seed for it, the same for all
    workers and ranks (``_shared_seed`` of the iterator)."""
    if isinstance(dataset, IterDataPipe) and shared_seed is not None:
        apply_random_seed(dataset, torch.Generator().manual_seed(shared_seed))


def draw_as_processes_do(dataset: Any, generator: torch.Generator | None, group: Any) -> None:
    """Draws once more from *generator*, where torch's iterator of processes does: a second ``shared_seed`` after it has
    started its workers with the first, of no use. The seeds of the following epochs are only the same if threads draw
    it too. *group*: the process group of the iterator (``_pg``), or None."""
    if isinstance(dataset, IterDataPipe):
        share_dist_seed(generator, group)


def shard(dataset: Any, world_size: int, rank: int, worker_id: int) -> None:
    """Shards a worker's own ``IterDataPipe``, over the ranks first, then over the workers; to be called where
    ``get_worker_info()`` answers for the worker. Raises ``RuntimeError`` if two pipes on one path are to be sharded."""
    if isinstance(dataset, IterDataPipe):
        sharding_worker_init_fn(None, world_size, rank, worker_id)


def _unwrapped(dataset: Any) -> Any:
    """The user's pipe: torch's DataLoader wraps it, for pickling, in one that needs a pickled copy even where a plain
    one would do."""
    return dataset._datapipe if isinstance(dataset, DataPipeSerializationWrapper) else dataset
