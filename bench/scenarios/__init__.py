"""The scenarios that can be measured, by name.

A scenario is one file of this package with a constant SCENARIO, entered below. It says
what a sample is and how much of it makes a measurement; it knows nothing of rounds,
statistics or reports. The module is imported by the controller, which has no torch, so
whatever a dataset needs is imported when the trial builds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True)
class Scenario:
    """One kind of data loading work."""

    name: str
    description: str
    """One line for the list of scenarios and the head of a report."""
    sample: str
    """What one sample is, in a few words."""
    sample_shape: tuple[int, ...]
    sample_bytes_per_element: int
    dataset: Callable[[list[str]], object]
    """Builds the map-style dataset of a trial from the paths of the images."""
    batch_size: int
    quick_batch_size: int
    batches_per_worker: int
    """Length of the measured epoch; every worker builds as many, whatever their number."""
    quick_batches_per_worker: int

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample in a batch."""
        return prod(self.sample_shape) * self.sample_bytes_per_element


# After the class, which the scenarios' files import from here.
from bench.scenarios import pillow  # noqa: E402

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in (pillow.SCENARIO,)}
