"""`./twins info --requirements`: reads packages' wheels and prints which of the packages turn the GIL on."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ftrun.configurations import this_twin
from ftrun.escape import one_line
from ftrun.imports import Verdict
from ftrun.interruption import Interrupted, Interruption
from ftrun.overlay import OverlayError
from ftrun.wheels import table
from ftrun.wheels.imported import imported
from ftrun.wheels.index import Index
from ftrun.wheels.judge import SERIES, Answer, Report, judge
from ftrun.wheels.package import Package
from ftrun.wheels.requirements import BadRequirements, read
from ftrun.wheels.tree import Tree, resolve

_AT_ONCE = 8  # projects; each waits for the index most of the time
_THIS_SERIES = f"{sys.version_info.major}.{sys.version_info.minor}t"


def run(arguments: list[str], as_json: bool, import_too: bool, cache: Path | None) -> int:
    """Find out which of the packages that *arguments* name turn the GIL on, and print the answers.

    Return the exit status: 1 if a package turns the GIL on, else 2 if one could not be judged, else 3 if one is unclear
    or has no wheel, else 0.

    Args:
        arguments: files and requirements, as for ``ftrun.wheels.requirements.read``.
        as_json: print one JSON object instead of a table.
        import_too: also import the packages in this interpreter, after installing them into a temporary folder.
        cache: the folder for uv and its cache; None for a temporary one.
    """
    if import_too and this_twin() == "gil":
        print("info: --import needs a free-threaded Python: `./twins info`, or the image ft-env", file=sys.stderr)
        return 2
    try:
        contents = read(arguments)
    except BadRequirements as error:
        print(f"info: {one_line(str(error))}", file=sys.stderr)
        return 2
    verdicts: dict[str, list[Verdict]] = {}
    failed: dict[str, str] = {}
    with Interruption() as interruption, contextlib.ExitStack() as stack:
        cache = cache or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ft-info-")))
        try:
            _progress("looking for what the packages need")
            requirements = list(contents.requirements.values())
            tree = Tree([])
            if requirements:
                tree = resolve(requirements, contents.constraints, SERIES[0].rstrip("t"), cache, interruption)
            packages = [*tree.packages, *contents.locked]
            reports = judged(packages, Index, interruption, _progress)
            if import_too:
                named = [*requirements, *(package.requirement for package in contents.locked)]
                verdicts, failed = _import_all(named, reports, cache, interruption)
        except Interrupted as error:
            print("info: interrupted", file=sys.stderr, flush=True)
            stack.close()
            os._exit(error.exit_status)  # threads may wait for the index
    _progress("")
    if tree.error:
        print(f"info: what the packages need is not looked at: {one_line(tree.error)}", file=sys.stderr)
    if tree.without_wheel:
        names = one_line(", ".join(tree.without_wheel))
        print(f"info: not known, since there is no wheel of it: what {names} needs", file=sys.stderr)
    reports += [Report(name, {}, reason) for name, reason in contents.others.items()]
    if as_json:
        print(json.dumps(_plain(reports, tree, verdicts, failed), indent=2))
    else:
        table.show(reports, verdicts, failed)
    return _status(reports, tree, verdicts, failed)


def _status(reports: list[Report], tree: Tree, verdicts: dict[str, list[Verdict]], failed: dict[str, str]) -> int:
    """Return the exit status; see `run`."""
    turned_on = any(verdict.turned_gil_on for each in verdicts.values() for verdict in each) or any(
        finding.answer is Answer.ON for report in reports for finding in report.findings.values()
    )
    errors = (
        bool(tree.error)
        or any(verdict.errors for each in verdicts.values() for verdict in each)
        or any(
            report.error or any(finding.answer is Answer.DAMAGED for finding in report.findings.values())
            for report in reports
        )
    )
    unclear = any(
        finding.answer in (Answer.UNKNOWN, Answer.SOURCE, Answer.NONE)
        and not (series == _THIS_SERIES and report.project in verdicts)
        for report in reports
        for series, finding in report.findings.items()
    )
    return 1 if turned_on else 2 if errors or failed else 3 if unclear else 0


def _import_all(
    requirements: Iterable[Requirement], reports: list[Report], cache: Path, interruption: Interruption
) -> tuple[dict[str, list[Verdict]], dict[str, str]]:
    """Install and import the requirements; return (verdicts, errors), each by project. Raises ``Interrupted``."""
    verdicts: dict[str, list[Verdict]] = {}
    failed: dict[str, str] = {}
    by_project = {report.project: report for report in reports}
    for requirement in requirements:
        project = canonicalize_name(requirement.name)
        report = by_project[project]
        finding = report.findings.get(_THIS_SERIES)
        if finding is None and not report.error:
            continue  # its marker excludes this interpreter
        _progress(f"importing {requirement}")
        try:
            if finding is not None and finding.answer in (Answer.SOURCE, Answer.NONE):
                raise OverlayError(f"{finding.answer.value} for {_THIS_SERIES}")
            verdicts[project] = list(imported(requirement, cache, interruption))
        except OverlayError as error:
            failed[project] = str(error)
    return verdicts, failed


def judged(
    packages: list[Package], index: Callable[[], Index], interruption: Interruption, progress: Callable[[str], None]
) -> list[Report]:
    """Judge the packages in several threads; return reports in the packages' order. Raises ``Interrupted``."""
    own = threading.local()  # each thread has its own connections

    def judge_package(package: Package) -> Report:
        if not hasattr(own, "index"):
            own.index = index()
        return judge(package, own.index)

    reader, writer = os.pipe()
    done, futures = 0, []
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        futures = [pool.submit(judge_package, package) for package in packages]
        for future in futures:
            future.add_done_callback(lambda _: os.write(writer, b"."))
        while done < len(futures):
            progress(f"{done} of {len(futures)} packages")
            select.select([reader, interruption.fileno()], [], [])
            interruption.check()
            done += len(os.read(reader, 4096))
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        if done == len(futures):  # else threads may still write
            os.close(reader)
            os.close(writer)


def _progress(text: str) -> None:
    """Show *text* in place of the last progress line, if stderr is a terminal. An empty string removes the line."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{one_line(text)[:70]}", end="", file=sys.stderr, flush=True)


def _plain(reports: list[Report], tree: Tree, verdicts: dict[str, list[Verdict]], failed: dict[str, str]) -> dict:
    """Return the reports and the results of imports in one dictionary that fits JSON."""
    return {
        "packages": [
            {
                "requirement": report.requirement,
                "needed_by": list(report.needed_by),
                "error": report.error,
                "series": {
                    series: {**asdict(finding), "answer": finding.answer.name.lower()}
                    for series, finding in report.findings.items()
                },
            }
            for report in reports
        ],
        "imports": [{"requirement": name, **asdict(verdict)} for name, each in verdicts.items() for verdict in each],
        "not_imported": failed,
        "not_resolved": tree.error,
        "without_wheel": list(tree.without_wheel),
    }
