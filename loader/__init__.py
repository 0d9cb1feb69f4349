"""A PyTorch ``DataLoader`` whose workers are threads where the GIL is off.

``from loader import DataLoader`` in place of ``from torch.utils.data import
DataLoader`` is the whole change: every argument and attribute is kept, and
``worker_method`` chooses between threads and processes.

Importing this package makes torch's own ``get_worker_info`` answer for worker
threads too (see ``loader.worker_info``); ``torch.utils.data.DataLoader`` itself
behaves as before.
"""

from loader.dataloader import DataLoader
from loader.on_error import SKIP
from loader.random import sample_rng
from loader.slots import empty_sample
from loader.worker_info import get_worker_info

__all__ = ["SKIP", "DataLoader", "empty_sample", "get_worker_info", "sample_rng"]
__version__ = "0.1.0"
