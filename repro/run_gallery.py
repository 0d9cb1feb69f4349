"""Run the gallery: every published bug in this folder, in every configuration, compared with its header.

    ./twins exec ft python repro/run_gallery.py [--versions] [--out docs/results/gallery.md] [SCRIPT ...]

With --dask ADDRESS the workers of a Dask cluster make the runs, as those of `./twins repro` (docs/scale.md).

A header names the link, the package, the version in which the bug was seen to fail, the version in which it is fixed,
and how the script ends in each configuration until then:

    # Link: https://github.com/numpy/numpy/issues/28197
    # Package: numpy
    # Fails: 2.2.2
    # Fixed: 2.2.3
    # Expected ft: fails (signal, exception)

Without "Package" the expectation holds for every version. "CPython" is the package of bugs in the interpreter.
"With: contourpy==1.3.0" names further packages that a version with or without the bug is installed with.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.version import Version

from ftrun.configurations import CONFIGURATIONS
from ftrun.errors import Interrupted, OverlayError, TwinError
from ftrun.escape import markdown
from ftrun.interruption import Interruption
from ftrun.overlay import install
from ftrun.project import normalise
from ftsafety.repro.arguments import scheduler
from ftsafety.repro.campaign import Campaign, Runs
from ftsafety.repro.cluster import ClusterCampaign, NoCluster
from ftsafety.repro.options import ReproOptions
from ftsafety.repro.outcome import Kind
from ftsafety.repro.progress import ProgressPrinter
from ftsafety.repro.request import Limits
from ftsafety.repro.script import Script
from ftsafety.repro.twins import LocalScripts
from ftsafety.repro.verdict_words import rate

HERE = Path(__file__).parent
ROOT = HERE.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "ft-twins"
BUDGET_SECONDS = 900.0  # for one script in one version
CPYTHON = "CPython"
FIELD = re.compile(r"^# (Link|Package|Fails|Fixed|With|Timeout|Expected (?:gil|ft-gil|ft)): (.+)$", re.M)
EXPECTED = re.compile(r"ok|GIL enabled|(?:fails|may fail) \(((?:[A-Za-z ]+)(?:, [A-Za-z ]+)*)\)")
ISSUE = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)")
UNKNOWN = "unknown"


class GalleryError(Exception):
    """A script's header is malformed; the message says how."""


@dataclass(frozen=True)
class Entry:
    """One script of the gallery."""

    path: Path
    title: str
    link: str
    timeout: float
    expected: Mapping[str, str]
    package: str | None = None
    fails: str | None = None
    fixed: str | None = None
    others: tuple[str, ...] = ()
    """Requirements that are installed together with a version of the package."""

    @property
    def is_of_python(self) -> bool:
        """True for a bug of CPython, or one that every version of its package has."""
        return self.package in (None, CPYTHON)

    def expects(self, config: str, version: str, patches: str = "") -> str:
        """Return the expectation for this version of the package; `patches` are those applied to CPython."""
        if self.package is None or self.fixed is None:
            return self.expected[config]
        actual, fixed = Version(version), Version(self.fixed)
        if self.package == CPYTHON and actual.release[:2] > fixed.release[:2]:
            return UNKNOWN  # each series of CPython has its own releases: "Fixed" is of one
        number = self.link.rpartition("/")[2]
        if actual >= fixed or re.search(rf"\bgh-{number}\b", patches):
            return Kind.OK
        return self.expected[config]


@dataclass(frozen=True)
class Row:
    """One script in one version and configuration."""

    script: str
    version: str
    config: str
    runs: int
    failures: int
    kinds: Mapping[str, int]
    expected: str
    as_expected: bool
    date: str
    python: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The values in which a row is equal to the row that it replaces."""
        return self.script, self.version, self.config, self.python

    @property
    def order(self) -> tuple:
        """The place of the row in the file."""
        return self.script, self.python, self.version, [*CONFIGURATIONS].index(self.config)


def read(path: Path) -> Entry:
    """Read the entry that a script's header describes; raises GalleryError."""
    text = path.read_text(encoding="utf-8")
    fields = dict(FIELD.findall(text))
    expected = {config: fields.get(f"Expected {config}", "") for config in CONFIGURATIONS}
    package = fields.get("Package"), fields.get("Fails"), fields.get("Fixed")
    if not (_is_valid(fields) and all(map(_is_expectation, expected.values())) and _is_all_or_nothing(package)):
        raise GalleryError(f"{path.name}: its header lacks a field or has a wrong one: {fields}")
    title = text.partition("\n")[0].lstrip("# ").rstrip(".")
    others = tuple(fields.get("With", "").split())
    return Entry(path, title, fields["Link"], float(fields["Timeout"]), expected, *package, others)


