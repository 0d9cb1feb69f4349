"""Search for the runs to merge, in files, directories and shared folders; reasons for the rest."""

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ftbench.arguments import hint
from ftbench.compare.waterfalls import Incomparable
from ftbench.document.model import Results
from ftbench.document.store import WrongPath, find, load
from ftrun import host

# The name of a run's results, of a link to the latest run, and of the document of a merge.
RESULTS = "results.json"
LATEST = "latest"
MERGED = "merged.json"
# Folders above a machine's runs, in a folder that was named: campaign/node1, node1/results.
DEEPEST = 2
# Start of a run's directory in its output root, as the benchmark names it: 20261128-120000.
STAMP = re.compile(r"\d{8}")
# Number of runs from which on reading them shows its progress.
MANY = 50
# The most files, folders or runs that a note names.
MOST_NAMES = 8


class CollectedRun(NamedTuple):
    """A run: its results, or the reason why it is left out."""

    name: str
    """Path of the run's folder below the folder that holds all runs."""
    path: Path
    results: Results | Incomparable
    earlier: int = 0
    """Number of runs in the same directory that are not the latest, and are ignored."""


def runs(named: Sequence[Path], notes: list[str]) -> Iterator[CollectedRun]:
    """Yield each run in the paths *named*, reading one run at a time to save memory.

    Adds a note to *notes* for all that a named folder holds other than runs. Raises WrongPath if a
    named path does not exist or has no runs.
    """
    passed_over: dict[str, list[str]] = {}
    places: dict[Path, None] = {}  # each once, in order
    for path in named:
        places |= dict.fromkeys(_places(path, passed_over))
    for why, paths in passed_over.items():
        notes.append(f"passed over: {listed(paths)}: {why}")
    named_places = [*zip(_names([*places]), places, strict=True)]
    first_names: dict[Path | str, str] = {}
    for name, path in _with_progress(named_places):
        try:
            file = find(_newest(path))
            results = _load(file, name, first_names)
            earlier = 0
            if file not in (path, path / RESULTS):  # the latest run of an output root
                earlier = len(_runs_in(path)) - 1
            yield CollectedRun(name, file, results, earlier)
        except Incomparable as reason:
            yield CollectedRun(name, path, reason)
        except (WrongPath, OSError, RuntimeError) as error:  # RuntimeError: links in a circle
            yield CollectedRun(name, path, Incomparable(str(error)))


def _load(file: Path, name: str, first_names: dict[Path | str, str]) -> Results:
    """Return the results in *file*; raise Incomparable if incomplete, or if an earlier run's."""
    first = first_names.setdefault(file.resolve(), name)
    if first != name:
        raise Incomparable(f"it is the file of {first}")
    results = load(file)
    if results.status != "complete":
        raise Incomparable(f"it is incomplete: {results.reason}")
    # Not the whole record: names of folders may have been replaced in a copy.
    rounds = repr([scenario.rounds for scenario in results.scenarios])
    content = hashlib.sha256(rounds.encode(errors="surrogatepass")).hexdigest()
    first = first_names.setdefault(content, name)
    if first != name:
        same = f"its measurements are those of {first} to the last digit"
        raise Incomparable(f"{same}, so one is a copy")
    return results


def _with_progress[T](places: Sequence[T]) -> Iterator[T]:
    """Yield the *places*. From MANY on, show on stderr how many are done, or that they are read."""
    if len(places) < MANY:
        yield from places
        return
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    title = f"reading {len(places)} runs"
    plain = not console.is_terminal
    if plain:
        console.print(title)
    yield from track(places, title, console=console, transient=True, disable=plain)


def listed(names: Sequence[str], separator: str = ", ", most: int = MOST_NAMES) -> str:
    """Return *names* on one line: the first *most*, and the number of the rest."""
    more = len(names) - most
    return separator.join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _places(path: Path, passed_over: dict[str, list[str]]) -> list[Path]:
    """Return [path] if it is a file, a run's directory or an output root. Else return such places
    inside it, down to DEEPEST folders.

    Adds what holds no runs to *passed_over*, by the reason. Raises WrongPath if no place is left,
    or if *path* does not exist or cannot be read.
    """
    on_host = host.path(str(path))
    if not path.exists():
        siblings = path.parent.iterdir() if path.parent.is_dir() else ()
        names = [host.path(str(sibling)) for sibling in siblings]
        raise WrongPath(f"there is no {on_host}{hint(on_host, names)}")
    if not path.is_dir() or _is_run_or_root(path):
        return [path]
    try:
        places = list(_inside(path, DEEPEST, passed_over))
    except OSError as error:
        raise WrongPath(f"cannot read {on_host}: {error.strerror}") from error
    if not places:
        nothing = f"{on_host} holds no results.json and no directories of runs"
        raise WrongPath(f"{nothing}: name a run, or a folder of runs")
    return places


def _inside(folder: Path, deepest: int, passed_over: dict[str, list[str]]) -> Iterator[Path]:
    """Yield the directories of runs and output roots in a folder, down to *deepest* below."""
    for path in sorted(folder.iterdir()):
        why = ""
        if path.name.startswith("."):
            why = "the name is that of a hidden file or folder"
        elif not path.is_dir():
            why = "no folder of a run"
        elif (path / MERGED).exists():
            why = "a merge, which is no run"
        if why:
            passed_over.setdefault(why, []).append(host.path(str(path)))
        elif deepest > 1 and _holds_folders_only(path):
            yield from _inside(path, deepest - 1, passed_over)
        else:
            yield path


def _is_run_or_root(path: Path) -> bool:
    return os.path.lexists(path / RESULTS) or (path / LATEST).is_symlink()


def _holds_folders_only(path: Path) -> bool:
    """True if a directory holds directories, and is neither that of a run nor an output root."""
    names = []
    try:
        for entry in path.iterdir():
            if entry.is_dir() and not entry.name.startswith("."):
                names.append(entry.name)
    except OSError:  # treated as a run, whose error says so
        return False
    return bool(names) and not _is_run_or_root(path) and not any(map(STAMP.match, names))


def _runs_in(path: Path) -> list[Path]:
    """Return the folders of the runs in an output root, the oldest first."""
    folders = []
    for folder in sorted(path.iterdir()):
        if folder.name != LATEST and (folder / RESULTS).exists():
            folders.append(folder)
    return folders


def _newest(path: Path) -> Path:
    """Return *path*, or the newest run in an output root (--out) in which no run has ended."""
    if not path.is_dir() or (path / RESULTS).exists() or (path / LATEST).exists():
        return path
    folders = _runs_in(path)
    if not folders:
        why = "its run ended before its first round, or has not begun"
        raise Incomparable(f"it holds no results.json: {why}")
    return folders[-1]


def _names(places: Sequence[Path]) -> list[str]:
    """Return the path of each run's folder below the folder that holds all of them."""
    folders, parents = [], []
    for path in places:
        folder = path.absolute()
        if path.name == RESULTS:
            folder = folder.parent
        folders.append(folder)
        parents.append(folder.parent)
    if not folders:
        return []
    common = os.path.commonpath(parents)
    return [os.path.relpath(folder, common) for folder in folders]
