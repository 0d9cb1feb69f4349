"""``python -m ftsafety.repro``: run a script many times and print the report."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from ftrun.configurations import CONFIGURATIONS, this_twin
from ftrun.errors import Interrupted, MetadataError, TwinError
from ftrun.escape import any_locale, fenced, markdown, one_line, print_report
from ftrun.inline_metadata import dependencies, requires_python
from ftrun.interruption import Interruption
from ftrun.project import ROOT
from ftsafety.repro import commands, narrow, report, verdict_words
from ftsafety.repro.arguments import options_of, parse
from ftsafety.repro.blocked import reason, remedy, settled, stopped
from ftsafety.repro.campaign import Campaign, Runs, twin_of
from ftsafety.repro.cluster import Cluster
from ftsafety.repro.inputs import UsageError
from ftsafety.repro.link import Link, NoCluster, Where
from ftsafety.repro.packages import Packages, add
from ftsafety.repro.progress import Progress
from ftsafety.repro.request import MIB, Limits
from ftsafety.repro.script import Script
from ftsafety.repro.stopping import EarlyStop
from ftsafety.repro.twins import Interpreter, Twin, connect, label
from ftsafety.repro.verdict import Pattern, Verdict, judge

NO_WALLS = (
    "repro: no walls around native runs: the script runs as you, with your permissions "
    "(docker compose run --rm ft-repro SCRIPT runs it behind walls)"
)
NO_WALLS_THERE = (
    "repro: no walls around the runs: on the workers the script runs as their user, with that user's permissions "
    "(--walls runs it in containers there)"
)


def main(arguments: list[str] | None = None) -> int:
    """Run `repro` with the command-line *arguments*; return its exit status (see --help)."""
    any_locale()
    try:
        given = parse(sys.argv[1:] if arguments is None else arguments)
    except UsageError as error:
        print(f"repro: {one_line(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # before anything was started: see Interruption
        return 130
    with Interruption() as interruption, contextlib.ExitStack() as stack:
        progress = stack.enter_context(contextlib.closing(Progress()))
        try:
            text, status = Reproduction(given, interruption, progress, stack).run()
        except Interrupted as error:
            progress.note(f"repro: interrupted ({error})")
            return error.exit_status
        except (TwinError, MetadataError, Refused) as error:
            progress.note(f"repro: {error}")
            return {MetadataError: 2, NoCluster: 2, Refused: Pattern.NOT_BEGUN.value}.get(type(error), 1)
    return publish(text, given, interruption, status)


def publish(text: str, given, interruption: Interruption, status: int) -> int:
    """Print the report and write it to --out; return the exit status."""
    print_report(text)
    try:
        if given.out is not None:
            given.out.write_text(text, encoding="utf-8")
    except OSError as error:
        hint = '; the container writes as user 1000: docker compose run --rm --user "$(id -u):$(id -g)" ft-repro ...'
        shown = hint if isinstance(error, PermissionError) and given.walled else ""
        print(f"repro: cannot write {given.out}: {error.strerror}{shown}", file=sys.stderr)
        status = 1
    return 128 + interruption.signum if interruption.signum else status


class Refused(Exception):
    """The script requires a Python version that no interpreter has. The message says what to do."""


class Reproduction:
    """One invocation of the command, which runs the script many times. Owned by one thread."""

    def __init__(self, given, interruption: Interruption, progress: Progress, stack: contextlib.ExitStack):
        self._given, self._interruption, self._progress, self._stack = given, interruption, progress, stack
        self._script: Script = given.loaded
        self._command = commands.all_runs(given, self._script)
        self._twins: dict[str, Twin | Cluster] = {}
        self._cluster: Cluster | None = None
        self._descriptions: dict[str, dict] = {}

    def run(self) -> tuple[str, int]:
        """Make all runs; return the report and the exit status.

        Raises TwinError, MetadataError or Refused; or Interrupted, if an interruption comes before any run has ended.
        """
        given, progress = self._given, self._progress
        self._connect()
        missing = self._check_version()
        if not (given.walled or given.walls):
            progress.note(NO_WALLS_THERE if given.dask else NO_WALLS)
        packages = self._add_packages(missing)
        limits = Limits(given.timeout, given.memory * MIB, given.processes, given.disk * MIB, given.output * MIB)
        deadline = time.monotonic() + given.budget
        absent = {**packages.missing, **missing}
        ahead = self._cluster.ahead if self._cluster else contextlib.nullcontext
        campaign = Campaign(self._script, self._twins, limits, progress.update, deadline, absent, ahead)
        early = EarlyStop(given.repeat, given.every_run)
        extra = [name for name in self._descriptions if name not in ("ft", "gil")]
        found = campaign.run((*given.configs, *extra), given.repeat, given.threads, enough=early)
        if not any(each.outcomes for each in found.values()):
            self._interruption.check()
        runs = settled(found)
        verdict = judge(runs, early.level)
        progress.note(f"repro: {verdict_words.sentence(verdict, runs)}")
        sections = self._remedies(runs)
        if any(packages.added.values()):
            lines = [f"- {name}: {markdown(_pins(pins)) or 'none'}" for name, pins in packages.added.items()]
            sections.append(("Packages that were added", "\n".join(lines)))
        shown = report.chosen_failure(runs, verdict.main)
        if given.shrink_threads and not campaign.stopped:
            least = "Nothing failed, so there is nothing to narrow down."
            if shown:
                least = narrow.shrink_threads(campaign, runs[shown[0]], given.threads, given.repeat)
            sections.append(("Threads", least))
        if self._cluster:
            sections.append(("Nodes", report.nodes(runs, self._cluster.nodes)))
        last = [config for config in runs if twin_of(config) in self._descriptions][-1]
        text = report.render(
            self._script,
            verdict,
            runs,
            self._descriptions,
            command=self._command,
            single=self._single(runs[shown[0] if shown else last], runs, packages),
            walls=given.walled or given.walls,
            sections=sections,
            more=[*self._remarks(verdict, early, runs), *packages.remarks],
            added=packages.added,
        )
        return text, verdict.pattern.value

    def _connect(self) -> None:
        needed = {CONFIGURATIONS[config].twin for config in self._given.configs}
        if self._given.dask:
            self._connect_cluster(needed)
            return
        for name, where in self._given.twin or [(this_twin(), sys.executable)]:
            if name not in needed:
                continue
            twin = self._twins[name] = connect(where, self._interruption)
            self._stack.callback(twin.close)
            described = self._descriptions[name] = twin.describe()
            if described["interpreter"]["twin"] != name:
                raise TwinError(f"--twin {name}={where} is the {described['interpreter']['twin']} twin")
        if not self._twins:
            raise TwinError("no twin was given for the configurations in --configs")
        for path in self._given.interpreter:
            other = Interpreter(Path(path).absolute(), self._interruption)
            described = other.describe()
            name = label(described, self._twins)
            self._twins[name], self._descriptions[name] = other, described

    def _connect_cluster(self, needed: set[str]) -> None:
        given, note = self._given, self._progress.note
        where = Where(given.dask, given.dask_python, given.dask_folder or str(ROOT), given.walls)
        self._cluster = cluster = Cluster(Link(where, self._interruption))
        self._stack.callback(cluster.close)
        have = f"{cluster.threads} threads of the workers at" if cluster.threads else "waiting for workers of"
        note(f"repro: {have} {given.dask}")
        wanted = (*dependencies(self._script.text), *given.package)
        try:
            self._descriptions = cluster.describe(sorted(needed), wanted, time.monotonic() + given.budget)
        except TimeoutError:
            raise TwinError(f"--dask {given.dask}: no worker was free within {given.budget:g} s (--budget)") from None
        self._twins = dict.fromkeys(self._descriptions, cluster)

    def _check_version(self) -> dict[str, str]:
        """Return {twin: reason why it cannot run the script}; raises Refused if no version suits the script."""
        missing = {
            name: "no interpreter was given for it (--twin)" for name in ("ft", "gil") if name not in self._twins
        }
        wanted = requires_python(self._script.text)
        try:
            specifier = SpecifierSet(wanted)
        except InvalidSpecifier as error:
            raise MetadataError(f"the inline metadata: requires-python: {str(error)[:200]}") from error
        versions = {name: each["interpreter"]["version"] for name, each in self._descriptions.items()}
        excluded = {name for name, version in versions.items() if not specifier.contains(version, prereleases=True)}
        if excluded == set(versions):
            series = next((each for each in reversed(commands.SERIES) if specifier.contains(f"{each}.99")), None)
            then = f"there are twins of {' and '.join(commands.SERIES)}"
            if series:
                then = commands.of_series(series, self._command)
            have = ", ".join(sorted(set(versions.values())))
            raise Refused(f"did not get to its bug: the script requires Python {wanted}, and this is {have}: {then}")
        return {**missing, **dict.fromkeys(excluded, f"the script requires Python {wanted}")}

    def _add_packages(self, missing: dict[str, str]) -> Packages:
        if self._cluster:
            return self._cluster.packages()
        work = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ft-repro-packages-")))
        # The free-threaded twin first: fewer wheels fit it.
        names = [*dict.fromkeys(("ft", *self._twins))]
        local = {name: twin for name, twin in self._twins.items() if not isinstance(twin, Cluster)}
        twins = {name: local[name] for name in names if name in local and name not in missing}
        installed = {name: self._descriptions[name]["packages"] for name in twins}
        wanted = (*dependencies(self._script.text), *self._given.package)
        cache, note = self._given.cache, self._progress.note
        return add(wanted, twins, installed, work.resolve(), cache, self._interruption, note)

    def _remedies(self, runs: dict[str, Runs]) -> list[tuple[str, str]]:
        """Return [(title, Markdown)], a report section with remedies for blocked runs; [] if no run was blocked."""
        why = stopped(runs)
        if not why:
            return []
        running = [config for config, each in runs.items() if each.counted]
        version = next(iter(self._descriptions.values()))["interpreter"]["version"]
        series = ".".join(version.split(".")[:2])
        walled, options, lines = self._given.walled, options_of(self._given, module=None), []
        for blocker, configs in why.items():
            lines.append(f"{markdown(f'{", ".join(configs)}: {reason(blocker)}')}")
            if command := remedy(blocker, self._script, self._command, running, walled, series, options):
                lines.append(fenced(command, "sh"))
                if not running:
                    self._progress.note(f"repro: to get to the bug: {command}")
            elif blocker.cause == "module":
                lines.append("A container without network cannot install packages; run `./twins repro` natively.")
        return [("What did not get to the bug" if running else "To get to the bug", "\n\n".join(lines))]

    def _remarks(self, verdict: Verdict, early: EarlyStop, runs: dict[str, Runs]) -> Iterator[str]:
        if early.reason:
            made = max(len(each.outcomes) for each in runs.values())
            yield f"Ended after {made} of {self._given.repeat} rounds: {early.reason} (--every-run makes all of them)."
        if verdict.pattern is Pattern.NOT_REPRODUCED:
            yield from verdict_words.unpatched(self._descriptions, self._script.text)

    def _single(self, seen: Runs, runs: dict[str, Runs], packages: Packages) -> str:
        ran = report.packages_that_ran(self._descriptions, runs, packages.added)
        twin = twin_of(seen.config)
        added = bool(packages.added.get(twin))
        here = argparse.Namespace(**{**vars(self._given), "dask": None, "dask_folder": None, "walls": False})
        return commands.one_run(here, self._script, seen, self._descriptions, ran.get(twin), added)


def _pins(versions: dict[str, str]) -> str:
    return ", ".join(f"{name}=={version}" for name, version in versions.items())
