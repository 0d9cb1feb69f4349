"""What a run is asked for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from ftbench.plan.scenario import Scenario
from ftbench.stats import waterfall


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    scenarios: tuple[Scenario, ...]
    quick: bool
    out: Path
    data: Path | None
    rounds: int | None
    budget: float
    workers: tuple[int, ...] | None
    batch_size: int | None
    configs: tuple[str, ...]
    twins: dict[str, str]
    dataset: str | None = None
    """The user's own dataset as it was named, and its collate_fn."""
    collate_fn: str | None = None
    precision: float = waterfall.PRECISION
    requirements: tuple[str, ...] = ()
    """Packages that the user's own dataset needs, and a folder to keep downloads of them in."""
    cache: Path | None = None
    stress: bool = False
    stress_minutes: float | None = None

    def document(self) -> dict:
        """The options as results.json records them."""
        return {
            **asdict(self),
            "scenarios": [s.name for s in self.scenarios],
            "out": str(self.out),
            "data": str(self.data) if self.data else None,
            "cache": str(self.cache) if self.cache else None,
            "requirements": list(self.requirements),
            "configs": list(self.configs),
            "workers": list(self.workers) if self.workers else None,
        }
