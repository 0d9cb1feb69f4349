"""The candidates' loaders: this project's, and others (peers)
with the best settings that their documentation gives.

All loaders load samples 0, 1, 2, ... in order, start again at the dataset's end, and return batches
of torch's default_collate, so that batches can be compared. All have the same number of workers;
some run further threads. Memory is not pinned, unless a scenario asks for it.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ftbench.measure import checksums, ranks
from ftbench.plan.scenario import Task
from ftrun.parent_death import worker_init


class EpochSampler:
    """Sampler that yields the sample numbers `numbers`, modulo the dataset's length.

    The consumer sets `numbers` before each epoch. With several ranks, `numbers` counts only this
    rank's own samples, and ranks.share converts them to numbers in the epoch of all ranks.
    """

    def __init__(self, length: int, batch_size: int):
        self.length, self._batch_size, self.numbers = length, batch_size, range(0)

    def __iter__(self) -> Iterator[int]:
        return (number % self.length for number in ranks.share(self.numbers, self._batch_size))

    def __len__(self) -> int:
        return len(self.numbers)


def _batches(dataset: Any) -> Callable[[list[int]], Any]:
    """Return the function that a peer's worker threads call
    to load a list of indices as one collated batch.
    """
    from torch.utils.data import default_collate

    return lambda indices: default_collate([dataset[index] for index in indices])


class Repeated:
    """Loader of a candidate. `epoch` tells the sampler which samples to yield, and returns an
    iterator over batches.
    """

    def __init__(self, start: Callable[[], Iterator], sampler: EpochSampler):
        self._start: Callable[[], Iterator] | None = start
        self._sampler = sampler

    def epoch(self, samples: int, first: int = 0) -> Iterator:
        """Return an iterator over batches with `samples` samples in total,
        from sample number `first` on.
        """
        assert self._start
        self._sampler.numbers = range(first, first + samples)
        return self._start()

    def close(self) -> None:
        """Drop the reference to the loader, so that the loader's workers end."""
        self._start = None


def _torch(
    task: Task, dataset: Any, persistent: bool, kind: type | None = None, **options: Any
) -> Repeated:
    """Open torch's DataLoader, or the class `kind`, with the usual arguments.
    `options` override these arguments.

    All candidates have the default prefetch_factor, 2 (https://pytorch.org/docs/2.10/data.html).
    """
    from torch.utils.data import DataLoader

    kind, sampler = kind or DataLoader, EpochSampler(len(dataset), task.batch_size)
    usual = {
        "num_workers": task.workers,
        "prefetch_factor": task.prefetch_factor,
        "persistent_workers": persistent,
        "worker_init_fn": worker_init,
    }
    loader = kind(dataset, batch_size=task.batch_size, sampler=sampler, **{**usual, **options})
    return Repeated(loader.__iter__, sampler)


def _ours(task: Task, dataset: Any, persistent: bool, **options: Any) -> Repeated:
    from ftloader import DataLoader

    return _torch(task, dataset, persistent, DataLoader, **options)


_processes = functools.partial(_ours, worker_method="process")
_threads = functools.partial(_ours, worker_method="thread", worker_init_fn=None)
# The consumer loads the samples.
_serial = functools.partial(
    _ours, num_workers=0, prefetch_factor=None, persistent_workers=False, worker_init_fn=None
)


def _nodes(task: Task, dataset: Any, _persistent: bool) -> Repeated:
    """Open a torchdata.nodes pipeline with threads, as in torchdata's migration guide. Each epoch
    starts new threads.

    https://pytorch.org/data/0.11/migrate_to_nodes_from_utils.html, "Map-Style Datasets".
    """
    from torchdata.nodes import Batcher, Loader, ParallelMapper, Prefetcher, SamplerWrapper

    sampler = EpochSampler(len(dataset), task.batch_size)
    node = Batcher(SamplerWrapper(sampler), batch_size=task.batch_size, drop_last=False)
    node = ParallelMapper(
        node, map_fn=_batches(dataset), num_workers=task.workers, in_order=True, method="thread"
    )
    return Repeated(Loader(Prefetcher(node, prefetch_factor=2 * task.workers)).__iter__, sampler)


def _spdl(
    task: Task, dataset: Any, _persistent: bool, singly: bool = False, decodes: bool = False
) -> Repeated:
    """Open an spdl.pipeline with a thread for each worker. By default, one stage builds batches
    from lists of indices.

    Settings:
    https://facebookresearch.github.io/spdl/0.8.0/generated/spdl.pipeline.PipelineBuilder.html, with
    use_thread_output_queue, the low-latency way to hand batches over. The source yields lists of
    indices, as in the example image_dataloading
    (https://facebookresearch.github.io/spdl/main/examples.html). With `singly`, there are three
    stages: one loads single samples, one gathers the samples of a batch, one collates them
    (https://facebookresearch.github.io/spdl/latest/optimization_guide/setup.html). With `decodes`,
    `dataset.batch` decodes all images of a batch with spdl.io.
    """
    from spdl.pipeline import PipelineBuilder
    from torch.utils.data import BatchSampler, default_collate

    sampler = EpochSampler(len(dataset), task.batch_size)
    stage = {"concurrency": task.workers, "output_order": "input"}

    def start() -> Iterator:
        new = PipelineBuilder()
        if singly:
            built = (
                new.add_source(sampler)
                .pipe(dataset.__getitem__, **stage)
                .aggregate(task.batch_size)
            )
            built = built.pipe(default_collate, **stage)
        else:
            batches = BatchSampler(sampler, task.batch_size, drop_last=False)
            built = new.add_source(batches).pipe(
                dataset.batch if decodes else _batches(dataset), **stage
            )
        ended = built.add_sink(buffer_size=task.prefetch_factor * task.workers)
        # A failing sample ends the epoch with an error.
        pipeline = ended.build(
            num_threads=task.workers, max_failures=0, use_thread_output_queue=True
        )
        with pipeline.auto_stop():
            yield from pipeline.get_iterator()

    return Repeated(start, sampler)


