"""The contestants' loaders: this project's, and its peers at the best settings that they document.

All take samples 0, 1, 2, ... in order, beginning again at the dataset's end, and give batches of
torch's default_collate in that order, so that every contestant's batches can be compared. All get
the same number of workers; what else they run (a reading, sorting or event loop thread) is theirs.
Memory is not pinned, unless a scenario asks for it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch.utils.data
from torch.utils.data import default_collate

from ftbench.measure.bare_loop import BareLoop
from ftbench.plan.scenario import Task
from ftrun.parent_death import worker_init


class EpochSampler(torch.utils.data.Sampler):
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


class Batch:
    """Builds a batch from its indices, in a peer's worker. Shared by them; holds nothing that changes."""

    def __init__(self, dataset: Any):
        self._dataset = dataset

    def __call__(self, indices: list[int]) -> Any:
        """The collated samples of these indices."""
        return default_collate([self._dataset[index] for index in indices])


class Repeated:
    """An iterable that is asked for an iterator for each epoch."""

    def __init__(self, iterable: Any, sampler: EpochSampler):
        self._iterable, self._sampler = iterable, sampler

    def epoch(self, samples: int, first: int = 0) -> Iterator:
        """An iterator over the batches of so many samples, from the first one on."""
        self._sampler.count, self._sampler.first = samples, first
        return iter(self._iterable)

    def close(self) -> None:
        """Let the loader go; its iterator ends the workers."""
        self._iterable = None


def _data_loader(kind: type, task: Task, dataset: Any, persistent: bool, **options: Any) -> Repeated:
    """A DataLoader of torch's, or one that is called as that is."""
    sampler = EpochSampler(len(dataset))
    return Repeated(
        kind(
            dataset,
            batch_size=task.batch_size,
            sampler=sampler,
            num_workers=task.workers,
            prefetch_factor=task.prefetch_factor,
            persistent_workers=persistent,
            **options,
        ),
        sampler,
    )


def _loader(task: Task, dataset: Any, persistent: bool, method: str, start: str | None = None, **more: Any) -> Repeated:
    """This project's DataLoader, with further arguments of it; `start` is the start method of its processes."""
    from ftloader import DataLoader

    init = worker_init if method == "process" else None
    options = {"worker_method": method, "multiprocessing_context": start, "worker_init_fn": init, **more}
    return _data_loader(DataLoader, task, dataset, persistent, **options)


def _serial(task: Task, dataset: Any, _persistent: bool) -> Repeated:
    """This project's DataLoader without workers: samples are loaded by whoever asks for a batch."""
    from ftloader import DataLoader

    sampler = EpochSampler(len(dataset))
    return Repeated(DataLoader(dataset, batch_size=task.batch_size, sampler=sampler), sampler)


def _torch(task: Task, dataset: Any, persistent: bool, **options: Any) -> Repeated:
    """torch.utils.data.DataLoader with worker processes.

    https://pytorch.org/docs/2.10/data.html: persistent_workers keeps the processes and their dataset
    between epochs; prefetch_factor is the number of batches loaded in advance by each worker (its
    default is 2, which is what all get here). The start method is the platform's.
    """
    return _data_loader(torch.utils.data.DataLoader, task, dataset, persistent, worker_init_fn=worker_init, **options)


def _nodes(task: Task, dataset: Any, _persistent: bool) -> Repeated:
    """torchdata.nodes with threads, put together as its own guide replaces a DataLoader.

    https://pytorch.org/data/0.11/migrate_to_nodes_from_utils.html, "Map-Style Datasets": sampler,
    Batcher, a ParallelMapper that fetches and collates a whole batch, in order, with method="thread",
    and a Prefetcher of 2 * num_workers batches. Its threads are started anew for each epoch.
    """
    from torchdata.nodes import Batcher, Loader, ParallelMapper, Prefetcher, SamplerWrapper

    sampler = EpochSampler(len(dataset))
    node = Batcher(SamplerWrapper(sampler), batch_size=task.batch_size, drop_last=False)
    node = ParallelMapper(node, map_fn=Batch(dataset), num_workers=task.workers, in_order=True, method="thread")
    return Repeated(Loader(Prefetcher(node, prefetch_factor=2 * task.workers)), sampler)


class _Pipelines:
    """A new spdl pipeline for each epoch, as `build` makes it from the epoch's sampler."""

    def __init__(self, build: Callable[[EpochSampler], Any], length: int):
        self._build, self._length = build, length

    def epoch(self, samples: int, first: int = 0) -> Iterator:
        """Run a pipeline to its end, or until the iterator is closed."""
        sampler = EpochSampler(self._length)
        sampler.count, sampler.first = samples, first
        pipeline = self._build(sampler)
        with pipeline.auto_stop():
            yield from pipeline.get_iterator()

    def close(self) -> None:
        """Each pipeline has ended with its epoch."""


def _spdl(task: Task, dataset: Any, _persistent: bool, singly: bool = False) -> _Pipelines:
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

    stage = {"concurrency": task.workers, "output_order": "input"}

    def build(sampler: EpochSampler) -> Any:
        new = PipelineBuilder()
        if singly:
            built = new.add_source(sampler).pipe(dataset.__getitem__, **stage).aggregate(task.batch_size)
            built = built.pipe(default_collate, **stage)
        else:
            batches = torch.utils.data.BatchSampler(sampler, task.batch_size, drop_last=False)
            built = new.add_source(batches).pipe(Batch(dataset), **stage)
        ended = built.add_sink(buffer_size=task.prefetch_factor * task.workers)
        return ended.build(num_threads=task.workers, max_failures=0, use_thread_output_queue=True)

    return _Pipelines(build, len(dataset))


def _stack(samples: list) -> Any:
    """torch's default_collate under another name, which the loader leaves the whole batch to."""
    return default_collate(samples)


OPEN: dict[str, Callable[..., Any]] = {
    "loader-thread": functools.partial(_loader, method="thread"),
    "loader-process": functools.partial(_loader, method="process"),
    "loader-spawn": functools.partial(_loader, method="process", start="spawn"),
    "loader-forkserver": functools.partial(_loader, method="process", start="forkserver"),
    # The same loader; the dataset decodes with ftloader.decode.
    "loader-decode": functools.partial(_loader, method="thread"),
    "loader-stack": functools.partial(_loader, method="thread", collate_fn=_stack),
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
