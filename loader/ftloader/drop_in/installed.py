"""``install()`` and ``uninstall()`` replace torch's ``DataLoader``, and put it back."""

import abc
import contextlib
import gc
import importlib
import importlib.util
import sys
from dataclasses import dataclass
from typing import Any, Literal

import torch.utils.data
from torch.utils.data import IterableDataset

from ftloader import dataloader, fork
from ftloader.compat.torch_private import BaseDataLoaderIter
from ftloader.compat.torch_private import dataloader as torchs_module
from ftloader.dataloader import WorkerMethod, check_value

_TORCHS: Any = torchs_module.DataLoader
_MODULES = torch.utils.data, torchs_module
"""Modules that have the class by the name ``DataLoader``."""
_STATEFUL = "torchdata.stateful_dataloader"
_NAMES = list(dataloader.DataLoader.__init__.__signature__.parameters)[2:]  # type: ignore[attr-defined]
"""Names of the arguments after the dataset, in their order."""


@dataclass(frozen=True)
class DropInSettings:
    """Arguments of all loaders, in place of those that the program gives. None: the program's."""

    workers: int | Literal["auto"] | None = None
    worker_method: WorkerMethod | None = None
    copy_dataset: bool | None = None

    def __post_init__(self) -> None:
        is_number = type(self.workers) is int and self.workers >= 0
        if not is_number and self.workers not in (None, "auto"):
            raise ValueError(
                f'workers must be None, "auto" or a number from 0, got {self.workers!r}'
            )
        for name in ("worker_method", "copy_dataset"):
            if (value := getattr(self, name)) is not None:
                check_value(name, value)

    def arguments(self, dataset: Any) -> dict[str, Any]:
        """Return the arguments that replace those of a loader of *dataset*."""
        replaced: dict[str, Any] = {}
        for name in ("worker_method", "copy_dataset"):
            if (value := getattr(self, name)) is not None:
                replaced[name] = value
        # Workers of an iterable-style dataset divide the data by their number, or do not: then
        # another number would give samples twice.
        if self.workers is not None and not isinstance(dataset, IterableDataset):
            replaced["num_workers"] = self.workers
            if self.workers == 0:  # these are errors without workers
                replaced |= {"prefetch_factor": None, "multiprocessing_context": None}
                replaced |= {"persistent_workers": False, "timeout": 0}
        return replaced


class _InTorchsPlace(abc.ABCMeta):
    """Metaclass that makes torch's own loaders instances of the class in the place of torch's.

    Libraries ask ``isinstance(loader, DataLoader)``, also of loaders that are still torch's: made
    before ``install()``, or of a subclass that was, such as torchdata's. Derived from ABCMeta, so
    that a subclass may have an abstract base class.
    """

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is DataLoader:
            return isinstance(instance, _TORCHS)
        return super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: Any) -> bool:
        if cls is DataLoader:
            return issubclass(subclass, _TORCHS)
        return super().__subclasscheck__(subclass)


class DataLoader[T](dataloader.DataLoader[T], metaclass=_InTorchsPlace):
    """``ftloader.DataLoader`` in the place of torch's class, with the settings of ``install()``."""

    def __init__(self, dataset, *args: Any, **kwargs: Any) -> None:
        replaced = _settings.arguments(dataset)
        positional = [replaced.pop(name, value) for name, value in zip(_NAMES, args)]
        super().__init__(dataset, *positional, *args[len(_NAMES) :], **kwargs | replaced)


# Lightning rebuilds a loader from the arguments that it sees here.
DataLoader.__init__.__signature__ = dataloader.DataLoader.__init__.__signature__  # type: ignore[attr-defined]

_lock = fork.rlock()
_settings = DropInSettings()
_KNOWN = _TORCHS, dataloader.DataLoader, DataLoader


