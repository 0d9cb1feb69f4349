"""The libraries that decode images, and the choice among them.

To add a library, add a module to this package and an entry to ``BACKENDS``. A module for the CPU
defines ``read_arrays(encoded, mode, outs)``, where *encoded* is an iterator that reads a file at
each step. A module for a GPU defines ``resolve(device)``, ``check_mode(mode)`` and
``read_tensors(encoded, mode, device, outs, cpu_threads)``.
"""

import importlib
from typing import Any

import torch

BACKENDS = {"pillow": {"cpu": "pillow"}, "nvimgcodec": {"cpu": "nvimgcodec", "cuda": "cuda"}}
"""Modules by backend and type of device. "auto" means the first backend
that has a module for the device.
"""


def find_backend(backend: str, device: torch.device) -> Any:
    """Return the module of *backend* that decodes on *device*.
    Raise ``ValueError`` if there is none.
    """
    if backend != "auto" and backend not in BACKENDS:
        raise ValueError(f"backend must be one of auto, {', '.join(BACKENDS)}, not {backend!r}")
    able = {
        name: modules[device.type] for name, modules in BACKENDS.items() if device.type in modules
    }
    if not able:
        raise ValueError(f"device={str(device)!r} cannot decode images: 'cpu' or 'cuda:N'")
    first = next(iter(able))
    if backend not in ("auto", *able):
        remedy = f"pass device='cpu' and move the result to {device}, or backend={first!r}"
        raise ValueError(f"backend={backend!r} decodes on the CPU: {remedy}")
    return importlib.import_module(f"ftloader.decode.{able.get(backend, able[first])}")
