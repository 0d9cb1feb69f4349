"""Functions that tell which optional methods a user-supplied dataset or sampler has."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

from torch.utils.data import StackDataset, Subset

from ftloader.compat.torch_private import DatasetKind
from ftloader.diagnosis.lookups import optional


def is_iterable(loader: Any) -> bool:
    """Return True if the dataset of the DataLoader *loader* is iterable-style."""
    return loader._dataset_kind == DatasetKind.Iterable


def is_stateful(value: Any) -> bool:
    """Return True if *value* has ``load_state_dict``
    and a ``state_dict`` that needs no arguments.
    """
    # MosaicML streaming and litdata have methods of these names that need other arguments.
    save = optional(value, "state_dict")
    if not callable(save) or not callable(optional(value, "load_state_dict")):
        return False
    try:
        inspect.signature(save).bind()
    except TypeError:
        return False
    except Exception:  # ValueError: written in C, and without a signature
        pass
    return True


def is_elastic(sampler: Any) -> bool:
    """Return True if another number of ranks may load *sampler*'s
    state: see ``ftloader.distributed``.
    """
    return is_stateful(sampler) and callable(optional(sampler, "next_pass_state"))


def has_getitems(dataset: Any) -> bool:
    """Return True if a map-style dataset has a method ``__getitems__`` (not None),
    which loads a whole batch.
    """
    # torch's wrappers load batches at once if a wrapped dataset does. A subclass that overrides
    # ``__getitem__`` alone is asked for batches, as in torch.
    if not getattr(dataset, "__getitems__", None):
        return False
    dataset_type: Any = type(dataset)
    for wrapper, wrapped in _WRAPPERS.items():
        if (
            issubclass(dataset_type, wrapper)
            and "__getitems__" not in vars(dataset)
            and dataset_type.__getitems__ is wrapper.__getitems__
            and dataset_type.__getitem__ is wrapper.__getitem__
        ):
            return any(map(has_getitems, wrapped(dataset)))
    return True


_WRAPPERS: Final[dict[Any, Callable[[Any], Iterable]]] = {
    Subset: lambda dataset: [dataset.dataset],  # random_split's too
    StackDataset: lambda dataset: (
        dataset.datasets.values() if isinstance(dataset.datasets, dict) else dataset.datasets
    ),
}
