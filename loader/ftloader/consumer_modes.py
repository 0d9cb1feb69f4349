"""What a worker thread takes over from the thread that makes the iterator.

A forked worker process begins with all that its parent's thread had set for itself. A new thread begins with
nothing: gradients on, no autocast, the CPU as default device, empty context variables (NumPy's ``errstate`` is one).
"""

import contextvars
from collections.abc import Callable

import torch

_AUTOCAST = ("cpu", "cuda")


class ConsumerModes:
    """The modes of the thread that makes this; immutable, so workers share it.

    ``inference_mode`` becomes ``no_grad``: batches come out as ordinary tensors, as those of
    worker processes, which are rebuilt by whoever takes them.
    """

    def __init__(self) -> None:
        self._context = contextvars.copy_context()
        self._gradients = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        self._autocast = [(name, torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in _AUTOCAST]
        self._device = torch.get_default_device()

    def run(self, work: Callable[[], None]) -> None:
        """Calls *work* in a new thread of its own, under these modes."""
        torch.set_grad_enabled(self._gradients)
        for name, enabled, dtype in self._autocast:
            torch.set_autocast_enabled(name, enabled)
            torch.set_autocast_dtype(name, dtype)
        # Each thread needs a copy: a context is entered by one thread at a time.
        context = self._context.copy()
        if self._device.type == "cpu":
            context.run(work)
        else:
            with self._device:
                context.run(work)
