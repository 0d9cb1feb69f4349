"""A PyTorch ``DataLoader`` whose workers are threads where the GIL is off.

``from loader import DataLoader`` in place of ``from torch.utils.data import
DataLoader`` is the whole change: every argument and attribute is kept, and
``worker_method`` chooses between threads and processes.

Importing this package makes torch's own ``get_worker_info`` answer for worker
threads too (see ``loader.worker_info``); ``torch.utils.data.DataLoader`` itself
behaves as before.

A batch's way, with worker threads, and the file of each step:

    sampler -> dispatch (thread_iterator) -> dataset[i] (assembly, fetch) -> its slot of the
    batch (slots, layout, buffers) -> hand-over in order (thread_iterator) -> training loop

What the threads are: thread_worker, worker_pool, lifetime, joining; what they say to each
other: messages. Without workers and with processes: serial_iterator, process_iterator. What
belongs to a sample: random, strict_random, on_error, error_notes. Stop and resume: state.
For datasets: decode, datasets, path_table; whether yours is safe under threads: audit.
"""

import importlib
from typing import Any

from loader.dataloader import DataLoader
from loader.on_error import SKIP
from loader.random import sample_rng
from loader.slots import empty_sample
from loader.worker_info import get_worker_info

__all__ = ["SKIP", "DataLoader", "empty_sample", "get_worker_info", "sample_rng"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Not imported before it is asked for: training has no use for it.
    if name == "audit":
        return importlib.import_module("loader.audit")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
