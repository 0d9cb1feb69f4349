"""A dataset that holds an object of each type of the standard library, NumPy, torch and Pillow.

Those of types that take no arguments, and some of the others. Audited as a file, so that it is made
in a child process: a `threading._DummyThread`, for one, takes the main thread's place.
"""

import contextlib
import importlib
import io
import mmap
import os
import pkgutil
import sqlite3
import sys
import tempfile
import threading
import types
import warnings

import numpy as np
import torch
from holder import Holds, objects_of
from PIL import Image

OPEN_WINDOWS = {"antigravity", "idlelib", "this", "tkinter", "turtle", "turtledemo"}
OTHERS = (
    "torch torch.nn torch.optim torch.utils.data numpy numpy.random numpy.ma numpy.polynomial"
).split()


def standard_modules():
    """Yield the names of the standard library's public modules, those of its packages too."""
    for name in sorted(sys.stdlib_module_names - OPEN_WINDOWS):
        if name.startswith("_") or name == "test":
            continue
        yield name
        with contextlib.suppress(Exception):
            for each in pkgutil.iter_modules(
                getattr(importlib.import_module(name), "__path__", ())
            ):
                if not each.name.startswith("_"):
                    yield f"{name}.{each.name}"


def made_with_arguments():
    file = tempfile.TemporaryFile()
    file.write(bytes(64))
    file.flush()
    return [
        file,
        mmap.mmap(file.fileno(), 0),
        os.scandir("."),
        io.TextIOWrapper(io.BytesIO(b"text")),
        sqlite3.connect(":memory:", check_same_thread=False),
        sqlite3.connect(":memory:", check_same_thread=False).cursor(),
        Image.new("L", (2, 2)),
        np.zeros(2).flat,
        np.nditer(np.zeros(2)),
        np.zeros(2, dtype=[("a", "i4")])[0],
        np.array([object()]),
        np.datetime64("2020-01-01"),
        torch.zeros(2).to_sparse(),
        torch.quantize_per_tensor(torch.zeros(2), 1.0, 0, torch.qint8),
        torch.nested.nested_tensor([torch.zeros(2)]),
        torch.zeros(2, device="meta"),
        torch.ones(2, requires_grad=True) * 2,
        torch.jit.script(torch.nn.ReLU()),
        iter([]),
        (number for number in ()),
        threading.local(),
        types.SimpleNamespace(a=1),
        types.MappingProxyType({"a": 1}),
        sys._getframe(),
        (lambda: None).__code__,
        memoryview(b"bytes"),
    ]


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    dataset = Holds({**objects_of([*standard_modules(), *OTHERS]), "others": made_with_arguments()})
