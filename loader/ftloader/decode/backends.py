"""Table of the libraries that decode images. To add a library, add a module to this package and a line here.

A module for the CPU defines ``read_arrays(encoded, mode, outs)``, which reads each file as it iterates over *encoded*.
One for a GPU defines ``resolve(device)``, ``check_mode(mode)`` and ``read_tensors(encoded, mode, device, outs,
cpu_threads)``.
"""

import importlib
from typing import Any

import torch

BACKENDS = {
    "pillow": {"cpu": "pillow"},
    "nvimgcodec": {"cpu": "nvimgcodec", "cuda": "cuda"},
}  # fmt: skip
"""For each backend the module for each type of device, imported at its first use. "auto" takes the first that fits."""


def find(backend: str, device: torch.device) -> Any:
    """Return the module of *backend* that decodes on *device*. Raise ``ValueError`` if there is none."""
    if backend != "auto" and backend not in BACKENDS:
        raise ValueError(f"backend must be one of auto, {', '.join(BACKENDS)}, not {backend!r}")
    able = {name: modules[device.type] for name, modules in BACKENDS.items() if device.type in modules}
    if not able:
        raise ValueError(f"device={str(device)!r} cannot decode images: 'cpu' or 'cuda:N'")
    other = next(iter(able))
    name = other if backend == "auto" else backend
    if name in able:
        return importlib.import_module(f"ftloader.decode.{able[name]}")
    if device.type == "cpu":
        raise ValueError(f"backend={name!r} decodes on a GPU: pass its device, or backend={other!r}")
    remedy = f"pass device='cpu' and move the result to {device}, or backend={other!r}"
    raise ValueError(f"backend={name!r} decodes on the CPU: {remedy}")
