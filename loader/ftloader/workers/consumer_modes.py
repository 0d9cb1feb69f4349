"""Modes that a worker thread takes over from the consumer, the thread that makes the iterator.

A forked worker process starts with all modes of its parent's thread. A new thread starts with gradients on, no autocast
and the CPU as default device. Context variables, such as NumPy's ``errstate``, are copied for each worker:
``own_context``.
"""

import contextvars
import sys

import torch

_AUTOCAST = ("cpu", "cuda")


class ConsumerModes:
    """torch's modes in the thread that makes this object, at that time. Immutable, so workers share it.

    ``inference_mode`` becomes ``no_grad``, so that batches are ordinary tensors.
    """

    def __init__(self) -> None:
        self._gradients = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        self._autocast = [(name, torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in _AUTOCAST]
        self._device = torch.get_default_device()

    def adopt(self) -> None:
        """Set the modes in the calling thread, a new one, for its whole life."""
        torch.set_grad_enabled(self._gradients)
        for name, enabled, dtype in self._autocast:
            torch.set_autocast_enabled(name, enabled)
            torch.set_autocast_dtype(name, dtype)
        # The cache of cast weights belongs to the process and is emptied on leaving autocast, which workers never do.
        torch.set_autocast_cache_enabled(False)
        if self._device.type != "cpu":
            self._device.__enter__()


def own_context() -> contextvars.Context:
    """Return a copy of this thread's context variables for one worker, with a ``decimal`` context of its own."""
    context = contextvars.copy_context()
    if "decimal" in sys.modules:
        decimal = sys.modules["decimal"]
        context.run(lambda: decimal.setcontext(decimal.getcontext().copy()))
    return context
