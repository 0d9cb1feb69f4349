"""A PyTorch ``DataLoader`` whose workers are threads where the GIL is off.

``from ftloader import DataLoader`` in place of ``from torch.utils.data import DataLoader`` is the whole change: every
argument and attribute is kept, and ``worker_method`` chooses between threads and processes.

Importing this package makes torch's own ``get_worker_info`` answer for worker threads too (see
``ftloader.workers.info``); ``torch.utils.data.DataLoader`` itself behaves as before.

A batch's way, with worker threads, and the file of each step:

    sampler -> dispatch (iterators.threads) -> dataset[i] (batch.assembly, batch.fetch) -> its slot of the batch
    (batch.slots, batch.layout, batch.memory) -> hand-over in order (iterators.threads) -> training loop

The rooms, each of which imports only those after it: dataloader; cache, datasets and choose; iterators and decode;
workers; batch; state; rng; current, protocols, compat and diagnosis; fork.
"""

from ftloader.batch.errors import SKIP, SkipLog, Skipped
from ftloader.batch.slots import empty_sample
from ftloader.dataloader import DataLoader
from ftloader.rng.sample import GlobalRandomWarning, sample_rng
from ftloader.workers.info import get_worker_info

__all__ = [
    "SKIP",
    "DataLoader",
    "GlobalRandomWarning",
    "SkipLog",
    "Skipped",
    "empty_sample",
    "get_worker_info",
    "sample_rng",
]
__version__ = "0.1.0"