def _is_valid(fields: Mapping[str, str]) -> bool:
    return "Timeout" in fields and ISSUE.fullmatch(fields.get("Link", "")) is not None


def _is_expectation(text: str) -> bool:
    return EXPECTED.fullmatch(text) is not None and _kinds(text) <= set(Kind)


def _is_all_or_nothing(fields: Iterable[str | None]) -> bool:
    return len(set(map(bool, fields))) == 1


def _kinds(expected: str) -> set[str]:
    match = EXPECTED.fullmatch(expected)
    return set(match[1].split(", ")) if match and match[1] else set()


def holds(expected: str, ends: Iterable[str]) -> bool:
    """True if runs that ended in these ways meet the expectation."""
    kinds = set(ends)
    if expected == UNKNOWN:
        return True
    if expected == Kind.GIL:
        return Kind.GIL in kinds and kinds <= {Kind.OK, Kind.GIL}
    failures = _kinds(expected)
    if expected.startswith("fails") and kinds.isdisjoint(failures):
        return False
    return kinds <= {Kind.OK, *failures}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Run the gallery and compare it with its headers.")
    add = parser.add_argument
    add("scripts", nargs="*", type=Path, metavar="SCRIPT", help="these scripts only")
    add("--versions", action="store_true", help="also in the versions of a package before and after the fix")
    add("--configs", default="gil,ft-gil,ft", help="these configurations only (default: %(default)s)")
    add("--threads", type=int, default=8)
    add("--repeat", type=int, default=20)
    add("--out", type=Path, help="write the page here, and add the rows to the file with the suffix .json")
    add("--dask", metavar="ADDRESS", type=scheduler, help="make the runs on the workers of this Dask cluster")
    add("--dask-python", default=_outer_python(), help="the Python that has Dask's client (default: %(default)s)")
    add(
        "--dask-folder",
        default=str(ROOT),
        metavar="DIR",
        help="this project's folder on the workers (default: as here)",
    )
    return parser


def main() -> int:
    """Run the gallery; return 0 if every script behaves as its header says."""
    parser = _parser()
    options = parser.parse_args()
    try:
        entries = [read(path) for path in sorted(HERE.glob("*.py")) if path.name != Path(__file__).name]
        chosen = [read(path) for path in options.scripts] or entries
    except (GalleryError, OSError) as error:
        parser.error(str(error))
    with Interruption() as interruption, contextlib.ExitStack() as stack:
        progress = stack.enter_context(contextlib.closing(ProgressPrinter()))
        try:
            rows, notes = Gallery(options, interruption, progress, stack).run(chosen)
        except Interrupted as error:
            return error.exit_status
        except TwinError as error:
            progress.note(f"run_gallery.py: {error}")
            return 2 if isinstance(error, NoCluster) else 1
    print(page(chosen, rows, notes))
    if options.out is not None:
        text = page(entries, merged(options.out.with_suffix(".json"), rows), notes)
        options.out.write_text(text, encoding="utf-8")
    unexpected = sorted({row.script for row in rows if not row.as_expected})
    print(f"not as expected: {', '.join(unexpected) or 'nothing'}", file=sys.stderr)
    return 1 if unexpected else 0


