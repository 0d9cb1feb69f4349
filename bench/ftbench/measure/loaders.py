"""The candidates' loaders: this project's, and its peers at the best settings that they document.

All take samples 0, 1, 2, ... in order, beginning again at the dataset's end, and give batches of
torch's default_collate in that order, so that every candidate's batches can be compared. All get
the same number of workers; what else they run (a reading, sorting or event loop thread) is theirs.
Memory is not pinned, unless a scenario asks for it. What they are made of is imported when they are opened.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from ftbench.measure.bare_loop import BareLoop
from ftbench.plan.scenario import Task
from ftrun.parent_death import worker_init


class EpochSampler:
    """Indices `first`, `first` + 1, ... over `count` samples, beginning again after `length`.

    `count` and `first` are set between epochs by the consumer's thread.
    """

    def __init__(self, length: int):
        self.length = length
        self.count = self.first = 0

    def __iter__(self) -> Iterator[int]:
        return (index % self.length for index in range(self.first, self.first + self.count))

    def __len__(self) -> int:
        return self.count


def _batches(dataset: Any) -> Callable[[list[int]], Any]:
    """Builds a batch from its indices, in a peer's worker threads."""
    from torch.utils.data import default_collate

    return lambda indices: default_collate([dataset[index] for index in indices])


class Repeated:
    """A loader that is started anew for each epoch by `start`, over what its sampler then has."""

    def __init__(self, start: Callable[[], Iterator], sampler: EpochSampler):
        self._start: Callable[[], Iterator] | None = start
        self._sampler = sampler

    def epoch(self, samples: int, first: int = 0) -> Iterator:
        """An iterator over the batches of so many samples, from the first one on."""
        assert self._start
        self._sampler.count, self._sampler.first = samples, first
        return self._start()

    def close(self) -> None:
        """Let the loader go; its iterator ends the workers."""
        self._start = None


def _torch(task: Task, dataset: Any, persistent: bool, kind: type | None = None, **options: Any) -> Repeated:
    """torch.utils.data.DataLoader with worker processes, or one that is called as that is; `options` come first.

    https://pytorch.org/docs/2.10/data.html: persistent_workers keeps the processes and their dataset
    between epochs; prefetch_factor is the number of batches loaded in advance by each worker (its
    default is 2, which is what all get here). The start method is the platform's.
    """
    from torch.utils.data import DataLoader

    kind, sampler = kind or DataLoader, EpochSampler(len(dataset))
    usual = {
        "num_workers": task.workers,
        "prefetch_factor": task.prefetch_factor,
        "persistent_workers": persistent,
        "worker_init_fn": worker_init,
    }
    loader = kind(dataset, batch_size=task.batch_size, sampler=sampler, **{**usual, **options})
    return Repeated(loader.__iter__, sampler)


def _ours(task: Task, dataset: Any, persistent: bool, **options: Any) -> Repeated:
    """This project's DataLoader."""
    from ftloader import DataLoader

    return _torch(task, dataset, persistent, DataLoader, **options)


_processes = functools.partial(_ours, worker_method="process")
_threads = functools.partial(_ours, worker_method="thread", worker_init_fn=None)
# Samples are loaded by whoever asks for a batch.
_serial = functools.partial(_ours, num_workers=0, prefetch_factor=None, persistent_workers=False, worker_init_fn=None)


def _nodes(task: Task, dataset: Any, _persistent: bool) -> Repeated:
    """torchdata.nodes with threads, put together as its own guide replaces a DataLoader.

    https://pytorch.org/data/0.11/migrate_to_nodes_from_utils.html, "Map-Style Datasets": sampler,
    Batcher, a ParallelMapper that fetches and collates a whole batch, in order, with method="thread",
    and a Prefetcher of 2 * num_workers batches. Its threads are started anew for each epoch.
    """
    from torchdata.nodes import Batcher, Loader, ParallelMapper, Prefetcher, SamplerWrapper

    sampler = EpochSampler(len(dataset))
    node = Batcher(SamplerWrapper(sampler), batch_size=task.batch_size, drop_last=False)
    node = ParallelMapper(node, map_fn=_batches(dataset), num_workers=task.workers, in_order=True, method="thread")
    return Repeated(Loader(Prefetcher(node, prefetch_factor=2 * task.workers)).__iter__, sampler)


def _spdl(task: Task, dataset: Any, _persistent: bool, singly: bool = False) -> Repeated:
    """spdl.pipeline whose stage builds a whole batch, in as many threads as there are workers.

    https://facebookresearch.github.io/spdl/0.8.0/generated/spdl.pipeline.PipelineBuilder.html: the
    concurrency of a stage and num_threads of the pool that runs it are the two settings of parallelism;
    output_order="input" keeps the order; use_thread_output_queue is documented as the low-latency way
    to hand batches over. Batches of indices go in, as spdl's image_dataloading example does with batches
    of paths (https://facebookresearch.github.io/spdl/main/examples.html). max_failures=0, so that a
    failing sample is no shorter epoch.

    `singly` is the other documented shape: a stage that takes single samples, one that gathers them and one that
    collates, as in https://facebookresearch.github.io/spdl/latest/optimization_guide/setup.html and in
    spdl.dataloader.DataLoader, whose settings these are.
    """
    from spdl.pipeline import PipelineBuilder
    from torch.utils.data import BatchSampler, default_collate

    sampler = EpochSampler(len(dataset))
    stage = {"concurrency": task.workers, "output_order": "input"}

    def start() -> Iterator:
        """Run a new pipeline to its end, or until the iterator is closed."""
        new = PipelineBuilder()
        if singly:
            built = new.add_source(sampler).pipe(dataset.__getitem__, **stage).aggregate(task.batch_size)
            built = built.pipe(default_collate, **stage)
        else:
            batches = BatchSampler(sampler, task.batch_size, drop_last=False)
            built = new.add_source(batches).pipe(_batches(dataset), **stage)
        ended = built.add_sink(buffer_size=task.prefetch_factor * task.workers)
        pipeline = ended.build(num_threads=task.workers, max_failures=0, use_thread_output_queue=True)
        with pipeline.auto_stop():
            yield from pipeline.get_iterator()

    return Repeated(start, sampler)


def _stacking(task: Task, dataset: Any, persistent: bool, **options: Any) -> Any:
    """With torch's default_collate under another name, which the loader leaves the whole batch to."""
    from torch.utils.data import default_collate

    return _threads(task, dataset, persistent, collate_fn=lambda samples: default_collate(samples), **options)


OPEN: dict[str, Callable[..., Any]] = {
    "loader-thread": _threads,
    "loader-process": _processes,
    "loader-spawn": functools.partial(_processes, multiprocessing_context="spawn"),
    "loader-forkserver": functools.partial(_processes, multiprocessing_context="forkserver"),
    # The same loader; the dataset decodes with ftloader.decode.
    "loader-decode": _threads,
    "loader-stack": _stacking,
    "serial": _serial,
    "torch-process": _torch,
    "nodes-thread": _nodes,
    "spdl": _spdl,
    "spdl-samples": functools.partial(_spdl, singly=True),
    "loop": lambda task, dataset, _: BareLoop(dataset, task.workers, task.batch_size),
}


def open_loader(task: Task, dataset: Any, persistent: bool, **options: Any) -> contextlib.closing:
    """A context manager that gives the task's loader: `epoch(samples)` is an iterator over batches.

    With `persistent`, workers stay between epochs where the loader has that. `options` are further
    arguments of torch's DataLoader (collate_fn, pin_memory); raises TypeError if the variant's has none.
    """
    return contextlib.closing(OPEN[task.variant](task, dataset, persistent, **options))
