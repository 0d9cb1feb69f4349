"""The command line of ``python -m ftsafety.repro``: from a script to its report."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path

from ftrun.configurations import CONFIGURATIONS, this_twin
from ftrun.escape import any_locale, fenced, markdown, one_line, print_report
from ftrun.inline_metadata import MetadataError
from ftrun.interruption import Interrupted, Interruption
from ftrun.overlay import OverlayError, Overlays, absent
from ftrun.twin import TwinError
from ftsafety.repro import arguments as arguments_
from ftsafety.repro import narrow, report, script, verdict
from ftsafety.repro.arguments import UsageError, parse
from ftsafety.repro.campaign import Campaign, Runs
from ftsafety.repro.limits import MIB, Limits
from ftsafety.repro.progress import Progress
from ftsafety.repro.twins import Twin, connect

NO_WALLS = (
    "repro: no walls around native runs: the script runs as you, with your permissions "
    "(docker compose run --rm ft-repro SCRIPT runs it behind walls)"
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status (see --help)."""
    any_locale()
    try:
        given = parse(sys.argv[1:] if arguments is None else arguments)
        reproduction = Reproduction(given)
    except (UsageError, MetadataError) as error:
        print(f"repro: {one_line(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # before anything was begun: see Interruption
        return 130
    with Interruption() as interruption, contextlib.ExitStack() as stack:
        progress = stack.enter_context(Progress())
        try:
            text, status = reproduction.run(interruption, progress, stack)
        except Interrupted as error:
            progress.note(f"repro: interrupted ({error})")
            return error.exit_status
        except TwinError as error:
            progress.note(f"repro: {error}")
            return 1
    return publish(text, given, interruption, status)


def publish(text: str, given, interruption: Interruption, status: int) -> int:
    """Print the report and write it to --out; returns the exit status."""
    print_report(text)
    if given.out is not None:
        try:
            given.out.write_text(text, encoding="utf-8")
        except OSError as error:
            hint = ""
            if isinstance(error, PermissionError) and given.walled:
                hint = (
                    '; the container writes as user 1000: docker compose run --rm --user "$(id -u):$(id -g)" '
                    "ft-repro ..."
                )
            print(f"repro: cannot write {given.out}: {error.strerror}{hint}", file=sys.stderr)
            status = status if interruption.signum else 1
    return 128 + interruption.signum if interruption.signum else status


class Reproduction:
    """One run of the command. Owned by one thread."""

    def __init__(self, given):
        self._given = given
        self._script = script.load(given.script, given.source)
        self._limits = Limits(given.timeout, given.memory * MIB, given.processes, given.disk * MIB, given.output * MIB)
        self._twins: dict[str, Twin] = {}
        self._descriptions: dict[str, dict] = {}

    def run(self, interruption: Interruption, progress: Progress, stack: contextlib.ExitStack) -> tuple[str, int]:
        """The report and the exit status; raises Interrupted before the first run, and TwinError."""
        given = self._given
        self._connect(interruption, stack)
        if not given.walled:
            progress.note(NO_WALLS)
        overlays, missing = self._install(interruption, progress, stack)
        deadline = time.monotonic() + given.budget
        campaign = Campaign(self._script, self._twins, self._limits, progress.update, deadline, overlays, missing)
        runs = campaign.run(given.configs, given.repeat, given.threads)
        if interruption.wanted() and not any(each.outcomes for each in runs.values()):
            interruption.check()
        found = verdict.judge(runs)
        progress.note(f"repro: {found.sentence}")
        sections = self._added()
        if not campaign.stopped:
            sections += self._narrow(campaign, runs, progress)
        text = report.render(
            self._script, found, runs, self._descriptions, self._command(), self._single(runs), given.walled, sections
        )
        return text, found.exit_status

    def _connect(self, interruption: Interruption, stack: contextlib.ExitStack) -> None:
        wanted = dict(self._given.twin)
        if not wanted:
            wanted = {this_twin(): sys.executable}
        needed = {CONFIGURATIONS[config].twin for config in self._given.configs}
        for name, where in wanted.items():
            if name not in needed:
                continue
            twin = self._twins[name] = connect(where, interruption)
            stack.callback(twin.close)
            described = self._descriptions[name] = twin.describe()
            if described["interpreter"]["twin"] != name:
                raise TwinError(f"--twin {name}={where} is the {described['interpreter']['twin']} twin")
        if not self._twins:
            raise TwinError("no twin was given for the configurations in --configs")

    def _install(
        self, interruption: Interruption, progress: Progress, stack: contextlib.ExitStack
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Overlays by twin, and the twins that cannot be used with why."""
        missing = {
            name: "no interpreter was given for it (--twin)" for name in ("ft", "gil") if name not in self._twins
        }
        work = Path(tempfile.mkdtemp(prefix="ft-repro-packages-"))
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        self._overlays = Overlays(self._given.cache or work, work, interruption)
        overlays: dict[str, str] = {}
        self._pins: dict[str, list[str]] = {}
        if not self._script.dependencies:
            return overlays, missing
        # The free-threaded twin first: fewer wheels fit it, and the other then takes the same versions.
        for name in ("ft", "gil"):
            if name in missing:
                continue
            twin = self._twins[name]
            if twin.python is None:
                installed = self._descriptions[name]["packages"]
                lacking = [each for each in self._script.dependencies if absent(each, installed)]
                if lacking:
                    missing[name] = (
                        f"the script wants {', '.join(lacking)}, and a container without network cannot "
                        "install packages; run `./twins repro` natively"
                    )
                continue
            progress.note(f"installing {', '.join(self._script.dependencies)} for {name}")
            try:
                overlays[name], self._pins[name] = self._overlays.make(
                    twin.python,
                    self._script.dependencies,
                    self._descriptions[name]["packages"],
                    self._pins.get("ft", ()),
                )
            except OverlayError as error:
                missing[name] = f"its packages cannot be installed there: {error}"
                progress.note(f"repro: {name}: {missing[name]}")
        return overlays, missing

    def _added(self) -> list[tuple[str, str]]:
        if not any(self._pins.values()):
            return []
        return [
            (
                "Packages that were added",
                "\n".join(f"- {name}: {markdown(', '.join(pins)) or 'none'}" for name, pins in self._pins.items()),
            )
        ]

    def _narrow(self, campaign: Campaign, runs: dict[str, Runs], progress: Progress) -> list[tuple[str, str]]:
        given = self._given
        sections: list[tuple[str, str]] = []
        shown = report.chosen_failure(runs)
        if shown is None:
            if given.shrink_threads:
                sections.append(("Narrowing it down", "Nothing failed, so there is nothing to narrow down."))
            return sections
        seen = runs[shown[0]]
        with contextlib.suppress(Interrupted, TwinError):
            stack = narrow.native_stack(campaign, seen, given.threads)
            if stack:
                sections.append(("Native stack (gdb)", fenced(report.excerpt(stack), "text")))
            if given.shrink_threads:
                sections.append(("Threads", narrow.shrink_threads(campaign, seen, given.threads)))
        return sections

    def _command(self) -> str:
        """What a reader types to repeat all of it."""
        given = vars(self._given)
        defaults = vars(arguments_.parser().parse_args(["x"]))
        options = []
        limits = ("memory", "processes", "disk", "output")
        for name in ("threads", "repeat", "timeout", "budget", "shrink_threads", *limits):
            value = given[name]
            if isinstance(value, bool):
                options += [f"--{name.replace('_', '-')}"] if value else []
            # What decides the outcome is named even where it is the default, which may change.
            elif value != defaults[name] or name in ("threads", "repeat", "timeout"):
                options += [f"--{name}", f"{value:g}" if isinstance(value, float) else str(value)]
        if ",".join(given["configs"]) != defaults["configs"]:
            options += ["--configs", ",".join(given["configs"])]
        if self._given.walled:
            return f"docker compose run --rm -T ft-repro - {shlex.join(options)} <{shlex.quote(self._script.argument)}"
        return f"./twins repro {shlex.join([self._script.argument, *options])}"

    def _single(self, runs: dict[str, Runs]) -> str:
        """What a reader types for one run where it failed, or in the last configuration that there is a twin for."""
        shown = report.chosen_failure(runs)
        config = (
            shown[0] if shown else [config for config in runs if CONFIGURATIONS[config].twin in self._descriptions][-1]
        )
        twin, threads, name = CONFIGURATIONS[config].twin, self._given.threads, shlex.quote(self._script.argument)
        gil = {"gil": [], "ft-gil": ["PYTHON_GIL=1"], "ft": ["PYTHON_GIL=0"] if runs[config].forced_off else []}[config]
        variables = [f"REPRO_THREADS={threads}", *gil]
        if self._given.walled:
            given = f"--configs {config} --threads {threads} --timeout {self._given.timeout:g} --repeat 1"
            return f"docker compose run --rm -T ft-repro - {given} <{name}"
        # For who reads the issue and has not these tools.
        version = self._descriptions[twin]["interpreter"]["version"].rpartition(".")[0]
        plain = (
            f"\n\n# the same with any CPython {version}{' that is free-threaded' if twin == 'ft' else ''}:\n"
            f"{' '.join(variables)} python{version}{'t' if twin == 'ft' else ''} {name} {threads}"
        )
        return f"{' '.join(variables)} ./twins exec {twin} python {name} {threads}{plain}"
