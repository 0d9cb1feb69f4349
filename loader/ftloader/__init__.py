"""A PyTorch ``DataLoader`` whose workers are threads where the GIL is off.

``from ftloader import DataLoader`` in place of ``from torch.utils.data import DataLoader`` is the whole change: every
argument and attribute is kept, and ``worker_method`` chooses between threads and processes.

Importing this package makes torch's own ``get_worker_info`` answer for worker threads too (see
``ftloader.workers.info``); ``torch.utils.data.DataLoader`` itself behaves as before.

A batch's way, with worker threads, and the file of each step:

    sampler -> dispatch (thread_iterator) -> dataset[i] (assembly, fetch) -> its slot of the batch (slots, layout,
    buffers) -> hand-over in order (thread_iterator) -> training loop

What the threads are: thread, pool; what they say to each other: messages. Without workers and with
processes: serial_iterator, process_iterator. What belongs to a sample: random, on_error, error_notes.
Stop and resume: state. For datasets: decode, datasets, path_table, cache.
"""

from ftloader.batch.errors import SKIP
from ftloader.batch.slots import empty_sample
from ftloader.dataloader import DataLoader
from ftloader.rng.sample import sample_rng
from ftloader.workers.info import get_worker_info

__all__ = ["SKIP", "DataLoader", "empty_sample", "get_worker_info", "sample_rng"]
__version__ = "0.1.0"
