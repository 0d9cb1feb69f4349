"""Lookup of an object, usually a dataset, that a command line names as FILE.py:NAME."""

import contextlib
import importlib
import importlib.util
import os
import sys
import traceback
import types
from typing import Any

import torch.utils.data

from ftrun.errors import TargetError
from ftrun.options import hint


def load(target: str) -> Any:
    """Import the file of *target* (FILE.py:NAME);
    return the dataset that NAME stands for (see `make`).

    Raises TargetError. If user code failed, the message has the traceback.
    """
    return make(find(target), target)


def is_factory(value: Any) -> bool:
    """True if *value* may make a dataset when it is called: a class,
    or a callable that is not a dataset.
    """
    if issubclass(type(value), type):
        return True
    return callable(value) and not _is_dataset(value)


def make(value: Any, target: str) -> Any:
    """Return the dataset for *value*, the object that *target* names.

    A factory (a function or class, see `is_factory`) is called, and its result used. For a
    DataLoader, its dataset is returned, else the object itself. Raises TargetError if the factory
    fails or the object is no dataset.
    """
    if is_factory(value):
        value = _guarded(f"calling {target.rpartition(':')[2]}()", value)
    loader = _loader(value)
    if loader is not None:
        value = loader.dataset
    if not _is_dataset(value):
        raise TargetError(
            f"{target} gives a {type(value).__name__}, which is no dataset: it has neither "
            "__getitem__ nor is it a torch.utils.data.IterableDataset"
        )
    return value


def _loader(value: Any) -> torch.utils.data.DataLoader | None:
    """Return *value*, or the object behind this proxy (such as wrapt's),
    if it is a DataLoader; else None.
    """
    for _ in range(11):
        if value is None or issubclass(type(value), torch.utils.data.DataLoader):
            return value
        value = native_attribute(value, "__wrapped__")
    return None


def find(target: str) -> Any:
    """Return the object that *target* (FILE.py:NAME) names,
    after importing the module; raises TargetError.
    """
    module_name, _, path = target.rpartition(":")
    value: Any = _guarded(f"importing {module_name}", _import, module_name)
    for name in path.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            names = sorted(public for public in dir(value) if not public.startswith("_"))
            similar = hint(name, names)
            it_has = f"{similar} It has" if similar else "; it has"
            listed = ", ".join(names[:20]) or "nothing"
            raise TargetError(f"{module_name} has no {path}{it_has} {listed}") from None
    return value


def native_attribute(value: Any, name: str) -> Any:
    """Return attribute *name* of *value* if C code
    or ``__slots__`` defines the attribute, else None.

    Runs no Python code of *value*, such as a property or ``__getattr__``.
    """
    with contextlib.suppress(Exception):
        for cls in type.__getattribute__(type(value), "__mro__"):
            member = type.__getattribute__(cls, "__dict__").get(name)
            if type(member) in (types.GetSetDescriptorType, types.MemberDescriptorType):
                return member.__get__(value)
    return None


def _is_dataset(value: Any) -> bool:
    if issubclass(type(value), (type, str, bytes)):
        return False
    kinds = torch.utils.data.DataLoader, torch.utils.data.IterableDataset
    return issubclass(type(value), kinds) or hasattr(type(value), "__getitem__")


def _import(name: str) -> types.ModuleType:
    if not name.endswith(".py"):
        sys.path.insert(0, os.getcwd())  # as python -m does
        return importlib.import_module(name)
    if not os.path.isfile(name):
        raise TargetError(f"there is no file {name}")
    path = os.path.abspath(name)
    sys.path.insert(0, os.path.dirname(path))  # as python FILE does
    # Under the file's name if that is free, so that what it pickles can be unpickled.
    module_name = os.path.basename(path).removesuffix(".py")
    if getattr(sys.modules.get(module_name), "__file__", None) == path:
        return sys.modules[module_name]
    if module_name in sys.modules:
        module_name = f"_audited_{module_name}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _guarded(action: str, function: Any, *arguments: Any) -> Any:
    """Call user code. Raises TargetError, which says that *action* failed, with the user's frames
    of the traceback.
    """
    try:
        return function(*arguments)
    except TargetError:
        raise
    except (Exception, SystemExit) as error:
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if _is_user_code(frame.filename)
        ]
        listing = "".join(traceback.format_list(frames[-8:]))
        text = "".join(traceback.format_exception_only(error)).strip()
        raise TargetError(f"{action} failed:\n{listing}{text}") from error


def _is_user_code(filename: str) -> bool:
    return not filename.startswith((__file__, "<frozen")) and "importlib" not in filename
