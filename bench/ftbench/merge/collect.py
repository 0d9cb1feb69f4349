"""Search for the runs to merge, in files, directories and shared folders, with a reason for all that is left out."""

import hashlib
import os
import re
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
# Folders above a machine's runs, in a folder that was named: campaign/node1, node1/results.
DEEPEST = 2
# Start of a run's directory in its output root, as the benchmark names it: 20261128-120000.
STAMP = re.compile(r"\d{8}")
# Number of runs from which on reading them shows its progress.
MANY = 50
# The most files and folders that a note names.
MOST_NAMES = 8


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


def runs(named: Sequence[Path], notes: list[str]) -> Iterator[Found]:
    """Yield a Found for each run in the paths *named*, reading one run at a time to save memory.

    Adds a note to *notes* for all that a named folder holds besides runs. Raises WrongPath if a named path does not
    exist or has no runs.
    """
    passed_over: dict[str, list[Path]] = {}
    places = list(dict.fromkeys(place for path in named for place in _places(path, passed_over)))
    notes += [_passed_over(why, paths) for why, paths in passed_over.items()]
    seen: dict[Path | str, str] = {}
    for name, path in _watched([*zip(_names(places), places, strict=True)]):
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


def _watched[T](places: Sequence[T]) -> Iterator[T]:
    """Yield the *places*. If there are MANY, show on stderr how many are done; off a terminal, print one line."""
    if len(places) < MANY:
        yield from places
        return
    from rich.console import Console
    from rich.progress import track

    console, title = Console(stderr=True, markup=False, emoji=False, highlight=False), f"reading {len(places)} runs"
    if not console.is_terminal:
        console.print(title)
    yield from track(places, title, console=console, transient=True, disable=not console.is_terminal)


def _passed_over(why: str, paths: Sequence[Path]) -> str:
    """Return a note that names the files and folders that are no runs, and the reason *why*."""
    more = f" and {len(paths) - MOST_NAMES} more" if len(paths) > MOST_NAMES else ""
    return f"passed over: {', '.join(host.path(str(path)) for path in paths[:MOST_NAMES])}{more}: {why}"


def _places(path: Path, passed_over: dict[str, list[Path]]) -> list[Path]:
    """Return [path] if it is a file, a run's directory or an output root (--out); else the places inside it.

    Adds to *passed_over* what is inside and holds no runs, by the reason. Raises WrongPath if no place is left or
    *path* does not exist.
    """
    shown = host.path(str(path))
    if not path.exists():
        near = os.listdir(path.parent) if path.parent.is_dir() else []
        raise WrongPath(f"there is no {shown}{hint(shown, [host.path(str(path.parent / each)) for each in near])}")
    if not path.is_dir() or (path / RESULTS).exists() or (path / LATEST).is_symlink():
        return [path]
    try:
        places = list(_inside(path, DEEPEST, passed_over))
    except OSError as error:
        raise WrongPath(f"cannot read {shown}: {error.strerror}") from error
    if not places:
        raise WrongPath(f"{shown} holds no results.json and no directories of runs: name a run, or a folder of runs")
    return places


def _inside(folder: Path, deepest: int, passed_over: dict[str, list[Path]]) -> Iterator[Path]:
    """Yield the runs' directories and output roots in a folder, and in its folders down to *deepest* below."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            passed_over.setdefault("the name is that of a hidden file or folder", []).append(path)
        elif not path.is_dir():
            passed_over.setdefault("no folder of a run", []).append(path)
        elif (path / MERGED).exists():
            passed_over.setdefault("a merge, which is no run", []).append(path)
        elif deepest > 1 and _holds_folders_only(path):
            yield from _inside(path, deepest - 1, passed_over)
        else:
            yield path


def _holds_folders_only(path: Path) -> bool:
    """True if a directory holds other directories, and is neither that of a run nor an output root.

    A directory that cannot be read is treated as a run, whose error says so.
    """
    if os.path.lexists(path / RESULTS) or (path / LATEST).is_symlink():
        return False
    try:
        names = [each.name for each in path.iterdir() if each.is_dir() and not each.name.startswith(".")]
        return bool(names) and not any(map(STAMP.match, names))
    except OSError:
        return False


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
