"""The GPU that a trial decodes on, or the reason why it has none. Asked in the trial's process."""

from __future__ import annotations

import importlib.util

from ftrun import environment

MIB = 1024 * 1024


def device() -> str | None:
    """The first GPU in torch's words, "cuda:0"; None if torch sees none.

    Makes no CUDA context, so that the process may go on to fork workers that use none.
    """
    import torch

    return "cuda:0" if torch.cuda.is_available() else None


def why_none() -> str:
    """Why there is no GPU here, and what to do about it."""
    import torch

    found = environment.gpu()
    if found["reason"]:
        return found["reason"]
    return (
        f"nvidia-smi shows {', '.join(found['devices'])} with driver {found['driver']}, but torch "
        f"{torch.__version__} cannot use it: its CUDA {torch.version.cuda} needs a newer driver"
    )


def used_mib(on: str) -> float:
    """MiB of the GPU that are in use, whoever uses them; makes this process's context if it has none."""
    import torch

    free, total = torch.cuda.mem_get_info(torch.device(on))
    return (total - free) / MIB


def without_gpu() -> str | None:
    """For scenarios that are about the GPU alone: why they cannot run here, None if they can."""
    return without_nvimgcodec() or (None if device() else why_none())


def without_nvimgcodec() -> str | None:
    """Why nvImageCodec cannot be measured in this interpreter, None if it can."""
    try:
        found = importlib.util.find_spec("nvidia.nvimgcodec")
    except ModuleNotFoundError:  # not even the name space that NVIDIA's packages share
        found = None
    if found is None:
        return (
            "nvImageCodec is not installed in this twin: install docker/requirements.lock there, or use "
            "./twins, which does"
        )
    return None


def backend_note() -> str:
    """What nvImageCodec's figures stand for here: its GPU backend, or its CPU backend and why."""
    import torch

    on = device()
    if on is None:
        return f"nvImageCodec's CPU backend, no GPU decoding: {why_none()}"
    return f"nvImageCodec decodes on {on}, {torch.cuda.get_device_name(on)}"
