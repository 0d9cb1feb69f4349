"""A PyTorch ``DataLoader`` whose workers are threads where the GIL is off.

``from ftloader import DataLoader`` in place of ``from torch.utils.data import DataLoader`` is the
whole change. This package replaces some names in torch, so that torch's own functions answer for
worker threads too (``compat.patch``).

The path of a batch, with worker threads:

    sampler -> dispatch (iterators.dispatch) -> dataset[i] (workers.thread, batch.fetch) -> its slot
    of the batch (batch.slots) -> hand-over in order (iterators.threads) -> training loop

The parts:

- ``drop_in``: this class in torch's place, for a whole program (``python -m ftloader``)
- ``dataloader``: arguments, attributes, ``state_dict``
- ``choose``: threads or processes, and why
- ``iterators``: ``serial``, ``threads``, ``processes``, on a common ``base``. For threads,
  ``dispatch`` gives batches to the workers and receives them; ``prefetch`` and ``ahead``: the
  prefetch policy; ``tuner``: the number of threads with ``num_workers="auto"``; ``pacing`` waits
  for workers, and asks the last two
- ``cache``: a dataset that copies the samples of a remote source to the local disk while it is read
- ``distributed``: the sampler of a job whose number of ranks changes
- ``workers``: worker threads and processes, from start to end; each worker's copies of user objects
- ``batch``: builds a batch from indices: loads samples, handles their errors, writes them into
  slots or collates them
- ``state``: saves a loader's position, and resumes there
- ``rng``: random generators of samples, and the program's global ones
- ``datasets``, ``decode``: image folders and image decoding, for datasets
- ``current``: the sample that a thread is loading
- ``protocols``: optional methods of datasets and samplers; ``diagnosis``: warnings, exceptions and
  statistics
- ``compat``: private names of torch, and what is replaced in it
- ``errors``: exceptions; ``fork``: locks in forked processes

The layers, each of which imports only those after it: __main__; drop_in; dataloader; cache,
datasets, distributed and choose; iterators and decode; workers; batch; state; rng; protocols;
compat; diagnosis; current; errors and fork.

The terms:

- consumer: the thread that iterates the loader. A batch is *handed over* when ``next()`` returns it
  to the consumer.
- drawn: (of a batch) read from the sampler; dispatched: given to the workers, which build it
- slot: a sample's place in the memory of its batch; column: a list of one small value from each
  sample
- leaf: a part of a sample that is no dict, list or tuple itself; layout: the sample's nesting, down
  to the leaves
- key: what the sampler yielded for a sample; in ``cache``, the sample's name in its source
- share: the samples of an iterable-style dataset that one worker loads in an epoch
- snapshot: states of datasets or samplers, taken during an epoch; in ``cache``, the list of an
  epoch's samples
- segment: a file of the cache with samples: *sealed* if complete, *synced* if known to be on the
  disk
- row: a sample's entry in the index of its segment, or the entry's number
- writer: the process that adds samples to a cache; reader: one that only reads; pin: protect from
  eviction
- left out: skipped by ``on_error``, since the sample could not be loaded
- user code, user objects: the dataset, sampler, ``collate_fn``, ``worker_init_fn`` and ``on_error``
"""

from ftloader.batch.errors import SKIP, SkipLog, Skipped
from ftloader.batch.slots import empty_sample
from ftloader.compat.patch import patch_torch
from ftloader.dataloader import DataLoader
from ftloader.drop_in.installed import install, uninstall
from ftloader.rng.draws import sample_draws
from ftloader.rng.sample import sample_rng
from ftloader.workers.info import get_worker_info

__all__ = [
    "SKIP",
    "DataLoader",
    "SkipLog",
    "Skipped",
    "empty_sample",
    "get_worker_info",
    "install",
    "sample_draws",
    "sample_rng",
    "uninstall",
]
__version__ = "0.2.0"

patch_torch()
