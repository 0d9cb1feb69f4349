"""Merging: groups of runs with the same software and work,
their kinds of machine, and how these agree.

Each machine counts once in its kind's mean, and each kind once in the mean of kinds
(ftbench.stats.random_effects). A machine's error includes what hours do (ftbench.stats.hours): it
comes from the other runs in the machine's output root, or is the usual one. Without it, simulated
kinds that are alike were said to differ in 36% of merges.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ftbench.compare import earlier
from ftbench.compare.identity import differing
from ftbench.compare.waterfalls import Incomparable
from ftbench.document.history import Entry, figures_of
from ftbench.document.model import SkippedPart
from ftbench.merge import collect
from ftbench.merge.agreement import agreed_steps
from ftbench.merge.kinds import kind_means, outliers_of_kind
from ftbench.merge.model import Group, Merged
from ftbench.merge.parts import Hardware, Part, kind_names, notes, parts
from ftbench.plan.waterfall import IN_ALL
from ftbench.report import run_words
from ftbench.stats.hours import Deviation, deviation
from ftbench.stats.outliers import FEWEST
from ftbench.stats.statistics import CONFIDENCE


@dataclass(frozen=True)
class PartsOfWaterfall:
    """The parts of one waterfall in all runs."""

    by_setting: defaultdict[tuple, list[Part]] = field(default_factory=lambda: defaultdict(list))
    entries: list[list[Entry]] = field(default_factory=list)
    """Entries at different hours, a list for each machine with several runs."""

    def add(self, part: Part) -> None:
        """Add a part."""
        setting = tuple(part.setting.items())
        self.by_setting[setting].append(part)


Waterfalls = defaultdict[earlier.Place, PartsOfWaterfall]


def merge(named: Sequence[Path]) -> Merged:
    """Merge the runs in the paths *named*; raise WrongPath if a path is missing or has no runs."""
    merged = Merged()
    waterfalls = _collected(named, merged)
    groups: list[list[Part]] = []
    for waterfall in waterfalls.values():
        groups += waterfall.by_setting.values()
    merged.notes += notes(groups)
    names = kind_names(groups)
    for waterfall in waterfalls.values():
        ordered = _largest_first(waterfall.by_setting).values()
        main, *apart = [_group(group, names, waterfall.entries) for group in ordered]
        for group in apart:
            group.differences = _differences(group.setting, main.setting)
        merged.groups.append(main)
        merged.apart += apart
    return merged


def _collected(named: Sequence[Path], merged: Merged) -> Waterfalls:
    """Return the parts of the runs that can be merged; add the others, and notes, to *merged*."""
    waterfalls = Waterfalls(PartsOfWaterfall)
    for run in collect.runs(named, merged.notes):
        for part in parts(run):
            if isinstance(part, Incomparable):
                merged.left_out.append(SkippedPart(run.name, str(part)))
            else:
                waterfalls[part.place].add(part)
        if run.earlier:
            _add_hours(run, waterfalls)
            number = run_words.count(run.earlier, "earlier run")
            text = f"its latest run is merged, and not its {number}: name each if they are others'"
            merged.notes.append(f"{run.name}: {text}")
    return waterfalls


def _add_hours(run: collect.CollectedRun, waterfalls: Waterfalls) -> None:
    assert not isinstance(run.results, Incomparable), "a run that is left out has no earlier runs"
    for place, entries in earlier.at_all_hours(run.results, run.path).items():
        waterfalls[place].entries.append(entries)


def _largest_first[Key: Hashable](parts: Mapping[Key, list[Part]]) -> dict[Key, list[Part]]:
    """Return {key: parts} in another order: most parts first, equal numbers by their keys."""
    return dict(sorted(parts.items(), key=lambda item: (-len(item[1]), item[0])))


def _differences(setting: Mapping[str, str], main: Mapping[str, str]) -> list[str]:
    """Return a phrase for each difference of a group's *setting* from that of the main group."""
    phrases = []
    for title, usual, value in differing(main, setting, "missing"):
        phrases.append(f"{title} is {value}, not {usual}")
    return phrases


def _group(
    group: Sequence[Part], names: Mapping[Hardware, str], entries: Sequence[Sequence[Entry]]
) -> Group:
    """Return the result of runs with equal settings. *names*: the kinds of machine."""
    hours = _hours(group[0].measured.throughput, entries)
    by_kind: dict[str, list[Part]] = defaultdict(list)
    for part in sorted(group, key=lambda part: part.machine.run):
        by_kind[names[part.hardware]].append(part)
    # Speed and effect of each kind that is large enough for outliers.
    tests = 2 * sum(len(machines) >= FEWEST for machines in by_kind.values())
    risk = (1 - CONFIDENCE) / max(1, tests)
    kinds, far = [], []
    means = defaultdict(list)
    for name, machines in _largest_first(by_kind).items():
        kind, of_kind = kind_means(name, machines, hours)
        kinds.append(kind)
        far += outliers_of_kind(name, machines, risk)
        for step, mean in of_kind.items():
            means[step].append(mean)
    return Group(
        candidates=group[0].candidates,
        setting=group[0].setting,
        differences=[],
        kinds=kinds,
        steps=agreed_steps(means, [kind.number for kind in kinds]),
        outliers=far,
        hours=hours[IN_ALL].sigma,
        runs_of_hours=hours[IN_ALL].runs,
    )


def _hours(steps: Iterable[str], entries: Sequence[Sequence[Entry]]) -> dict[str, Deviation]:
    """Return {step: deviation of its ratio between hours}. *entries*: of each machine."""
    hours = {}
    for step in steps:
        hours[step] = deviation([figures_of(machine, step) for machine in entries])
    return hours
