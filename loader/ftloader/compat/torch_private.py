"""All private names of torch that this package uses. Other modules import them from here.

This package was tested with torch 2.10.0 (in the project's environments), 2.12.0 (GIL off) and
2.15.0 (GIL on): see docs/libraries.md. The classes in ``iterators`` also use private attributes
that they inherit from torch's iterators.
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
    storage_use_count = torch._C._storage_Use_Count
    """Return the number of tensors and storage objects that refer
    to the memory of ``storage._cdata``.
    """
    begin_range = torch._C._autograd._record_function_with_args_enter
    """Begin a range for profilers, given its name. Takes 1 µs, as torch's ``record_function`` takes
    5 to 7.
    """
    end_range = torch._C._autograd._record_function_with_args_exit
    DISTRIBUTIONS = (torch._sample_dirichlet, torch._standard_gamma)
    """The functions that ``torch.distributions`` draws with."""
    LIBRARY = torch._C.__file__
    """Path of torch's extension module, in which symbols
    of the libraries that it links can be looked up.
    """
except AttributeError as error:
    raise ImportError(
        f"this release of ftloader does not know torch {torch.__version__} ({error}): install a "
        "newer ftloader, or the torch of its environments, 2.10.0"
    ) from error


def collation_name(function: Any) -> str | None:
    """Return the name of *function* in torch's ``collate`` module;
    None if it is not defined there.
    """
    # Compare the globals, not the names: a replacement of one
    # of torch's functions may have the same name.
    if type(function) is not types.FunctionType or function.__globals__ is not vars(collate):
        return None
    return function.__code__.co_name


class StandIn:
    """Proxy that torch gets in place of *original*, a loader or sampler, with some *attributes*
    added or replaced.
    """

    def __init__(self, original: Any, **attributes: Any) -> None:
        self._original = original
        vars(self).update(attributes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def pinned(data: Any, device_type: str | None) -> Any:
    """Return *data* copied to page-locked memory for *device_type*. If *device_type* is None,
    return *data* itself.
    """
    if device_type is None:
        return data
    return pin_memory(data, device_type)


__all__ = ["collate", "dataloader", "pin_memory", "signal_handling", "worker"]
