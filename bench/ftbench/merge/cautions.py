"""Notes of a merge on what its runs do not share, or suffered: other options, disturbed rounds, and warnings."""

from collections.abc import Iterator, Sequence

from ftbench.merge.measured import Measured

# The most runs that a note names for each value.
MOST_NAMES = 8


def cautions(parts: Sequence[Measured]) -> list[str]:
    """Return notes that name the runs: differences within a group, disturbed rounds, and each run's warnings."""
    groups: dict[tuple, list[Measured]] = {}
    for part in parts:
        groups.setdefault((part.fall.scenario, part.fall.case, part.setting), []).append(part)
    notes = [note for group in groups.values() for note in _of_group(group)]
    warned: dict[str, dict[str, None]] = {}
    for part in parts:
        for warning in part.warnings:
            warned.setdefault(warning, {})[part.run] = None
    return notes + [f"warning of {_names([*runs])}: {warning}" for warning, runs in warned.items()]


def _of_group(parts: Sequence[Measured]) -> Iterator[str]:
    """Yield the notes on runs that are merged in one waterfall."""
    workload = parts[0].fall.workload
    for title in parts[0].named:
        runs: dict[str, list[str]] = {}
        for part in parts:
            runs.setdefault(part.named[title], []).append(part.run)
        if len(runs) > 1:
            largest_first = sorted(runs.items(), key=lambda item: -len(item[1]))
            values = "; ".join(f"{value} in {_names(names)}" for value, names in largest_first)
            yield f"{workload}: {title} differs: {values}"
    if disturbed := [f"{part.run} ({part.disturbed})" for part in parts if part.disturbed]:
        yield f"{workload}: other load disturbed {_names(disturbed)}"


def _names(runs: Sequence[str]) -> str:
    more = f" and {len(runs) - MOST_NAMES} more" if len(runs) > MOST_NAMES else ""
    return f"{', '.join(runs[:MOST_NAMES])}{more}"
