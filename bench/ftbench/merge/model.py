"""The document of a merge: what merged.json holds, and what its page and summary show.

A ratio is the throughput after a change, divided by that before it. The keys of merged.json are the fields' names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated as A
from typing import Literal

from ftbench.document.model import Change, Skipped

MERGED_VERSION = 2
"""Version of merged.json. It is increased whenever an older reader would misread a new document."""

Aspect = Literal["speed", "total"]
Agreement = Literal["differs", "agrees", "undecided", "one kind", "too few machines"]
"""Too few machines: fewer than two kinds have two machines or more."""


@dataclass(kw_only=True)
class Effect(Change):
    """A ratio with its 95% confidence interval; `n` is the number of machines, or of kinds."""

    expected: A[list[float] | None, "roughly where one more ratio is expected (95%); null for fewer than three"] = None


@dataclass
class MachineResult:
    """The results of one machine in one waterfall."""

    run: A[str, "name of its run"]
    speed: A[float, "geometric mean of its candidates' throughput, divided by that of its kind"]
    start_speed: A[float, "throughput of the first candidate, samples/s"]
    total: Effect


@dataclass
class Outlier:
    """A machine whose speed, or effect of the whole waterfall, is far from that of the other machines of its kind."""

    run: A[str, "name of its run"]
    kind: A[str, "its kind"]
    what: A[Aspect, "speed: of all candidates; total: the effect of the whole waterfall"]
    ratio: A[float, "its value divided by the mean of those that are no outliers"]
    others: A[float, "largest distance of one of those from their mean, as a factor"]


@dataclass
class KindResult:
    """The waterfall of one kind of machine."""

    kind: A[str, "processor, CPUs, memory and GPUs"]
    workers: A[int, "of each candidate, or of each of its ranks"]
    start_speed: A[float, "throughput of the first candidate: geometric mean of the machines, samples/s"]
    steps: A[dict[str, Effect], "by the name of the change"]
    total: Effect
    cpu: A[Effect, "the whole waterfall in CPU time for 1,000 samples"]
    machines: list[MachineResult]


@dataclass
class StepResult:
    """One step of a waterfall, or the whole waterfall: its ratio in each kind of machine, and the mean over kinds."""

    name: A[str, 'the change, or "in all"']
    kinds: A[dict[str, Effect], "by kind"]
    mean: A[Effect | None, "random-effects mean of the kinds, each counted once; null for one kind"]
    p: A[float | None, "of no difference between kinds (Welch), adjusted for the steps; null for too few machines"]
    apart: A[float | None, "no two kinds are further apart than this factor (95%); null for too few machines"]
    agreement: Agreement


@dataclass
class Group:
    """Runs with the same software and the same work, in one waterfall. A merge combines runs of the same group only."""

    workload: str
    start: A[str, "name of the first candidate"]
    sides: A[list[str], "configuration/variant of the first candidate, and of the candidate after each step"]
    contestants: A[str, "the last candidate against the first"]
    setting: A[dict[str, str], "software and work"]
    differences: A[list[str], "what differs from the largest group of the waterfall; empty for that group"]
    kinds: list[KindResult]
    steps: A[list[StepResult], "in order; the last is the total"]
    outliers: list[Outlier]
    hours: A[float, "standard deviation of the total's logarithm between two hours of one machine"]
    runs_of_hours: A[int, "runs at several hours that told it; 0 if it is assumed"]

    @property
    def machines(self) -> int:
        """The number of machines of all kinds."""
        return sum(len(kind.machines) for kind in self.kinds)

    @property
    def total(self) -> StepResult:
        """The result of the whole waterfall, from its first to its last candidate."""
        return self.steps[-1]


@dataclass
class RunRecord:
    """One run that was merged, at least in part."""

    name: str
    path: A[str, "of its results.json"]
    kind: A[str, "of its machine"]
    started: A[str, "ISO 8601, UTC"]
    revision: A[str, "commit of the sources"]


@dataclass
class Merged:
    """The outcome of a merge."""

    merged_version: int = MERGED_VERSION
    runs: list[RunRecord] = field(default_factory=list)
    left_out: A[list[Skipped], "runs, or parts of runs, that are not merged"] = field(default_factory=list)
    notes: A[list[str], "what a reader needs before the figures"] = field(default_factory=list)
    groups: A[list[Group], "the largest of each waterfall first, then those set apart from it"] = field(
        default_factory=list
    )

    @property
    def main(self) -> list[Group]:
        """The largest group of each waterfall."""
        return [group for group in self.groups if not group.differences]

    @property
    def apart(self) -> list[Group]:
        """The groups that are not the largest of their waterfall, since their software or work differs."""
        return [group for group in self.groups if group.differences]

    @property
    def outliers(self) -> list[Outlier]:
        """The outliers of all groups."""
        return [outlier for group in self.groups for outlier in group.outliers]