def install(
    workers: int | Literal["auto"] | None = None,
    worker_method: WorkerMethod | None = None,
    copy_dataset: bool | None = None,
) -> None:
    """Make ``torch.utils.data.DataLoader`` this package's class, for a notebook or a whole program.

    ``from torch.utils.data import DataLoader`` afterwards gives this package's class, also in
    libraries that are imported afterwards, and for their subclasses. So call this first. A name
    that was bound before, as by ``import lightning``, keeps torch's class; ``python -m ftloader
    SCRIPT`` has no such names. torchdata's ``StatefulDataLoader`` keeps its own iterators.

    ``isinstance(loader, DataLoader)`` stays true for all loaders, whichever of the two classes has
    made the loader, and whichever ``DataLoader`` means. Only ``type(loader) is DataLoader`` can
    differ, and a loader that torch's class made before cannot be pickled until ``uninstall()``.

    Calling it again replaces the settings. Each is for all loaders made from now on, in place of
    what the program says:

    Args:
        workers: ``num_workers``, a number or "auto". Loaders of iterable-style datasets keep the
            program's, since their workers divide the data by their number.
        worker_method: "auto", "thread" or "process".
        copy_dataset: True gives each worker thread its own copy of a map-style dataset.

    Raises:
        ValueError, TypeError: for a setting that ``DataLoader`` would not accept.
        RuntimeError: if iterators with workers are running, or another class has been put in the
            place of torch's already.
    """
    global _settings
    settings = DropInSettings(workers, worker_method, copy_dataset)
    if not is_installed():
        _check_no_iterator("install")
        _import_stateful()
    with _lock:
        for module in _MODULES:
            if (current := module.DataLoader) not in _KNOWN:
                raise RuntimeError(
                    f"install() would replace {current.__module__}.{current.__qualname__}, which "
                    f"is in the place of {module.__name__}.DataLoader: undo that first, or derive "
                    "that class from ftloader.DataLoader"
                )
        for module in _MODULES:
            module.DataLoader = DataLoader
        _settings = settings


def uninstall() -> None:
    """Put torch's class back in its place. Loaders that were made remain as they are, and so do
    names that were bound.

    Raises:
        RuntimeError: if iterators with workers are running.
    """
    global _settings
    if not is_installed():
        return
    _check_no_iterator("uninstall")
    with _lock:
        for module in _MODULES:
            if module.DataLoader is DataLoader:  # else the program has replaced it since
                module.DataLoader = _TORCHS
        _settings = DropInSettings()


def is_installed() -> bool:
    return any(module.DataLoader is DataLoader for module in _MODULES)


def class_in_place() -> type:
    """Return the class that ``torch.utils.data.DataLoader`` is now."""
    return torch.utils.data.DataLoader


def _check_no_iterator(function: str) -> None:
    """Raise ``RuntimeError`` if an iterator, torch's or ours, has workers that run."""
    running = 0
    for candidate in gc.get_objects():
        if issubclass(type(candidate), BaseDataLoaderIter):  # isinstance() may call user code
            workers = getattr(candidate, "_workers", ())
            running += any(worker.is_alive() for worker in workers)
    if running:
        raise RuntimeError(
            f"{function}() must not be called while iterators of loaders run ({running} with "
            "workers): end their loops, or delete the iterators and, with persistent_workers, "
            "the loaders; best call it before the first loader is made"
        )


def _import_stateful() -> None:
    """Import torchdata's loader, if there is one, while its base class is still torch's.

    It has iterators of its own, and never calls the constructor of its base class.
    """
    # torchdata may not fit this torch, and then the program cannot use it either
    with contextlib.suppress(Exception):
        if _STATEFUL not in sys.modules and importlib.util.find_spec("torchdata") is not None:
            importlib.import_module(_STATEFUL)


def stateful_class() -> Any:
    """Return torchdata's ``StatefulDataLoader``; None without torchdata."""
    return getattr(sys.modules.get(_STATEFUL), "StatefulDataLoader", None)
