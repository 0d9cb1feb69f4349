"""`./twins info --requirements`: reads packages' wheels and prints
which of the packages turn the GIL on.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ftrun import host
from ftrun.configurations import this_twin
from ftrun.errors import BadRequirements, Interrupted, OverlayError
from ftrun.escape import one_line
from ftrun.interruption import Interruption
from ftrun.wheels import table
from ftrun.wheels.imported import imported
from ftrun.wheels.index import Index
from ftrun.wheels.judge import SERIES, Answer, WheelReport, judge
from ftrun.wheels.package import Package
from ftrun.wheels.requirements import Contents, read
from ftrun.wheels.survey import THIS_SERIES, Survey
from ftrun.wheels.tree import Tree, resolve

_AT_ONCE = 8  # projects; each waits for the index most of the time


def run(arguments: list[str], as_json: bool, import_too: bool, cache: Path | None) -> int:
    """Find out which of the packages that *arguments* name turn the GIL on, and print the answers.

    Return the exit status: 1 if a package turns the GIL on, else 2 if one could not be judged, else
    3 if one is unclear or has no wheel, else 0.

    Args:
        arguments: files and requirements, as for ``ftrun.wheels.requirements.read``.
        as_json: print one JSON object instead of a table.
        import_too: also import the packages in this interpreter, after installing them into a
            temporary folder.
        cache: the folder for uv and its cache; None for a temporary one.
    """
    if import_too and this_twin() == "gil":
        print(
            f"{host.info()}: --import needs a free-threaded Python: `./twins info`, or the image "
            "ft-env",
            file=sys.stderr,
        )
        return 2
    try:
        contents = read(arguments)
    except BadRequirements as error:
        print(f"{host.info()}: {one_line(str(error))}", file=sys.stderr)
        return 2
    with Interruption() as interruption, contextlib.ExitStack() as stack:
        cache = cache or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ft-info-")))
        try:
            survey = _survey(contents, import_too, cache, interruption)
        except Interrupted as error:
            print(f"{host.info()}: interrupted", file=sys.stderr, flush=True)
            stack.close()
            os._exit(error.exit_status)  # threads may wait for the index
    _progress("")
    _warn(survey.tree)
    for name, reason in contents.not_judged.items():
        survey.reports.append(WheelReport(name, {}, reason))
    if as_json:
        print(json.dumps(survey.plain(), indent=2))
    else:
        table.show(survey)
    return survey.exit_status


def _survey(
    contents: Contents, import_too: bool, cache: Path, interruption: Interruption
) -> Survey:
    """Judge the packages of *contents* and all that they need; raises ``Interrupted``."""
    _progress("looking for what the packages need")
    requirements = list(contents.requirements.values())
    tree = Tree([])
    if requirements:
        tree = resolve(
            requirements, contents.constraints, SERIES[0].rstrip("t"), cache, interruption
        )
    packages = [*tree.packages, *contents.locked]
    survey = Survey(judged(packages, Index, interruption, _progress), tree)
    if import_too:
        requirements += [package.requirement for package in contents.locked]
        _import_all(survey, requirements, cache, interruption)
    return survey


def _warn(tree: Tree) -> None:
    """Say on stderr which dependencies are not known."""
    if tree.error:
        print(
            f"{host.info()}: what the packages need is not looked at: {one_line(tree.error)}",
            file=sys.stderr,
        )
    if tree.without_wheel:
        names = one_line(", ".join(tree.without_wheel))
        print(
            f"{host.info()}: not known, since there is no wheel of it: what {names} needs",
            file=sys.stderr,
        )


def _import_all(
    survey: Survey, requirements: list[Requirement], cache: Path, interruption: Interruption
) -> None:
    """Install and import the requirements; add the results to *survey*. Raises ``Interrupted``."""
    reports = {report.project: report for report in survey.reports}
    for requirement in requirements:
        report = reports[canonicalize_name(requirement.name)]
        if THIS_SERIES not in report.findings and not report.error:
            continue  # its marker excludes this interpreter
        _progress(f"importing {requirement}")
        try:
            _check_wheel(report)
            survey.verdicts[report.project] = list(imported(requirement, cache, interruption))
        except OverlayError as error:
            survey.failed[report.project] = str(error)


def _check_wheel(report: WheelReport) -> None:
    """Raise OverlayError if the report says that this interpreter has no wheel."""
    finding = report.findings.get(THIS_SERIES)
    if finding is not None and finding.answer in (Answer.SOURCE, Answer.NONE):
        raise OverlayError(f"{finding.answer.value} for {THIS_SERIES}")


def judged(
    packages: list[Package],
    index: Callable[[], Index],
    interruption: Interruption,
    progress: Callable[[str], None],
) -> list[WheelReport]:
    """Judge the packages in several threads; return reports
    in the packages' order. Raises ``Interrupted``.
    """
    local = threading.local()  # each thread has its own connections

    def judge_package(package: Package) -> WheelReport:
        if not hasattr(local, "index"):
            local.index = index()
        return judge(package, local.index)

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
    """Show *text* in place of the last progress line, if stderr is a terminal. An empty string
    removes the line.
    """
    if sys.stderr.isatty():
        print(f"\r\x1b[K{one_line(text)[:70]}", end="", file=sys.stderr, flush=True)
