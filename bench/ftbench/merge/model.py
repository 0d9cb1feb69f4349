"""The document of a merge: what merged.json holds, and what its page and summary show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated as A
from typing import Literal

from ftbench.document.model import Change, SkippedPart, Waterfall

MERGED_VERSION = 3
"""Version of merged.json. It is increased whenever an older reader would misread a new document."""

Aspect = Literal["speed", "total"]
Agreement = Literal["differs", "agrees", "undecided", "one kind", "too few machines"]
"""Too few machines: fewer than two kinds have two machines or more."""


@dataclass
class Machine:
    """The results of one machine in one waterfall."""

    run: A[str, "name of its run"]
    path: A[str, "of the run's results.json"]
    revision: A[str, "commit of the run's sources"]
    waterfall: A[Waterfall, "as the run measured it"]
    speed: A[float, "geometric mean of its candidates' throughput, divided by its kind's"]

    @property
    def total(self) -> Change:
        """The effect of the whole waterfall on throughput."""
        return self.waterfall.throughput.total


@dataclass
class Outlier:
    """A machine whose speed, or whole effect, is far from those of the others of its kind."""

    run: A[str, "name of its run"]
    kind: A[str, "its kind"]
    what: A[Aspect, "speed of all candidates, or the whole waterfall's effect"]
    ratio: A[float, "its value divided by the mean of those that are no outliers"]
    others: A[float, "largest distance of one of those from their mean, as a factor"]


@dataclass
class MachineKind:
    """The waterfall of one kind of machine: the means of its machines."""

    name: A[str, "processor, CPUs, memory and GPUs"]
    waterfall: A[Waterfall, "n is the number of machines; intervals include what hours do"]
    machines: list[Machine]

    @property
    def number(self) -> int:
        """The number of its machines."""
        return len(self.machines)

    @property
    def total(self) -> Change:
        """The effect of the whole waterfall on throughput."""
        return self.waterfall.throughput.total


@dataclass
class Step:
    """Agreement of kinds of machine on one step of a waterfall, or on the whole."""

    name: A[str, 'the change, or "in all"']
    agreement: Agreement
    mean: A[Change | None, "of the kinds, each counted once; null for one kind"] = None
    expected: A[list[float] | None, "ratio of one more kind (95%); null for fewer than 3"] = None
    p: A[float | None, "of no difference between kinds, adjusted; null if not tested"] = None
    apart: A[float | None, "no two kinds are further apart (95%); null if not tested"] = None


@dataclass
class Group:
    """Runs with the same software and the same work, in one waterfall: those that are merged."""

    candidates: A[str, "the last candidate against the first"]
    setting: A[dict[str, str], "software and work"]
    differences: A[list[str], "from the waterfall's largest group; empty for that group"]
    kinds: list[MachineKind]
    steps: A[list[Step], "in order; the last is the total"]
    outliers: list[Outlier]
    hours: A[float, "standard deviation of the total's logarithm between a machine's hours"]
    runs_of_hours: A[int, "runs at several hours that told it; 0 if it is assumed"]

    @property
    def workload(self) -> str:
        """The work of the waterfall, for people."""
        return self.kinds[0].waterfall.workload

    @property
    def machines(self) -> list[Machine]:
        """The machines of all kinds."""
        machines: list[Machine] = []
        for kind in self.kinds:
            machines += kind.machines
        return machines

    @property
    def runs(self) -> list[str]:
        """The names of the machines' runs."""
        return [machine.run for machine in self.machines]

    @property
    def total(self) -> Step:
        """The agreement on the whole waterfall."""
        return self.steps[-1]

    def machine(self, run: str) -> Machine:
        """Return the machine of this run."""
        return next(machine for machine in self.machines if machine.run == run)


@dataclass
class Merged:
    """The outcome of a merge."""

    merged_version: int = MERGED_VERSION
    left_out: A[list[SkippedPart], "runs, or parts of runs"] = field(default_factory=list)
    notes: A[list[str], "what a reader needs before the figures"] = field(default_factory=list)
    groups: A[list[Group], "merged: the largest of each waterfall"] = field(default_factory=list)
    apart: A[list[Group], "set apart from the largest"] = field(default_factory=list)
