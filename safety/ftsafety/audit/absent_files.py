"""Audit with files absent that loading writes where they are absent, such as those of a cache from
an earlier run.
"""

import dataclasses
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from ftrun import host
from ftrun.target import is_factory
from ftsafety.audit.comparison import Frozen, Raised
from ftsafety.audit.empty_copies import EmptyCopies
from ftsafety.audit.opened_files import recording_files
from ftsafety.audit.report import Level, Report
from ftsafety.audit.run import AuditSettings, audit_with
from ftsafety.audit.samples import IterableLoads, choose
from ftsafety.audit.serial import AuditError, Serial

_SAMPLES = 6
"""Number of samples (or, of an iterable-style dataset, of workers) whose files are hidden."""
_FILES = 8
"""Largest number of files hidden for each sample, one after the other."""


def audit_without_files(
    dataset: Any, memory: str, settings: AuditSettings, say: Callable[[str], None]
) -> Report:
    """Find the files that loading writes where they are absent; audit without them.

    Runs in a process with mounts of its own (see `EmptyCopies`), for which *memory* is an empty
    folder. The other arguments are those of `audit_with`. If there is no such file, the report only
    says what was tried. Raises CopyError.
    """
    make = dataset if is_factory(dataset) else lambda: dataset
    samples = min(settings.samples, _SAMPLES)
    loads = choose(make(), settings.indices, samples, settings.threads, settings.seed)
    loads.keys = loads.keys[:_SAMPLES]
    units = f"{len(loads.keys)} {loads.units}"
    say(f"loading {units} without each of the files that they read, in a copy in memory")
    serial = Serial(loads, settings.patience)
    search = serial.alone(lambda: _search(serial, memory))
    if not search.files:
        report = Report("", "")
        files = f"the files that they read, one at a time ({search.tried})"
        report.tried.append(f"{units} without {files}: none was written then")
        return report

    def make_without_files() -> Any:
        search.copies.remove(search.files)
        return make()

    indices = None if isinstance(loads, IterableLoads) else loads.keys
    report = audit_with(
        make_without_files,
        dataclasses.replace(settings, indices=indices, samples=samples),
        lambda text: say(f"without the files that loading writes: {text}"),
    )
    _mention(report, search.files)
    return report


def _mention(report: Report, files: list[str]) -> None:
    """Say in the report that *files* were absent."""
    absent = (
        f"without {len(files)} file{'s' * (len(files) > 1)} that loading then writes, the first "
    )
    absent += f"{host.path(files[0])} (in a copy in memory)"
    report.tried = [f"{report.tried[-1]}; {absent}"]
    report.unconfirmed = [f"{failure}; {absent}" for failure in report.unconfirmed]
    findings = []
    for finding in report.findings:
        if finding.level != Level.NOTE:
            finding = dataclasses.replace(finding, seen=f"{finding.seen}; {absent}")
        findings.append(finding)
    report.findings = findings


class _Search(NamedTuple):
    """Result of a search for files that loading writes where they are absent:
    `files`, which `copies` lack.
    """

    copies: EmptyCopies
    files: list[str]
    tried: int
    """Number of files without which a sample was loaded."""


def _search(serial: Serial, memory: str) -> _Search:
    """Load each sample without each file that it reads."""
    folders: set[str] = set()
    for key in serial.loads.keys:
        folders.update(map(os.path.dirname, _read(serial, key)))
    copies = EmptyCopies(folders, memory)
    copies.mount()
    # Only files that a second load reads too: without others nothing would differ,
    # as they are kept in memory.
    first_keys: dict[str, Any] = {}
    for key in serial.loads.keys:
        for file in _read(serial, key)[:_FILES]:
            first_keys.setdefault(file, key)
    if not first_keys:
        raise AuditError(
            "a sample that is loaded again reads no file, or cannot be loaded in a copy of its "
            "folders"
        )
    written = []
    for file, key in first_keys.items():
        copies.mount([file])
        _load(serial, key)
        if os.path.exists(file):
            written.append(file)
    copies.mount(written)
    return _Search(copies, written, len(first_keys))


def _read(serial: Serial, key: Any) -> list[str]:
    """Load the sample *key*; return the files that it read and may write another time. [] if it
    cannot be loaded.
    """
    with recording_files() as opened:
        loaded = _load(serial, key)
    return [] if isinstance(loaded, Raised) else opened.rewritable()


def _load(serial: Serial, key: Any) -> Frozen:
    """Load the sample *key* from the dataset as it was at first."""
    serial.restore()
    copy, _ = serial.one(key)
    return copy
