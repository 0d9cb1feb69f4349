"""Search for the runs to merge, in files, directories and shared folders, with a reason for each run left out."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ftbench.arguments import hint
from ftbench.document.model import Results
from ftbench.document.store import WrongPath, find, load
from ftrun import host

# The name of a run's results, of a link to the latest run, and of the document of a merge, which is no run.
RESULTS, LATEST, MERGED = "results.json", "latest", "merged.json"


class Unusable(Exception):
    """Raised, or yielded, if a run or a part of a run cannot be merged; the message says why and what to do."""


class Found(NamedTuple):
    """A run that was found: its results, or the reason why it is left out."""

    name: str
    """The last part of the run's path, or more parts if other paths end with the same."""
    path: Path
    results: Results | Unusable
    earlier: int
    """Number of runs in the same directory that are not the latest, and are ignored."""


def runs(named: Sequence[Path]) -> Iterator[Found]:
    """Yield a Found for each run in the paths *named*, reading one run at a time to save memory.

    Raises WrongPath if a named path does not exist or has no runs.
    """
    places = list(dict.fromkeys(place for path in named for place in _places(path)))
    seen: dict[Path | str, str] = {}
    for name, path in zip(_names(places), places, strict=True):
        try:
            file = find(_newest(path))
            earlier = 0 if file in (path, path / RESULTS) else len(_runs_in(path)) - 1
            if (first := seen.setdefault(file.resolve(), name)) != name:
                raise Unusable(f"it is the file of {first}")
            results = load(file)
            if results.status != "complete":
                raise Unusable(f"it is incomplete: {results.reason}")
            # Not the whole record: names of folders may have been replaced in a copy.
            rounds = repr([scenario.rounds for scenario in results.scenarios])
            content = hashlib.sha256(rounds.encode(errors="surrogatepass")).hexdigest()
            if (first := seen.setdefault(content, name)) != name:
                raise Unusable(f"its measurements are those of {first} to the last digit, so one is a copy")
        except Unusable as why:
            yield Found(name, path, why, 0)
        except (WrongPath, OSError, RuntimeError) as error:  # RuntimeError: links in a circle, before Python 3.13
            yield Found(name, path, Unusable(str(error)), 0)
        else:
            yield Found(name, file, results, earlier)


def _places(path: Path) -> list[Path]:
    """Return [path] if it is a file, a run's directory or an output root (--out); else the directories inside it.

    Leaves out hidden directories and those of merges. Raises WrongPath if nothing is left or *path* does not exist.
    """
    shown = host.path(str(path))
    if not path.exists():
        near = os.listdir(path.parent) if path.parent.is_dir() else []
        raise WrongPath(f"there is no {shown}{hint(shown, [host.path(str(path.parent / each)) for each in near])}")
    if not path.is_dir() or (path / RESULTS).exists() or (path / LATEST).is_symlink():
        return [path]
    try:
        there = sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
    except OSError as error:
        raise WrongPath(f"cannot read {shown}: {error.strerror}") from error
    found = [each for each in there if not (each / MERGED).exists()]
    if not found:
        raise WrongPath(f"{shown} holds no results.json and no directories of runs: name a run, or a folder of runs")
    return found


def _runs_in(path: Path) -> list[Path]:
    return sorted(each for each in path.iterdir() if (each / RESULTS).exists() and each.name != LATEST)


def _newest(path: Path) -> Path:
    """Return *path*. If *path* is an output root (--out) in which no run has ended, return its newest run instead.

    An output root has the link `latest` once a run in it has ended. Raises Unusable if the output root has no run.
    """
    if not path.is_dir() or (path / RESULTS).exists() or (path / LATEST).exists():
        return path
    if not (runs := _runs_in(path)):
        raise Unusable("it holds no results.json: its run ended before its first round, or has not begun")
    return runs[-1]


def _names(places: Sequence[Path]) -> list[str]:
    """Return a name for each path: as few of the path's last parts as distinguish it from the other paths."""
    parts = [(place.parent if place.name == RESULTS else place).absolute().parts for place in places]
    longest = max(map(len, parts), default=0)
    endings = [Counter(own[-n:] for own in parts) for n in range(1, longest + 1)]
    return [
        os.path.join(*next((own[-n:] for n in range(1, len(own)) if endings[n - 1][own[-n:]] == 1), own))
        for own in parts
    ]
