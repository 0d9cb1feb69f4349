"""What a worker thread takes over from the thread that makes the iterator.

A forked worker process begins with all that its parent's thread had set for itself. A new thread begins with gradients
on, no autocast and the CPU as default device. Context variables, NumPy's ``errstate`` among them, are of the user's
side of a worker: see ``workers.thread.WorkerContext``.
"""

import contextvars
import sys

import torch

_AUTOCAST = ("cpu", "cuda")


class ConsumerModes:
    """The modes of the thread that makes this; immutable, so workers share it.

    ``inference_mode`` becomes ``no_grad``: batches come out as ordinary tensors. Those of worker processes are rebuilt
    by whoever takes them, as inference tensors if that is in ``inference_mode``.
    """

    def __init__(self) -> None:
        self._gradients = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        self._autocast = [(name, torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in _AUTOCAST]
        self._device = torch.get_default_device()

    def adopt(self) -> None:
        """Sets them in the calling thread, a new one, for its whole life."""
        torch.set_grad_enabled(self._gradients)
        for name, enabled, dtype in self._autocast:
            torch.set_autocast_enabled(name, enabled)
            torch.set_autocast_dtype(name, dtype)
        # The cache of cast weights is the process's, and emptied by who leaves autocast: never these threads.
        torch.set_autocast_cache_enabled(False)
        if self._device.type != "cpu":
            self._device.__enter__()


def own_context() -> contextvars.Context:
    """A copy of this thread's context variables, for one worker. The values are the same objects, but for the
    ``decimal`` context."""
    context = contextvars.copy_context()
    if "decimal" in sys.modules:
        decimal = sys.modules["decimal"]
        context.run(lambda: decimal.setcontext(decimal.getcontext().copy()))
    return context
