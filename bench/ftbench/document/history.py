"""Search for runs in an output root (--out), and a small record of runs in the cache folder, which
outlives the runs.

Both serve what a run says of other hours (ftbench.stats.hours). Neither is needed: what cannot be
read is passed over.
"""

import contextlib
import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from ftbench.document.model import Results
from ftbench.document.store import LARGEST, ResultsError, load

RESULTS = "results.json"
RECORD = "hours.jsonl"
# The most runs that are read from a folder: reading one takes a tenth of a second.
MOST_RUNS = 100
# The part of the record that is read, from its end: some thousand runs.
MOST_BYTES = 2**22
# No ratio of two measurements is as large as exp(700), which a float just holds.
MOST_LOG = 700.0


@dataclass(frozen=True)
class Entry:
    """One waterfall of one run in the record."""

    key: str
    """Hash of machine, settings, software and work."""
    started: str
    """Start of the run: ISO 8601 with its time zone."""
    seconds: float
    """Duration of the run."""
    figures: dict[str, tuple[float, float]]
    """The logarithm of each step's ratio and its standard error, by the name of the step."""

    @property
    def time(self) -> float:
        """Start of the run in seconds since 1970."""
        return datetime.fromisoformat(self.started).timestamp()


def figures_of(entries: Iterable[Entry], step: str) -> list[tuple[float, float]]:
    """Return the figure of a step, or of IN_ALL, in each of the entries that have it."""
    return [entry.figures[step] for entry in entries if step in entry.figures]


def runs(root: Path, source: str) -> Iterator[Results]:
    """Yield the complete runs in *root* of the same sources,
    by their hash *source*; at most MOST_RUNS.
    """
    number = 0
    try:
        folders = sorted(itertools.filterfalse(Path.is_symlink, root.iterdir()), reverse=True)
    except OSError:
        return
    for folder in folders:
        file = folder / RESULTS
        # The text is searched before it is read as JSON, which takes much longer.
        with contextlib.suppress(OSError, ResultsError, RecursionError):
            if not file.is_file() or file.stat().st_size > LARGEST:
                continue
            if (
                json.dumps(source).encode() in file.read_bytes()
                and (results := load(file)).status == "complete"
            ):
                yield results
                number += 1
        if number == MOST_RUNS:
            return


def recorded(cache: Path, key: str) -> list[Entry]:
    """Return the entries with this key in the record below *cache*;
    an empty list if there is no record.
    """
    if not (cache / RECORD).is_file():  # reading a pipe would wait
        return []
    try:
        with open(cache / RECORD, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MOST_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return []
    entries = []
    for line in lines:
        if key.encode() in line and (entry := _entry(line)) and entry.key == key:
            entries.append(entry)
    return entries


def _entry(line: bytes) -> Entry | None:
    """Return the entry that a line holds; None for a line that was cut short,
    or that something else wrote.
    """
    with contextlib.suppress(
        LookupError, ValueError, TypeError, AttributeError, OverflowError, RecursionError
    ):
        content = json.loads(line)
        figures = {
            str(name): (float(log), float(error))
            for name, (log, error) in content["figures"].items()
        }
        entry = Entry(content["key"], content["started"], float(content["seconds"]), figures)
        if math.isfinite(entry.time + entry.seconds) and all(map(_is_measured, figures.values())):
            return entry
    return None


def _is_measured(figure: tuple[float, float]) -> bool:
    """True if the logarithm of a ratio and its standard error are such as a run may measure."""
    log, error = figure
    return abs(log) < MOST_LOG and 0 <= error < MOST_LOG


def record(cache: Path, entries: Iterable[Entry]) -> None:
    """Append entries to the record below *cache*.
    A record that cannot be written is left as it is.
    """
    text = "".join(f"{json.dumps(asdict(entry))}\n" for entry in entries)
    with contextlib.suppress(OSError):
        # One write: runs that end at the same time do not mix their lines.
        with open(cache / RECORD, "ab", buffering=0) as file:
            file.write(f"\n{text}".encode(errors="replace"))
