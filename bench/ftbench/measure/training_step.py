"""Steps of training loops: what the main thread does between two batches, in amounts that can be chosen."""

from __future__ import annotations

from collections import deque
from typing import Any

RECORDS = 400


def workers_beside(cpus: int) -> list[int]:
    """All CPUs but one, which the training loop has."""
    return [max(1, cpus - 1)]


class PythonStep:
    """Bookkeeping in plain Python, as loops do between their calls of torch. Used by one thread.

    Records, running means, counters and a line of a log for each: some milliseconds of bytecode, reference
    counts and small allocations, in which the GIL, where there is one, is held.
    """

    def __init__(self) -> None:
        self._recent: deque = deque(maxlen=1000)
        self._means: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._number = 0

    def __call__(self) -> None:
        """One step."""
        for _ in range(RECORDS):
            self._number += 1
            record: dict = {"step": self._number, "loss": 1 / self._number, "rate": 0.1 * 0.99 ** (self._number % 100)}
            self._recent.append(record)
            for name, value in record.items():
                mean = self._means.get(name, 0.0)
                self._means[name] = mean + 0.01 * (value - mean)
                self._counts[name] = self._counts.get(name, 0) + 1
            record["line"] = f"step {record['step']} loss {record['loss']:.4f} rate {record['rate']:.5f}"


class TorchStep:
    """Stochastic gradient descent of a small network, in units of half a millisecond or less. Used by one thread.

    On the accelerator if there is one, which the call then waits for; else on one thread of the CPU.
    """

    def __init__(self) -> None:
        import torch

        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        # A GPU needs more work for the same time.
        self._width = 1024 if self.device.type == "cuda" else 128
        torch.manual_seed(0)
        self._network = torch.nn.Sequential(
            torch.nn.Linear(self._width, self._width), torch.nn.ReLU(), torch.nn.Linear(self._width, self._width)
        ).to(self.device)
        self._optimiser = torch.optim.SGD(self._network.parameters(), lr=1e-4)

    def __call__(self, batch: Any, units: int) -> float:
        """Train for `units` steps on the first values of a batch (a uint8 tensor); returns the last loss."""
        wanted = 128 * self._width
        values = batch.reshape(-1)[:wanted].to(self.device, non_blocking=True).float() / 255
        # Small batches do not fill the network's input: they are repeated.
        values = values.repeat(-(-wanted // values.numel()))[:wanted].reshape(128, self._width)
        loss = values.sum()
        for _ in range(units):
            self._optimiser.zero_grad()
            loss = self._network(values).square().mean()
            loss.backward()
            self._optimiser.step()
        return loss.item()  # waits for the accelerator