class BareLoop:
    """A loop in place of a loader: threads call `dataset[i]` for i = 0,
    1, 2, ... Used by the consumer's thread.

    The loop builds no batch, so its throughput is an upper bound for loaders. A loader is slower by
    the cost of its collation, memory, queues and ordering. BareLoop keeps its first batch whole,
    and only checked rows of the others.
    """

    def __init__(self, dataset: Any, workers: int, batch_size: int):
        self._dataset, self._workers, self._batch_size = dataset, workers, batch_size
        self._pool = ThreadPoolExecutor(workers)
        self._whole = batch_size

    def epoch(self, samples: int) -> Iterator[list]:
        """Yield the batches in order. The first epoch's first batch is a list of whole samples, all
        others are CheckedRows.
        """
        dataset, length, batch_size = self._dataset, len(self._dataset), self._batch_size
        whole, self._whole = self._whole, 0
        # The lock guards the state that threads change: the numbers to come, and the samples that
        # each batch lacks.
        lock = threading.Lock()
        numbers: Iterator[tuple[int | None, int]] = iter(
            enumerate(ranks.share(range(samples), batch_size))
        )
        kept: list[list] = [
            [None] * min(batch_size, samples - start) for start in range(0, samples, batch_size)
        ]
        lacking = [len(batch) for batch in kept]
        done = [threading.Event() for _ in kept]

        def cancel() -> None:
            """Stop every thread after its current sample, and wake the consumer."""
            nonlocal numbers
            with lock:
                numbers = iter(())
                for event in done:
                    event.set()

        def work() -> None:
            """Load samples until none is left; the body of every thread."""
            finished = None
            try:
                while True:
                    with lock:
                        if finished is not None:
                            lacking[finished] -= 1
                            if not lacking[finished]:
                                done[finished].set()
                        number, index = next(numbers, (None, 0))
                    if number is None:
                        return
                    finished, place = divmod(number, batch_size)
                    sample = dataset[index % length]
                    kept[finished][place] = sample if number < whole else checksums.rows(sample)
                    del sample  # so that the next sample may reuse its memory
            except BaseException:
                cancel()
                raise

        threads = [self._pool.submit(work) for _ in range(self._workers)]
        try:
            for number, event in enumerate(done):
                event.wait()
                if failed := [t for t in threads if t.done() and t.exception() is not None]:
                    failed[0].result()
                batch, kept[number] = kept[number], []
                yield batch if number * batch_size < whole else checksums.CheckedRows(batch)
        finally:
            cancel()
            for thread in threads:
                # Waits for the thread; a failure was raised above.
                thread.exception()

    def close(self) -> None:
        self._pool.shutdown()


def _stacking(task: Task, dataset: Any, persistent: bool, **options: Any) -> Any:
    """Open this project's loader so that it stacks all samples of a batch at once, after the last
    has been loaded.

    The loader copies samples one by one only if its collate_fn is default_collate. So this function
    passes a wrapper of default_collate, which the loader does not recognise.
    """
    from torch.utils.data import default_collate

    return _threads(
        task, dataset, persistent, collate_fn=lambda samples: default_collate(samples), **options
    )


OPEN: dict[str, Callable[..., Any]] = {
    "loader-thread": _threads,
    "loader-process": _processes,
    "loader-spawn": functools.partial(_processes, multiprocessing_context="spawn"),
    "loader-forkserver": functools.partial(_processes, multiprocessing_context="forkserver"),
    "loader-copies": functools.partial(_threads, copy_dataset=True),
    # The same loader; the dataset decodes with ftloader.decode.
    "loader-decode": _threads,
    "loader-stack": _stacking,
    "serial": _serial,
    "torch-process": _torch,
    "nodes-thread": _nodes,
    "spdl": _spdl,
    "spdl-samples": functools.partial(_spdl, singly=True),
    "spdl-io": functools.partial(_spdl, decodes=True),
    "loop": lambda task, dataset, _: BareLoop(dataset, task.workers, task.batch_size),
}


def open_loader(task: Task, dataset: Any, persistent: bool, **options: Any) -> contextlib.closing:
    """Open the task's loader, as a context manager. The loader's `epoch(samples)` returns an
    iterator over batches.

    With `persistent`, workers stay between epochs if the loader supports that. `options` are
    further arguments, named as in torch's DataLoader. Raises TypeError if the task's variant does
    not accept them.
    """
    return contextlib.closing(OPEN[task.variant](task, dataset, persistent, **options))
