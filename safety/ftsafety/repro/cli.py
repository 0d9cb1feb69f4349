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
from ftsafety.errors import UsageError, VersionError
from ftsafety.repro import commands, narrow, report, verdict_words
from ftsafety.repro.arguments import parse
from ftsafety.repro.blocked import reason, remedy, settled, stopped
from ftsafety.repro.campaign import Campaign, Runs, twin_of
from ftsafety.repro.cluster import ClusterCampaign, NoCluster
from ftsafety.repro.options import Options
from ftsafety.repro.packages import Packages, add
from ftsafety.repro.progress import Progress
from ftsafety.repro.script import Script
from ftsafety.repro.stopping import EarlyStop
from ftsafety.repro.twins import Interpreter, Twin, connect, label
from ftsafety.repro.verdict import Pattern, Verdict, judge

NO_WALLS = (
    "repro: no walls around native runs: the script runs as you, with your permissions "
    "(docker compose run --rm ft-repro SCRIPT runs it behind walls)"
)
NO_WALLS_THERE = (
    "repro: no walls around the runs: on the workers the script runs as their user, with that "
    "user's permissions (--walls runs it in containers there)"
)


def main(arguments: list[str] | None = None) -> int:
    """Run `repro` with the command-line *arguments*; return its exit status (see --help)."""
    any_locale()
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments)
    except UsageError as error:
        print(f"repro: {one_line(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # before anything was started: see Interruption
        return 130
    with Interruption() as interruption, contextlib.ExitStack() as stack:
        progress = stack.enter_context(contextlib.closing(Progress()))
        try:
            text, status = Reproduction(options, interruption, progress, stack).run()
        except Interrupted as error:
            progress.note(f"repro: interrupted ({error})")
            return error.exit_status
        except (TwinError, MetadataError, VersionError) as error:
            progress.note(f"repro: {error}")
            return {MetadataError: 2, NoCluster: 2, VersionError: Pattern.NOT_BEGUN.value}.get(
                type(error), 1
            )
    return publish(text, options, interruption, status)


def publish(text: str, options: Options, interruption: Interruption, status: int) -> int:
    """Print the report and write it to --out; return the exit status."""
    print_report(text)
    try:
        if options.out is not None:
            options.out.write_text(text, encoding="utf-8")
    except OSError as error:
        hint = ""
        if isinstance(error, PermissionError) and options.walled:
            hint = (
                '; the container writes as user 1000: docker compose run --rm --user "$(id '
                '-u):$(id -g)" ft-repro ...'
            )
        print(f"repro: cannot write {options.out}: {error.strerror}{hint}", file=sys.stderr)
        status = 1
    return 128 + interruption.signum if interruption.signum else status


class Reproduction:
    """One invocation of the command, which runs the script many times. Owned by one thread."""

    def __init__(
        self,
        options: Options,
        interruption: Interruption,
        progress: Progress,
        stack: contextlib.ExitStack,
    ):
        self._options, self._interruption = options, interruption
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
        options, progress = self._options, self._progress
        early = EarlyStop(options.repeat, options.every_run)
        raw_runs, campaign = self._made(early)
        if not any(config_runs.outcomes for config_runs in raw_runs.values()):
            self._interruption.check()
            self._check_version()
        runs = settled(raw_runs)
        verdict = judge(runs, early.level)
        progress.note(f"repro: {verdict_words.sentence(verdict, runs)}")
        failure = report.chosen_failure(runs, verdict.main)
        failing = runs[failure[0]] if failure else None
        sections = [*self._remedies(runs), *self._more_sections(runs, campaign, failing)]
        last = [config for config in runs if twin_of(config) in self.descriptions][-1]
        single = self._single(failing or runs[last], runs)
        walls = options.walled or options.walls
        text = report.render(
            self._script,
            verdict,
            runs,
            f"{self._command}\n\n# one run:\n{single}",
            report.environment(self.descriptions, runs, walls, self.packages.added),
            sections,
            [*self._remarks(verdict, early, runs), *self.packages.remarks],
        )
        return text, verdict.pattern.value

    def _more_sections(
        self, runs: dict[str, Runs], campaign: Campaign, failing: Runs | None
    ) -> list[tuple[str, str]]:
        """Return [(title, Markdown)] of packages, threads and nodes.
        *failing*: runs of which some failed.
        """
        sections = []
        if any(self.packages.added.values()):
            lines = [
                f"- {name}: {markdown(_pins(pins)) or 'none'}"
                for name, pins in self.packages.added.items()
            ]
            sections.append(("Packages that were added", "\n".join(lines)))
        if self._options.shrink_threads and not campaign.stopped:
            least = "Nothing failed, so there is nothing to narrow down."
            if failing:
                least = narrow.shrink_threads(
                    campaign, failing, self._options.threads, self._options.repeat
                )
            sections.append(("Threads", least))
        if isinstance(campaign, ClusterCampaign):
            sections.append(("Nodes", report.nodes(runs, campaign.nodes)))
        return sections

    def _made(self, early: EarlyStop) -> tuple[dict[str, Runs], Campaign]:
        """Make the runs, here or on a cluster; return them, and the campaign."""
        options = self._options
        if not (options.walled or options.walls):
            self._progress.note(NO_WALLS_THERE if options.dask else NO_WALLS)
        if not options.dask:
            campaign = self.campaign()
            extra = [name for name in self.descriptions if name not in ("ft", "gil")]
            return campaign.run(
                (*options.configs, *extra), options.repeat, options.threads, enough=early
            ), campaign
        # Malformed metadata is refused here.
        self._excluded()
        dependencies(self._script.text)
        cluster = ClusterCampaign(options, self._interruption, self._progress)
        runs = cluster.run(options.configs, options.repeat, options.threads, enough=early)
        self.descriptions, self.packages = cluster.descriptions, cluster.packages
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
        limits, absent = self._options.limits, {**self.packages.missing, **missing}
        return Campaign(self._script, self._twins, limits, self._progress.update, deadline, absent)

    def _connect(self) -> None:
        names = {CONFIGURATIONS[config].twin for config in self._options.configs}
        for name, where in self._options.twins or [(this_twin(), sys.executable)]:
            if name not in names:
                continue
            twin = self._twins[name] = connect(where, self._interruption)
            self._stack.callback(twin.close)
            described = self.descriptions[name] = twin.describe()
            if described["interpreter"]["twin"] != name:
                raise TwinError(
                    f"--twin {name}={where} is the {described['interpreter']['twin']} twin"
                )
        if not self._twins:
            raise TwinError("no twin was given for the configurations in --configs")
        for path in self._options.interpreters:
            other = Interpreter(Path(path).absolute(), self._interruption)
            described = other.describe()
            name = label(described, self._twins)
            self._twins[name], self.descriptions[name] = other, described

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
        for name, description in self.descriptions.items():
            if not specifier.contains(description["interpreter"]["version"], prereleases=True):
                excluded[name] = f"the script requires Python {requirement}"
        return excluded

    def _check_version(self) -> None:
        """Raise VersionError if no version suits the script."""
        if self._excluded().keys() != self.descriptions.keys():
            return
        requirement = requires_python(self._script.text)
        remedy = f"there are twins of {' and '.join(commands.SERIES)}"
        for series in commands.SERIES:
            if SpecifierSet(requirement).contains(f"{series}.99"):
                remedy = commands.of_series(series, self._command)
        versions = {
            description["interpreter"]["version"] for description in self.descriptions.values()
        }
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
        names = [*dict.fromkeys(("ft", *self._twins))]
        twins = {
            name: self._twins[name] for name in names if name in self._twins and name not in missing
        }
        installed = {name: self.descriptions[name]["packages"] for name in twins}
        requirements = (*dependencies(self._script.text), *self._options.packages)
        cache, note = self._options.cache, self._progress.note
        return add(requirements, twins, installed, work.resolve(), cache, self._interruption, note)

    def _remedies(self, runs: dict[str, Runs]) -> list[tuple[str, str]]:
        """Return [(title, Markdown)], a report section with remedies for blocked runs;
        [] if no run was blocked.
        """
        why = stopped(runs)
        if not why:
            return []
        running = [config for config, config_runs in runs.items() if config_runs.counted]
        version = next(iter(self.descriptions.values()))["interpreter"]["version"]
        series = ".".join(version.split(".")[:2])
        walled = self._options.walled
        options = replace(self._options, module=None).command_line()
        lines = []
        for blocker, configs in why.items():
            lines.append(f"{markdown(f'{", ".join(configs)}: {reason(blocker)}')}")
            if command := remedy(
                blocker, self._script, self._command, running, walled, series, options
            ):
                lines.append(fenced(command, "sh"))
                if not running:
                    self._progress.note(f"repro: to get to the bug: {command}")
            elif blocker.cause == "module":
                lines.append(
                    "A container without network cannot install packages; run `./twins repro` "
                    "natively."
                )
        return [
            ("What did not get to the bug" if running else "To get to the bug", "\n\n".join(lines))
        ]

    def _remarks(self, verdict: Verdict, early: EarlyStop, runs: dict[str, Runs]) -> Iterator[str]:
        if early.reason:
            rounds = max(len(config_runs.outcomes) for config_runs in runs.values())
            ended = f"Ended after {rounds} of {self._options.repeat} rounds"
            yield f"{ended}: {early.reason} (--every-run makes all of them)."
        if verdict.pattern is Pattern.NOT_REPRODUCED:
            yield from verdict_words.unpatched(self.descriptions, self._script.text)

    def _single(self, example: Runs, runs: dict[str, Runs]) -> str:
        ran = report.packages_that_ran(self.descriptions, runs, self.packages.added)
        twin = twin_of(example.config)
        added = bool(self.packages.added.get(twin))
        local = replace(self._options, dask=None, dask_folder=None, walls=False)
        return commands.one_run(local, example, self.descriptions, ran.get(twin, {}), added)


def _pins(versions: dict[str, str]) -> str:
    return ", ".join(f"{name}=={version}" for name, version in versions.items())
