"""The iterator for ``num_workers=0``: torch's, with the fetcher
that worker threads and processes use.

So ``sample_rng()``, ``on_error`` and the notes on exceptions are the same with and without workers.
"""

import time
from typing import Any

from torch.utils.data import IterDataPipe, MapDataPipe
from torch.utils.data.graph_settings import apply_sharding

from ftloader.batch.errors import without_stop_iteration
from ftloader.batch.fetch import Epoch, MapFetcher
from ftloader.batch.iterable import Fetcher, IterableFetcher
from ftloader.compat.torch_private import DatasetKind, SingleProcessDataLoaderIter, pin_memory
from ftloader.iterators.base import ResumableDataLoaderIter


class SerialDataLoaderIter(SingleProcessDataLoaderIter, ResumableDataLoaderIter):
    """Iterator over a loader's batches, built in the calling thread.

    One thread at a time may use the iterator, as with torch's. ``__next__`` raises exceptions of
    user code with a note that names the sample; ``StopIteration`` becomes a ``RuntimeError`` (PEP
    479). The epoch can go on afterwards.
    """

    def __init__(self, loader: Any) -> None:
        # Not the __init__ of torch's serial iterator, which would make torch's fetcher and so call
        # iter(dataset) once more than needed. The rest of it is repeated here.
        ResumableDataLoaderIter.__init__(self, loader)
        if self._timeout != 0 or self._num_workers != 0:
            raise AssertionError(
                f"{type(self).__name__} requires timeout == 0 and num_workers == 0"
            )
        if isinstance(self._dataset, (IterDataPipe, MapDataPipe)):
            apply_sharding(self._dataset, self._world_size, self._rank)
        self._epoch = Epoch(self._base_seed, self._epoch_number)
        self._number = 0  # number of the next batch
        self._dataset_fetcher: Fetcher
        if self._dataset_kind == DatasetKind.Iterable:
            self._dataset_fetcher = IterableFetcher(
                self._settings, self._dataset, 0, *self.worker_states()
            )
        else:
            self._dataset_fetcher = MapFetcher(self._settings, self._dataset)

    def _next_data(self) -> Any:
        while True:
            number, self._number = self._number, self._number + 1
            try:
                index = self._next_index()
            except StopIteration:
                break
            except Exception:
                self._progress.failed(number)
                raise
            started = time.thread_time()
            try:
                fetched = self._dataset_fetcher.fetch(index, self._epoch)
            except Exception as error:
                self._progress.failed(number)
                if isinstance(error, StopIteration):
                    raise without_stop_iteration(error, "the dataset or collate_fn") from error
                raise
            fetched.times.cpu = time.thread_time() - started
            if self._hand_over(fetched, number, 0):
                if self._pin_memory:
                    return pin_memory(fetched.data, self._pin_memory_device)
                return fetched.data
            if fetched.ended:
                break
        self._end_epoch()
