"""The command line of ``python -m ftsafety.repro``: from a script to its report."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from pathlib import Path

from ftrun.configurations import CONFIGURATIONS, this_twin
from ftrun.escape import any_locale, fenced, markdown, one_line, print_report
from ftrun.inline_metadata import MetadataError, dependencies
from ftrun.interruption import Interrupted, Interruption
from ftrun.overlay import OverlayError, absent, install
from ftrun.twin import TwinError
from ftsafety.repro import narrow, phrases, report
from ftsafety.repro.arguments import parse
from ftsafety.repro.campaign import Campaign, Runs
from ftsafety.repro.inputs import UsageError
from ftsafety.repro.progress import Progress
from ftsafety.repro.request import MIB, Limits
from ftsafety.repro.script import Script
from ftsafety.repro.twins import LocalScripts, Twin, connect
from ftsafety.repro.verdict import judge

NO_WALLS = (
    "repro: no walls around native runs: the script runs as you, with your permissions "
    "(docker compose run --rm ft-repro SCRIPT runs it behind walls)"
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status (see --help)."""
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
        except (TwinError, MetadataError) as error:
            progress.note(f"repro: {error}")
            return 2 if isinstance(error, MetadataError) else 1
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


class Reproduction:
    """One run of the command. Owned by one thread."""

    def __init__(self, given, interruption: Interruption, progress: Progress, stack: contextlib.ExitStack):
        self._given, self._interruption, self._progress, self._stack = given, interruption, progress, stack
        self._script: Script = given.loaded
        self._twins: dict[str, Twin] = {}
        self._descriptions: dict[str, dict] = {}
        self._pins: dict[str, list[str]] = {}

    def run(self) -> tuple[str, int]:
        """Make all runs; return the report and the exit status. Raises TwinError, or Interrupted before any run."""
        given, progress = self._given, self._progress
        self._connect()
        if not given.walled:
            progress.note(NO_WALLS)
        missing = self._install()
        limits = Limits(given.timeout, given.memory * MIB, given.processes, given.disk * MIB, given.output * MIB)
        deadline = time.monotonic() + given.budget
        campaign = Campaign(self._script, self._twins, limits, progress.update, deadline, missing)
        runs = campaign.run(given.configs, given.repeat, given.threads)
        if not any(each.outcomes for each in runs.values()):
            self._interruption.check()
        verdict = judge(runs)
        progress.note(f"repro: {phrases.sentence(verdict, runs)}")
        sections = self._added()
        if not campaign.stopped:
            sections += self._narrow(campaign, runs)
        shown = report.chosen_failure(runs)
        last = [config for config in runs if CONFIGURATIONS[config].twin in self._descriptions][-1]
        every = report.all_runs(given, self._script)
        single = report.one_run(given, self._script, runs[shown[0] if shown else last], self._descriptions)
        about = self._script, verdict, runs, self._descriptions
        return report.render(*about, every, single, given.walled, sections), verdict.pattern.value

    def _connect(self) -> None:
        needed = {CONFIGURATIONS[config].twin for config in self._given.configs}
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

    def _install(self) -> dict[str, str]:
        """Add the packages that the script wants to the twins; return why some twins cannot be used."""
        missing: dict[str, str] = {}
        work = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ft-repro-packages-")))
        wanted = (*dependencies(self._script.text), *self._given.package)
        # The free-threaded twin first: fewer wheels fit it, and the other then takes the same versions.
        for name in ("ft", "gil"):
            if name not in self._twins:
                missing[name] = "no interpreter was given for it (--twin)"
                continue
            if not wanted:
                continue
            twin, installed = self._twins[name], self._descriptions[name]["packages"]
            if not isinstance(twin, LocalScripts):
                if lacking := ", ".join(each for each in wanted if absent(each, installed)):
                    without = "and a container without network cannot install packages; run `./twins repro` natively"
                    missing[name] = f"the script wants {lacking}, {without}"
                continue
            self._progress.note(f"installing {', '.join(wanted)} for {name}")
            cache, pins = self._given.cache or work, self._pins.get("ft", ())
            try:
                self._pins[name] = install(work / name, twin.python, wanted, installed, cache, self._interruption, pins)
                twin.overlay = str(work / name)
            except OverlayError as error:
                missing[name] = f"its packages cannot be installed there: {error}"
                self._progress.note(f"repro: {name}: {missing[name]}")
        return missing

    def _added(self) -> list[tuple[str, str]]:
        if not any(self._pins.values()):
            return []
        lines = [f"- {name}: {markdown(', '.join(pins)) or 'none'}" for name, pins in self._pins.items()]
        return [("Packages that were added", "\n".join(lines))]

    def _narrow(self, campaign: Campaign, runs: dict[str, Runs]) -> list[tuple[str, str]]:
        threads, shrink = self._given.threads, self._given.shrink_threads
        shown = report.chosen_failure(runs)
        if shown is None:
            return [("Narrowing it down", "Nothing failed, so there is nothing to narrow down.")] if shrink else []
        sections: list[tuple[str, str]] = []
        with contextlib.suppress(Interrupted, TwinError):
            if stack := narrow.native_stack(campaign, runs[shown[0]], threads):
                sections.append(("Native stack (gdb)", fenced(report.excerpt(stack), "text")))
            if shrink:
                sections.append(("Threads", narrow.shrink_threads(campaign, runs[shown[0]], threads)))
        return sections
