"""``python -m ftsafety.repro``: run a script many times and print the report."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from ftrun.configurations import CONFIGURATIONS, this_twin
from ftrun.errors import Interrupted, MetadataError, TwinError
from ftrun.escape import any_locale, fenced, markdown, one_line, print_report
from ftrun.inline_metadata import dependencies, requires_python
from ftrun.interruption import Interruption
from ftsafety.errors import CommandLineError, VersionError
from ftsafety.repro import commands, narrow, report, verdict_words
from ftsafety.repro.arguments import PROGRAM, parse
from ftsafety.repro.blocked import reason, remedy, settled, stopped
from ftsafety.repro.campaign import AllRuns, Campaign, Runs, every_outcome, twin_of
from ftsafety.repro.cluster import ClusterCampaign, NoCluster
from ftsafety.repro.options import ReproOptions
from ftsafety.repro.outcome import Blocker
from ftsafety.repro.packages import Packages, add
from ftsafety.repro.progress import ProgressPrinter
from ftsafety.repro.script import Script
from ftsafety.repro.stopping import EarlyStop
from ftsafety.repro.twins import NamedInterpreter, Twin, connect, label
from ftsafety.repro.verdict import Pattern, ScriptVerdict, judge

NO_WALLS = (
    f"{PROGRAM}: no walls around native runs: the script runs as you, with your permissions "
    "(docker compose run --rm ft-repro SCRIPT runs it behind walls)"
)
NO_WALLS_THERE = (
    f"{PROGRAM}: no walls around the runs: on the workers the script runs as their user, with that "
    "user's permissions (--walls runs it in containers there)"
)
ANOTHER_USER = (
    '; the container writes as user 1000: docker compose run --rm --user "$(id -u):$(id -g)" '
    "ft-repro ..."
)
EXIT_STATUS = {MetadataError: 2, NoCluster: 2, VersionError: Pattern.NOT_BEGUN.value}
"""By the error that ends `repro`; 1 for all others."""


def main(arguments: list[str] | None = None) -> int:
    """Run `repro` with the command-line *arguments*; return its exit status (see --help)."""
    any_locale()
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments)
    except CommandLineError as error:
        print(f"{PROGRAM}: {one_line(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # before anything was started: see Interruption
        return 130
    with Interruption() as interruption, contextlib.ExitStack() as stack:
        progress = stack.enter_context(contextlib.closing(ProgressPrinter()))
        try:
            text, status = Reproduction(options, interruption, progress, stack).run()
        except Interrupted as error:
            progress.note(f"{PROGRAM}: interrupted ({error})")
            return error.exit_status
        except (TwinError, MetadataError, VersionError) as error:
            progress.note(f"{PROGRAM}: {error}")
            return EXIT_STATUS.get(type(error), 1)
    return publish(text, options, interruption, status)


def publish(text: str, options: ReproOptions, interruption: Interruption, status: int) -> int:
    """Print the report and write it to --out; return the exit status."""
    print_report(text)
    try:
        if options.out is not None:
            options.out.write_text(text, encoding="utf-8")
    except OSError as error:
        hint = ""
        if isinstance(error, PermissionError) and options.walled:
            hint = ANOTHER_USER
        why = f"{error.strerror}{hint}"
        print(f"{PROGRAM}: cannot write {options.out}: {why}", file=sys.stderr)
        status = 1
    if interruption.signum:
        return 128 + interruption.signum
    return status


class Reproduction:
    """One invocation of the command, which runs the script many times. Owned by one thread."""

    def __init__(
        self,
        options: ReproOptions,
        interruption: Interruption,
        progress: ProgressPrinter,
        stack: contextlib.ExitStack,
    ):
        self._options = options
        self._interruption = interruption
        self._progress, self._stack = progress, stack
        self._script: Script = options.script
        self._command = commands.repro(options)
        self._twins: dict[str, Twin] = {}
        self.descriptions: dict[str, dict] = {}
        """By twin or interpreter, its description."""
        self.packages = Packages()
        """The packages that were installed for the script."""

    def run(self) -> tuple[str, int]:
        """Make all runs; return the report and the exit status.

        Raises TwinError, MetadataError or VersionError; or Interrupted,
        if it comes before any run has ended.
        """
        early = EarlyStop(self._options.repeat, self._options.every_run)
        self._note_walls()
        make_runs = self._run_on_cluster if self._options.dask else self._run_locally
        raw_runs, campaign = make_runs(early)
        if not any(every_outcome(raw_runs)):
            self._interruption.check()
            self._check_version()
        runs = settled(raw_runs)
        verdict = judge(runs, early.level)
        self._progress.note(f"{PROGRAM}: {verdict_words.sentence(verdict, runs)}")
        failing = _failing(runs, verdict)
        sections = self._remedies(runs)
        sections += self._more_sections(runs, campaign, failing)
        remarks = [*self._remarks(verdict, early, runs), *self.packages.remarks]
        text = report.render(
            self._script,
            verdict,
            runs,
            self._commands(failing, runs),
            self._environment(runs),
            sections,
            remarks,
        )
        return text, verdict.pattern.value

    def _environment(self, runs: AllRuns) -> str:
        walls = self._options.walled or self._options.walls
        return report.environment(self.descriptions, runs, walls, self.packages.added)

    def _more_sections(
        self, runs: AllRuns, campaign: Campaign, failing: Runs | None
    ) -> Iterator[tuple[str, str]]:
        """Yield (title, Markdown) of packages, threads and nodes.
        *failing*: runs of which some failed.
        """
        added = self.packages.added
        if any(added.values()):
            lines = []
            for name, versions in added.items():
                lines.append(f"- {name}: {_pins(versions)}")
            yield "Packages that were added", "\n".join(lines)
        if self._options.shrink_threads and not campaign.stopped:
            yield "Threads", self._least_threads(campaign, failing)
        if isinstance(campaign, ClusterCampaign):
            yield "Nodes", report.nodes(runs, campaign.nodes)

    def _least_threads(self, campaign: Campaign, failing: Runs | None) -> str:
        if failing is None:
            return "Nothing failed, so there is nothing to narrow down."
        options = self._options
        return narrow.shrink_threads(campaign, failing, options.threads, options.repeat)

    def _note_walls(self) -> None:
        options = self._options
        if not (options.walled or options.walls):
            self._progress.note(NO_WALLS_THERE if options.dask else NO_WALLS)

    def _run_locally(self, early: EarlyStop) -> tuple[AllRuns, Campaign]:
        """Make the runs with the twins here; return the runs and the campaign."""
        options = self._options
        campaign = self.campaign()
        extra = [name for name in self.descriptions if name not in ("ft", "gil")]
        configs = (*options.configs, *extra)
        runs = campaign.run(configs, options.repeat, options.threads, enough=early)
        return runs, campaign

    def _run_on_cluster(self, early: EarlyStop) -> tuple[AllRuns, Campaign]:
        """Make the runs on a cluster; return the runs and the campaign."""
        options = self._options
        # Malformed metadata is refused here.
        self._excluded()
        dependencies(self._script.text)
        cluster = ClusterCampaign(options, self._interruption, self._progress)
        runs = cluster.run(options.configs, options.repeat, options.threads, enough=early)
        self.descriptions = cluster.descriptions
        self.packages = cluster.packages
        return runs, cluster

    def campaign(self) -> Campaign:
        """Return a campaign of the twins here, which have the script's packages.
        Raises TwinError or MetadataError.
        """
        self._connect()
        missing = dict.fromkeys(
            {"ft", "gil"} - self._twins.keys(), "no interpreter was given for it (--twin)"
        )
        missing |= self._excluded()
        self.packages = self._add_packages(missing)
        deadline = time.monotonic() + self._options.budget
        limits = self._options.limits
        absent = {**self.packages.missing, **missing}
        return Campaign(self._script, self._twins, limits, self._progress.update, deadline, absent)

    def _connect(self) -> None:
        """Connect to the twins and interpreters of the options; raises TwinError."""
        names = {CONFIGURATIONS[config].twin for config in self._options.configs}
        this_python = (this_twin(), sys.executable)
        for name, where in self._options.twins or [this_python]:
            if name in names:
                self._connect_twin(name, where)
        if not self._twins:
            raise TwinError("no twin was given for the configurations in --configs")
        for path in self._options.interpreters:
            self._connect_interpreter(Path(path).absolute())

    def _connect_twin(self, name: str, where: str) -> None:
        twin = self._twins[name] = connect(where, self._interruption)
        self._stack.callback(twin.close)
        described = self.descriptions[name] = twin.describe()
        kind = described["interpreter"]["twin"]
        if kind != name:
            raise TwinError(f"--twin {name}={where} is the {kind} twin")

    def _connect_interpreter(self, path: Path) -> None:
        interpreter = NamedInterpreter(path, self._interruption)
        described = interpreter.describe()
        name = label(described, self._twins)
        self._twins[name] = interpreter
        self.descriptions[name] = described

    def _excluded(self) -> dict[str, str]:
        """Return {twin: reason} for the twins whose version does
        not suit the script; raises MetadataError.
        """
        requirement = requires_python(self._script.text)
        try:
            specifier = SpecifierSet(requirement)
        except InvalidSpecifier as error:
            raise MetadataError(
                f"the inline metadata: requires-python: {str(error)[:200]}"
            ) from error
        excluded = {}
        for name, version in self._versions().items():
            if not specifier.contains(version, prereleases=True):
                excluded[name] = f"the script requires Python {requirement}"
        return excluded

    def _versions(self) -> dict[str, str]:
        """Return the versions of Python, by twin or interpreter."""
        versions = {}
        for name, description in self.descriptions.items():
            versions[name] = description["interpreter"]["version"]
        return versions

    def _check_version(self) -> None:
        """Raise VersionError if no version suits the script."""
        if self._excluded().keys() != self.descriptions.keys():
            return
        requirement = requires_python(self._script.text)
        remedy = f"there are twins of {' and '.join(commands.SERIES)}"
        for series in commands.SERIES:
            if SpecifierSet(requirement).contains(f"{series}.99"):
                remedy = commands.of_series(series, self._command)
        versions = set(self._versions().values())
        have = ", ".join(sorted(versions))
        raise VersionError(
            f"did not get to its bug: the script requires Python {requirement}, and this is "
            f"{have}: {remedy}"
        )

    def _add_packages(self, missing: dict[str, str]) -> Packages:
        work = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ft-repro-packages-"))
        )
        # The free-threaded twin first: fewer wheels fit it.
        twins = {}
        for name in sorted(self._twins, key=lambda name: name != "ft"):
            if name not in missing:
                twins[name] = self._twins[name]
        installed = {name: self.descriptions[name]["packages"] for name in twins}
        requirements = (*dependencies(self._script.text), *self._options.packages)
        cache = self._options.cache
        note = self._progress.note
        return add(requirements, twins, installed, work.resolve(), cache, self._interruption, note)

    def _remedies(self, runs: AllRuns) -> list[tuple[str, str]]:
        """Return [(title, Markdown)], a report section with remedies for blocked runs;
        [] if no run was blocked.
        """
        why = stopped(runs)
        if not why:
            return []
        running = [config for config, config_runs in runs.items() if config_runs.counted]
        paragraphs: list[str] = []
        for blocker, configs in why.items():
            names = ", ".join(configs)
            paragraphs.append(markdown(f"{names}: {reason(blocker)}"))
            paragraphs += self._remedy(blocker, running)
        title = "What did not get to the bug" if running else "To get to the bug"
        return [(title, "\n\n".join(paragraphs))]

    def _remedy(self, blocker: Blocker, running: list[str]) -> Iterator[str]:
        """Yield the paragraph that says what to do, if anything is known.
        *running*: the configurations that are not blocked.
        """
        version = next(iter(self._versions().values()))
        series, _, _ = version.rpartition(".")
        walled = self._options.walled
        options = replace(self._options, module=None).command_line()
        command = remedy(blocker, self._script, self._command, running, walled, series, options)
        if command:
            if not running:
                self._progress.note(f"{PROGRAM}: to get to the bug: {command}")
            yield fenced(command, "sh")
        elif blocker.cause == "module":
            yield (
                "A container without network cannot install packages; run `./twins repro` natively."
            )

    def _remarks(self, verdict: ScriptVerdict, early: EarlyStop, runs: AllRuns) -> Iterator[str]:
        if early.reason:
            rounds = max(len(config_runs.outcomes) for config_runs in runs.values())
            share = f"{rounds} of {self._options.repeat}"
            yield f"Ended after {share} rounds: {early.reason} (--every-run makes all of them)."
        if verdict.pattern is Pattern.NOT_REPRODUCED:
            yield from verdict_words.unpatched(self.descriptions, self._script.text)

    def _commands(self, failing: Runs | None, runs: AllRuns) -> str:
        """Return shell commands that repeat all runs, and one run: of *failing* if possible."""
        example = failing
        if example is None:
            described = [config for config in runs if twin_of(config) in self.descriptions]
            example = runs[described[-1]]
        return f"{self._command}\n\n# one run:\n{self._single(example, runs)}"

    def _single(self, example: Runs, runs: AllRuns) -> str:
        """Return shell commands that repeat one run of *example*."""
        added = self.packages.added
        ran = report.packages_that_ran(self.descriptions, runs, added)
        twin = twin_of(example.config)
        versions = ran.get(twin, {})
        local = replace(self._options, dask=None, dask_folder=None, walls=False)
        has_added = bool(added.get(twin))
        return commands.one_run(local, example, self.descriptions, versions, has_added)


def _failing(runs: AllRuns, verdict: ScriptVerdict) -> Runs | None:
    """Return the runs of the configuration whose failure the report shows; None if none failed."""
    failure = report.chosen_failure(runs, verdict.main)
    return runs[failure[0]] if failure else None


def _pins(versions: dict[str, str]) -> str:
    """Return the versions of packages as Markdown; "none" if there are none."""
    pins = [f"{name}=={version}" for name, version in versions.items()]
    return markdown(", ".join(pins)) or "none"
