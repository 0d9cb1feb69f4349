"""The table of loaders that ``python -m ftloader`` prints when the program ends."""

import contextlib
import json
import os
import platform
import sys
from dataclasses import dataclass
from typing import Any

from ftloader.diagnosis.limits import usable_cpus
from ftloader.diagnosis.loaders import LoaderLog, Site
from ftloader.drop_in.arguments import PROGRAM, ProgramCommand
from ftloader.drop_in.installed import class_in_place, is_installed

_VERSION = 1  # of the JSON document
_COLUMNS = "made at", "workers", "batches", "seconds", "waited"


@dataclass(frozen=True)
class _Row:
    """One line of the table, with the cells of _COLUMNS, and the lines below it."""

    cells: tuple[str, ...]
    notes: tuple[tuple[str, str], ...]


class LoadersReport:
    """What a program's loaders did: a table for stderr, and a file if the command names one."""

    def __init__(self, log: LoaderLog, command: ProgramCommand) -> None:
        self._log = log
        self._command = command

    def write(self, process: int) -> None:
        """Write the report, unless this process is a fork of *process*."""
        if os.getpid() != process:
            return
        entries = [_entry(site) for site in self._log.sites()]
        lines = [*_table(entries), *self._replaced()]
        if self._command.report is not None:
            lines += self._write_file(entries, self._command.report)
        if not entries:
            lines.insert(0, f"{self._command.program} made no DataLoader of torch")
        lines[0] = f"{PROGRAM}: {lines[0]}"
        if sys.stderr is None:  # it was closed at the start, and print() would take stdout
            return
        with contextlib.suppress(OSError, ValueError, AttributeError):  # stderr may be closed
            print(*lines, sep="\n", file=sys.stderr, flush=True)

    def _replaced(self) -> list[str]:
        """Return a line if the program has put a class of its own in the place of torch's."""
        if is_installed():
            return []
        replacement = class_in_place()
        return [
            f"{self._command.program} has put {replacement.__module__}."
            f"{replacement.__qualname__} in the place of torch's DataLoader: loaders of that class "
            "are listed only if it derives from the one that was there"
        ]

    def _write_file(self, entries: list[dict[str, Any]], path: str) -> list[str]:
        """Write the JSON document; return a line if that fails."""
        document = {
            "version": _VERSION,
            "program": self._command.program,
            "arguments": self._command.arguments,
            "python": platform.python_version(),
            "gil": sys._is_gil_enabled(),
            "cpus": usable_cpus(),
            "loaders": entries,
        }
        try:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(document, file, indent=2)
                file.write("\n")
        except OSError as error:
            return [f"{path} cannot be written: {error.strerror}"]
        return []


def _entry(site: Site) -> dict[str, Any]:
    """Return all that is known of a site's loaders, for the JSON document."""
    entry: dict[str, Any] = {"made_at": site.place, "loaders": site.loaders, "kind": site.kind}
    if site.kind is None:
        totals, reason = site.summary()
        entry |= {"workers": totals.workers_used, "reason": reason, "statistics": totals.as_dict()}
    return entry


def _table(entries: list[dict[str, Any]]) -> list[str]:
    """Return the lines of the table; none without loaders."""
    if not entries:
        return []
    rows = [_Row(_COLUMNS, ()), *map(_row, entries)]
    widths = [max(map(len, column)) for column in zip(*(row.cells for row in rows))]
    lines = ["loaders of this program"]
    for row in rows:
        first, second, *numbers = zip(row.cells, widths)
        cells = [cell.ljust(width) for cell, width in (first, second)]
        cells += [cell.rjust(width) for cell, width in numbers]
        lines.append("  ".join(cells).rstrip())
        lines += [f"  {name + ':':8}{note}" for name, note in row.notes if note]
    return lines


def _row(entry: dict[str, Any]) -> _Row:
    place = entry["made_at"]
    if entry["loaders"] > 1:
        place += f" ({entry['loaders']} loaders)"
    if entry["kind"] is not None:
        return _Row((place, "its own", "", "", ""), (("class", f"{entry['kind']}, unchanged"),))
    totals = entry["statistics"]
    if not totals["batches"] and not totals["shm_full"]:
        unused = "the program took no batch of it; a library may have made another loader from it"
        return _Row((place, "-", "0", "", ""), (("unused", unused),))
    cells = (
        place,
        entry["workers"],
        str(totals["batches"]),
        f"{totals['seconds']:.1f}",
        f"{totals['waited_share']:.0%}",
    )
    notes = (
        ("why", entry["reason"] or ""),
        ("limit", totals["limit"]),
        ("change", totals["change"]),
        ("note", totals["note"] or ""),
    )
    return _Row(cells, notes)
