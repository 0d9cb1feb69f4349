"""``torch.random.thread_safe_generator``, which torch has since 2.11: what it does in a worker, for
an older torch.
"""

import pytest
import torch


def thread_safe_generator():
    info = torch.utils.data.get_worker_info()
    if info is not None and info.worker_method == "thread" and info.rng is not None:
        return info.rng.torch_generator
    return None


@pytest.fixture
def torch_has_thread_safe_generator(monkeypatch):
    """Puts the function into a torch that lacks it."""
    if not hasattr(torch.random, "thread_safe_generator"):
        monkeypatch.setattr(
            torch.random, "thread_safe_generator", thread_safe_generator, raising=False
        )