class Gallery:
    """All runs of the gallery. Owned by one thread."""

    def __init__(
        self,
        options: argparse.Namespace,
        interruption: Interruption,
        progress: ProgressPrinter,
        stack: contextlib.ExitStack,
    ):
        self._options, self._interruption, self._progress = options, interruption, progress
        self._twins: dict[str, LocalScripts] = {}
        self._packages: dict[str, dict[str, str]] = {}
        """By twin: the versions of its own packages, by normalised name."""
        pythons = {name: interpreter(name, interruption) for name in ("ft", "gil")}
        for name, python in pythons.items():
            twin = self._twins[name] = LocalScripts(Path(python), interruption)
            description = twin.describe()
            self._packages[name] = description["packages"]
            if name == "ft":
                self._python = description["interpreter"]["version"]
        self._patches = _patches(pythons["ft"])
        self._added: tuple[str, ...] = ()
        """The requirements that the twins have in addition to their own packages."""
        self._work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ft-gallery-")))

    def run(self, entries: Iterable[Entry]) -> tuple[list[Row], list[str]]:
        """Return the rows, and a note for each version that could not be installed."""
        rows: list[Row] = []
        notes: list[str] = []
        for entry in entries:
            for version, missing in self._versions(entry, notes):
                rows += self._rows(entry, version, missing)
        return rows, notes

    def _versions(self, entry: Entry, notes: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield (version, reason by twin that lacks it): as locked, and with --versions before and after the fix."""
        locked = self._python
        if not entry.is_of_python:
            locked = self._packages["ft"].get(normalise(entry.package or ""))
        if locked:
            self._install(())
            yield locked, {}
        if not self._options.versions or entry.is_of_python:
            return
        for version in (entry.fails, entry.fixed):
            if version is None or version == locked:
                continue
            pin = f"{entry.package}=={version}"
            missing = self._install((pin, *entry.others))
            notes += (f"{entry.path.name}: {pin}, for {name}: {reason}" for name, reason in missing.items())
            if len(missing) < len(self._twins):
                yield version, missing

    def _install(self, requirements: tuple[str, ...]) -> dict[str, str]:
        """Give the twins these packages in addition to their own; return the reason for each that cannot have them."""
        missing: dict[str, str] = {}
        self._added = requirements
        if self._options.dask:  # each task installs them
            return missing
        if requirements:
            self._progress.note(f"installing {' '.join(requirements)}")
        for name, twin in self._twins.items():
            twin.overlay = None
            if requirements:
                try:
                    twin.overlay = self._overlay(name, requirements)
                except OverlayError as error:
                    missing[name] = f"cannot be installed: {error}"
        return missing

    def _overlay(self, name: str, requirements: tuple[str, ...]) -> str:
        """Install the packages for a twin; return their folder. Raises OverlayError."""
        folder = Path(tempfile.mkdtemp(dir=self._work)) / "packages"
        python, packages = self._twins[name].python, self._packages[name]
        install(folder, python, requirements, packages, CACHE, self._interruption)
        return str(folder)

    def _campaign(self, entry: Entry, missing: dict[str, str]) -> Campaign:
        options = self._options
        script = Script(entry.path.name, entry.path.read_bytes(), str(entry.path))
        if not options.dask:
            deadline = time.monotonic() + BUDGET_SECONDS
            limits, update = Limits(entry.timeout), self._progress.update
            return Campaign(script, self._twins, limits, update, deadline, missing)
        cluster_options = ReproOptions(
            script,
            packages=self._added,
            timeout=entry.timeout,
            budget=BUDGET_SECONDS,
            dask=options.dask,
            dask_python=options.dask_python,
            dask_folder=options.dask_folder,
        )
        return ClusterCampaign(cluster_options, self._interruption, self._progress)

    def _rows(self, entry: Entry, version: str, missing: dict[str, str]) -> Iterator[Row]:
        options = self._options
        campaign = self._campaign(entry, missing)
        title = f"{entry.path.stem} {version}:"
        all_runs = campaign.run(options.configs.split(","), options.repeat, options.threads, title)
        self._interruption.check()
        patches = self._patches if entry.package == CPYTHON else ""
        for config, runs in all_runs.items():
            if options.dask and runs.missing:
                self._progress.note(f"{entry.path.name}: {config}: {runs.missing}")
            if runs.outcomes:
                yield self._row(entry, version, runs, entry.expects(config, version, patches))

    def _row(self, entry: Entry, version: str, runs: Runs, expected: str) -> Row:
        kinds = runs.kinds
        python = f"{self._python} with patches" if self._patches else self._python
        return Row(
            entry.path.name,
            python if entry.is_of_python else version,
            runs.config,
            runs.counted,
            runs.failures,
            dict(kinds),
            expected,
            holds(expected, kinds),
            time.strftime("%Y-%m-%d", time.gmtime()),
            python,
        )


def interpreter(twin: str, interruption: Interruption) -> str:
    """Return the path of a twin's Python. Build the twin if there is none; raises Interrupted."""
    command = [ROOT / "twins", "exec", twin, "python", "-c", "import sys; print(sys.executable)"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    interruption.check()
    if done.returncode:
        sys.exit(done.returncode)  # ./twins has said why
    return done.stdout.strip()


def _outer_python() -> str:
    """Return the python3 that the user's shell finds, outside of this twin."""
    folder_of_twin = os.path.join(sys.prefix, "bin")
    path = os.pathsep.join(folder for folder in os.get_exec_path() if folder != folder_of_twin)
    return shutil.which("python3", path=path) or sys.executable


def _patches(python: str) -> str:
    """Return what docker/patch-cpython applied to an interpreter: one line for each patch, with its issue."""
    done = subprocess.run([python, "-c", "import sys; print(sys.base_prefix)"], capture_output=True, text=True)
    try:
        return (Path(done.stdout.strip()) / "share" / "cpython" / "PATCHES").read_text()
    except OSError:
        return ""


def merged(path: Path, rows: list[Row]) -> list[Row]:
    """Add `rows` to the file, replacing those of the same script, version, configuration and Python; return all."""
    keys = {row.key for row in rows}
    all_rows = list(rows)
    if path.exists():
        for fields in json.loads(path.read_text()):
            row = Row(**fields)
            if row.key not in keys:
                all_rows.append(row)
    all_rows.sort(key=lambda row: row.order)
    path.write_text(json.dumps(list(map(asdict, all_rows)), indent=1) + "\n")
    return all_rows


def page(entries: Iterable[Entry], rows: Iterable[Row], notes: Iterable[str] = ()) -> str:
    """Return the results as one page of Markdown: bug by version by configuration."""
    rows_of_scripts: dict[str, list[Row]] = {}
    for row in rows:
        rows_of_scripts.setdefault(row.script, []).append(row)
    lines = [
        "# The gallery in numbers",
        "",
        "Failure rates with their 95% intervals (Clopper-Pearson), and how the runs ended. **Bold**: not as "
        "expected. A fix in a release of CPython is in later series too, and not in earlier ones. Made by "
        "`repro/run_gallery.py --versions`.",
        "",
        "| bug | version | CPython | `gil` | `ft-gil` | `ft` | date |",
        "|---|---|---|---|---|---|---|",
    ]
    for entry in entries:
        lines += _lines(entry, rows_of_scripts.get(entry.path.name, ()))
    lines += (f"- not run: {markdown(note)}" for note in notes)
    return "\n".join(lines) + "\n"


def _lines(entry: Entry, rows: Iterable[Row]) -> Iterator[str]:
    """Yield a line of the table for each version in which the script was run."""
    versions: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        versions.setdefault((row.version, row.python), {})[row.config] = row
    bug = _bug(entry)
    for (version, python), configs in versions.items():
        name = "-" if entry.is_of_python else markdown(f"{entry.package} {version}")
        cells = [_cell(configs.get(config)) for config in CONFIGURATIONS]
        date = next(iter(configs.values())).date
        yield f"| {bug} | {name} | {python} | {' | '.join(cells)} | {date} |"
        bug = ""


def _bug(entry: Entry) -> str:
    repository, number = ISSUE.fullmatch(entry.link).groups()  # type: ignore[union-attr] # read() has checked it
    title = markdown(f"{entry.title} ({entry.path.name})")
    fix = f"; fixed in {entry.package} {entry.fixed}" if entry.fixed else ""
    return f"[{repository.rpartition('/')[2]} {number}]({entry.link}): {title}{fix}"


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    text = rate(row.failures, row.runs)
    kinds = ", ".join(f"{number} {kind}" for kind, number in row.kinds.items() if kind != Kind.OK)
    if kinds:
        text += f": {kinds}"
    return text if row.as_expected else f"**{text}**"


if __name__ == "__main__":
    sys.exit(main())
