"""The names of torch that are not public and that this package uses: they are imported here alone.

torch may change them in any release. This package has been tested with torch 2.10.0, which the environments have, with
2.12.0 without the GIL and with 2.15.0 with it, the newest for Python 3.13 (docs/libraries.md says how). What torch's
iterators have inherited is used where classes derive from them: in ``state/iterator.py``, ``serial_iterator.py`` and
``process_iterator.py``.
"""

import types
from typing import Any

import torch._utils
import torch.utils.data
from torch.utils.data import dataloader
from torch.utils.data._utils import collate, signal_handling, worker
from torch.utils.data._utils.pin_memory import pin_memory

try:
    BaseDataLoaderIter = dataloader._BaseDataLoaderIter
    SingleProcessDataLoaderIter = dataloader._SingleProcessDataLoaderIter
    MultiProcessingDataLoaderIter = dataloader._MultiProcessingDataLoaderIter
    DatasetKind = dataloader._DatasetKind
    ExceptionWrapper = torch._utils.ExceptionWrapper
    WorkerInfo = worker.WorkerInfo
    all_schemas = torch._C._jit_get_all_schemas
    operation_overload = torch._C._get_operation_overload
    storage_use_count = torch._C._storage_Use_Count
    """Of ``storage._cdata``: how many tensors and storage objects refer to the memory."""
    LIBRARY = torch._C.__file__
    """torch's extension module. The symbols of the libraries that it is linked with can be looked up in it too."""
except AttributeError as error:
    raise ImportError(
        f"this release of ftloader does not know torch {torch.__version__} ({error}): install a newer ftloader, or the "
        "torch of its environments, 2.10.0"
    ) from error


def collation_name(function: Any) -> str | None:
    """The name of *function* in torch's ``collate`` module; None if it is not of that module. What has replaced a
    function of torch's may bear its name, but not its globals."""
    if type(function) is not types.FunctionType or function.__globals__ is not vars(collate):
        return None
    return function.__code__.co_name


def pinned(data: Any, device_type: str | None) -> Any:
    """*data* in page-locked memory for such a device, or as it is for None."""
    return data if device_type is None else pin_memory(data, device_type)


__all__ = ["collate", "pin_memory", "signal_handling", "worker"]
