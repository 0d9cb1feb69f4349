"""The GPU that a trial uses, or the reason why it has none. Called in the trial's process."""

from __future__ import annotations

from ftrun import environment

MIB = 1024 * 1024


def device() -> str | None:
    """Return torch's name of the first GPU, "cuda:0"; None if torch sees none.

    Makes no CUDA context, so the process may still fork workers.
    """
    import torch

    return "cuda:0" if torch.cuda.is_available() else None


def why_none() -> str | None:
    """Return why there is no GPU here, and what to do about it; None if there is one."""
    import torch

    if device():
        return None
    found = environment.gpu()
    return found["reason"] or (
        f"nvidia-smi shows {', '.join(found['devices'])} with driver {found['driver']}, but torch "
        f"{torch.__version__} cannot use it: its CUDA {torch.version.cuda} needs a newer driver"
    )


def used_mib(on: str) -> float:
    """Return the used memory of the GPU by all processes (MiB); makes a CUDA context in this one."""
    import torch

    free, total = torch.cuda.mem_get_info(torch.device(on))
    return (total - free) / MIB
