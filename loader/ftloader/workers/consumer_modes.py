"""torch modes and context variables that a worker thread inherits from the consumer, which makes the iterator.

A forked worker process starts with all modes of its parent's thread. A new thread starts with gradients on, no autocast
and the CPU as default device. Context variables, such as NumPy's ``errstate``, are copied for each worker:
``own_context``.
"""

import contextvars
import sys
from collections.abc import Callable

import torch


def consumer_modes() -> Callable[[], None]:
    """Return a function that copies this thread's torch modes (gradients, autocast, device) to its caller's thread."""
    # ``inference_mode`` becomes ``no_grad``, so that batches are ordinary tensors.
    gradients = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    autocast = [(name, torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in ("cpu", "cuda")]
    device = torch.get_default_device()

    def adopt() -> None:
        torch.set_grad_enabled(gradients)
        for name, enabled, dtype in autocast:
            torch.set_autocast_enabled(name, enabled)
            torch.set_autocast_dtype(name, dtype)
        # The cache of cast weights belongs to the process and is emptied on leaving autocast, which workers never do.
        torch.set_autocast_cache_enabled(False)
        if device.type != "cpu":
            device.__enter__()

    return adopt


def own_context() -> contextvars.Context:
    """Return a copy of this thread's context variables for one worker, with a ``decimal`` context of its own."""
    context = contextvars.copy_context()
    if "decimal" in sys.modules:
        decimal = sys.modules["decimal"]
        context.run(lambda: decimal.setcontext(decimal.getcontext().copy()))
    return context
