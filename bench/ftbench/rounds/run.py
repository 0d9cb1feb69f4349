"""A run of the benchmark: from the options to results on disk, also if it fails or is interrupted.

Each finished round is written before the next round begins. The record's status is "incomplete"
until all rounds of all scenarios are done, then "complete".
"""

import contextlib
import functools
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from ftbench.data import images
from ftbench.data.sources import Sources
from ftbench.document import model
from ftbench.document.convert import from_json
from ftbench.document.environment import Environment
from ftbench.document.store import RunDirectory
from ftbench.machine import alone, disturbance
from ftbench.plan import shortest, sizing
from ftbench.plan.scenario import Scenario
from ftbench.rounds.controller import Unavailable, WorkDiffers
from ftbench.rounds.measurement import Measurement
from ftbench.rounds.progress import Display
from ftbench.rounds.twins import Twins, cpus_in_words
from ftbench.stats.analysis import Analysis, analyse
from ftbench.trial import stress
from ftbench.trial.process import TrialFailed
from ftrun import environment
from ftrun.configurations import TWIN
from ftrun.errors import Interrupted, TwinError
from ftrun.interruption import Interruption


class RunFailed(Exception):
    """Raised if a scenario stopped early or the thread-safety suite failed;
    the message says which and why.
    """


@dataclass
class Run:
    """One run of the benchmark. Used by the main thread only."""

    results: model.Results
    scenarios: Sequence[Scenario]
    directory: RunDirectory
    interruption: Interruption
    display: Display
    twins: Twins = field(default_factory=Twins)
    """Connections to the twins. The caller closes them, and may use them for further runs."""
    begin: float = field(default_factory=time.monotonic)
    ended: set[str] = field(default_factory=set)
    """Names of the scenarios that are over: measured, skipped or stopped."""

    def measure(self) -> None:
        """Measure all scenarios, then run the thread-safety suite. If this raises, finished rounds
        are on disk.
        """
        options = self.results.options
        with (
            alone.claimed(self.directory.root) as claimed,
            tempfile.TemporaryDirectory(prefix="ft-bench-") as work,
        ):
            if not claimed:
                self.display.note(f"note: {alone.OTHER}")
            self._connect(Path(work))
            sources = self._sources()
            self.warn_of_options()
            failed = self._measure_scenarios(sources)
            if not failed:
                self.results.status = "complete"
                self.results.reason = None
            if options.stress and self.results.scenarios:
                self._stress(self.twins)
            if failed:
                raise RunFailed("; ".join(failed))
        problem = stress.problem(self.results.stress)
        if problem:
            raise RunFailed(problem)

    def _connect(self, work: Path) -> None:
        """Connect to the twins and record them; install what the
        dataset needs into the folder *work*.
        """
        options = self.results.options
        for name, where in options.twins.items():
            self.twins.add(name, where, self.interruption)
        source = environment.source_hash()
        self.twins.check_source(source)
        about = {
            "revision": environment.revision(),
            "source": source,
            "twins": self.twins.environments,
        }
        self.results.environment = from_json(Environment, about)
        self.warn_of_machine(self.twins)
        if options.requirements:
            self.display.note("installing packages")
            cache = Path(options.cache or work)
            self.twins.add_packages(options.requirements, cache, work, self.interruption)

    def _sources(self) -> Sources:
        """Make the files of all scenarios before anything is measured, so that a problem is
        reported at once.
        """
        data = self.results.options.data
        sources = Sources(Path(data) if data else None, self._step, self.display.warn)
        for scenario in self.scenarios:
            for case in scenario.plan.cases:
                sources.get(case.source or scenario.source)
        return sources

    def _measure_scenarios(self, sources: Sources) -> list[str]:
        """Measure each scenario; return a line for each that failed. If there is only one, its
        error is raised.
        """
        options, failed = self.results.options, []
        # The scenarios' own budgets may be exceeded on a slow machine, a shorter one may not.
        usual = sum(scenario.share(options.quick) for scenario in self.scenarios)
        left = None
        if options.rounds is None and options.budget < usual:
            left = self._left
        for position, scenario in enumerate(self.scenarios):
            self.display.scenario(
                scenario.name, position + 1, len(self.scenarios), self._later(position)
            )
            measurement = Measurement(scenario, options, self.twins, self.display, left=left)
            rounds = measurement.rounds(
                sources, self.interruption, functools.partial(self._share, position)
            )
            try:
                self._keep(scenario.name, rounds)
            except (sizing.DoesNotFit, TrialFailed, WorkDiffers) as error:
                # Go on with the other scenarios.
                if len(self.scenarios) == 1 or isinstance(error, sizing.BudgetTooShort):
                    raise
                failed.append(f"{scenario.name}: {error}")
                self.display.warn(f"stopped: {failed[-1]}")
            self.ended.add(scenario.name)
        if left and (over := time.monotonic() - self.begin - options.budget) > 0:
            self.display.warn(
                f"--budget {options.budget:g} is exceeded by {over:.0f} s: a round took that longer"
            )
        return failed

    def _keep(self, scenario: str, rounds: Iterator[model.MeasuredScenario]) -> None:
        """Save the record of a scenario after each of its rounds;
        record if the scenario cannot run here.
        """
        try:
            for record in rounds:
                if len(record.rounds) == 1:
                    self.results.scenarios.append(record)
                self.save()
        except (Unavailable, sizing.BudgetTooShort) as error:
            if isinstance(error, sizing.BudgetTooShort) and not self.results.scenarios:
                raise
            self.display.skip(scenario, str(error))

    def stop(self, reason: str) -> None:
        """Record why the run ended early, and the scenarios not reached;
        do nothing if the run is complete.
        """
        if self.results.status == "complete":
            return
        self.results.reason = reason
        reached = self.ended | self.results.by_name.keys()
        why = f"the run ended before its first round had: {reason}"
        for scenario in self.scenarios:
            if scenario.name not in reached:
                self.results.skipped.append(model.SkippedPart(scenario.name, why))

    def _left(self) -> float:
        """Return the seconds left of the budget, less those that are reserved for the report."""
        report = shortest.report_seconds(len(self.scenarios))
        return self.begin + self.results.options.budget - report - time.monotonic()

    def _share(self, position: int, later: bool = False) -> float:
        """Return the part of the remaining seconds for the scenario at `position`, or if `later`,
        for all after it.
        """
        to_come = [s.share(self.results.options.quick) for s in self.scenarios[position:]]
        part = to_come[0] / sum(to_come)
        if later:
            part = 1 - part
        return self._left() * part

    def _later(self, position: int) -> float:
        """Return the seconds for all scenarios after this position;
        0 if --rounds gives the number of rounds.
        """
        if self.results.options.rounds is not None:
            return 0.0
        return max(0.0, self._share(position, later=True))

    def finish(self) -> Analysis:
        """Analyse the finished rounds; save them and the waterfalls;
        return the analysis. Raises ResultsError.
        """
        analysis = analyse(self.results)
        self.results.waterfalls = analysis.waterfalls
        self.save()
        return analysis

    def warn_of_machine(self, twins: Twins) -> None:
        """Warn if the twins differ in more than the GIL,
        if the machine's speed varies, or if ranks outnumber CPUs.
        """
        for warning in (*twins.differences(), *disturbance.about_machine(disturbance.state())):
            self.display.warn(warning)
        ranks = self.results.options.ranks
        if ranks and ranks > (cpus := twins.usable_cpus()):
            self.display.warn(
                f"{ranks} ranks share {cpus_in_words(cpus)}: what is compared is how they get in "
                "each other's way (--ranks asks for fewer)"
            )

    def warn_of_options(self) -> None:
        """Warn if --data or --batch-size has no effect on some of the scenarios."""
        options = self.results.options
        if options.data:
            self._warn_of_option("--data is for images", attrgetter("takes_data"))
        if options.batch_size:
            use = "--batch-size is for what loads batches"
            self._warn_of_option(use, attrgetter("batched"))

    def _warn_of_option(self, use: str, uses: Callable[[Scenario], bool]) -> None:
        """Name the scenarios that an option with this *use* changes nothing in."""
        unaffected = [scenario.name for scenario in itertools.filterfalse(uses, self.scenarios)]
        if unaffected:
            self.display.warn(f"{use}, and changes nothing in {', '.join(unaffected)}")

    def save(self) -> None:
        """Write results.json; raises ResultsError."""
        self.results.seconds = round(time.monotonic() - self.begin, 1)
        self.directory.save(self.results)

    def _step(self, title: str) -> images.Progress:
        return self.interruption.checked(self.display.step(title))

    def _stress(self, twins: Twins) -> None:
        """Run the thread-safety suite in every configuration.
        Its outcome does not change the measurement.
        """
        minutes = self.results.options.stress_minutes
        part = self.results.stress = model.Stress(
            "incomplete", stress.KILLED, minutes, 0, None, [], []
        )
        self.save()
        problems = []
        for config in self.results.options.configs:
            progress = self._step(f"thread-safety suite, {config}")
            try:
                suite = twins.endpoints[TWIN[config]].start(stress.request(part, config))
                with contextlib.closing(suite):
                    for number, result in enumerate(
                        stress.take(part, config, iter(suite.go_on, None)), 1
                    ):
                        if result.outcome != "passed":
                            self.display.note(
                                f"thread-safety suite, {config}: {result.scenario} {result.outcome}"
                            )
                        progress(number, len(part.scenarios))
            except Interrupted as error:
                part.reason = f"interrupted ({error}) in {config}"
                raise
            except (TrialFailed, TwinError) as error:
                problems.append(f"{config}: {error}")
                self.display.note(f"thread-safety suite, {problems[-1]}")
            self.save()
        part.reason = "; ".join(problems) or None
        if not problems:
            part.status = "complete"
