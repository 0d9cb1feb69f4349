"""A run of the benchmark: from the options to results on disk, whatever happens on the way.

The states of a run are those of its record's `status`: "incomplete" from the first finished
round on, "complete" once all rounds of all scenarios are done. Every finished round is written
before the next one begins.
"""

import contextlib
import functools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ftbench.data import images
from ftbench.data.sources import Sources
from ftbench.document import model
from ftbench.document.convert import from_json
from ftbench.document.environment import Environment
from ftbench.document.store import RunDirectory
from ftbench.machine import disturbance
from ftbench.plan import sizing
from ftbench.plan.scenario import Scenario
from ftbench.rounds.controller import Unavailable, WorkDiffers
from ftbench.rounds.measurement import Measurement
from ftbench.rounds.progress import Display
from ftbench.rounds.twins import Twins
from ftbench.stats.analysis import Analysis, analyse
from ftbench.trial import stress
from ftbench.trial.process import TrialFailed
from ftrun import environment
from ftrun.configurations import TWIN
from ftrun.interruption import Interrupted, Interruption
from ftrun.twin import TwinError

# Writing the report, in all and for each scenario, and the last round's being longer than those before it.
REPORT_SECONDS = 4.0, 1.0


class RunFailed(Exception):
    """Raised if a scenario was not measured to its end, or the thread-safety suite failed. The message says which."""


class Run:
    """One run. Owned by the main thread."""

    def __init__(
        self,
        results: model.Results,
        scenarios: Sequence[Scenario],
        directory: RunDirectory,
        interruption: Interruption,
        display: Display,
    ):
        self.results = results
        self._options = results.options
        self._scenarios = scenarios
        self._directory = directory
        self._interruption = interruption
        self._display = display
        self._begin = time.monotonic()
        self._ended: set[str] = set()

    def measure(self) -> None:
        """Run all scenarios. Raises what stops it; finished rounds are on disk by then."""
        with Twins() as twins, tempfile.TemporaryDirectory(prefix="ft-bench-") as work:
            for name, where in self._options.twins.items():
                twins.add(name, where, self._interruption)
            twins.check_source(environment.source_hash())
            found = {
                "revision": environment.revision(),
                "source": environment.source_hash(),
                "twins": twins.environments,
            }
            self.results.environment = from_json(Environment, found)
            for warning in (*twins.differences(), *disturbance.about_machine(disturbance.state())):
                self._display.warn(warning)
            if self._options.requirements:
                self._display.note("installing what the dataset needs")
                cache = Path(self._options.cache or work)
                twins.add_packages(self._options.requirements, cache, Path(work), self._interruption)
            sources = Sources(Path(self._options.data) if self._options.data else None, self._step, self._display.warn)
            # All sources before anything is measured, so that an unreadable one is reported at once.
            for scenario in self._scenarios:
                for case in scenario.plan.cases:
                    sources.get(case.source or scenario.source)
            self.warn_of_options()
            failed = []
            for position, scenario in enumerate(self._scenarios):
                self._display.scenario(scenario.name, position + 1, len(self._scenarios), self._later(position))
                measurement = Measurement(scenario, self._options, twins, self._display)
                share = functools.partial(self._share, position)
                try:
                    for entry in measurement.rounds(sources, self._interruption, share):
                        self._take_up(entry)
                except Unavailable as error:
                    self._display.skip(scenario.name, str(error))
                except (sizing.DoesNotFit, TrialFailed, WorkDiffers) as error:
                    # The other scenarios are worth having all the same.
                    if len(self._scenarios) == 1:
                        raise
                    failed.append(f"{scenario.name}: {error}")
                    self._display.warn(f"stopped: {failed[-1]}")
                self._ended.add(scenario.name)
            if not failed:
                self.results.status, self.results.reason = "complete", None
            if self._options.stress and self.results.scenarios:
                self._stress(twins)
            if failed:
                raise RunFailed("; ".join(failed))
        problem = stress.problem(self.results.stress)
        if problem:
            raise RunFailed(problem)

    def stop(self, reason: str) -> None:
        """Record why the run ended early, and the scenarios not reached; do nothing if the run is complete."""
        if self.results.status == "complete":
            return
        self.results.reason = reason
        reached = self._ended | {entry.name for entry in self.results.scenarios}
        self.results.skipped += [
            model.Skipped(s.name, f"the run ended before its first round had: {reason}")
            for s in self._scenarios
            if s.name not in reached
        ]

    def _share(self, position: int, later: bool = False) -> float:
        """Return the seconds of the remaining budget for the scenario at this position, or for those after it."""
        report = REPORT_SECONDS[0] + REPORT_SECONDS[1] * len(self._scenarios)
        left = self._begin + self._options.budget - report - time.monotonic()
        to_come = [s.share(self._options.quick) for s in self._scenarios[position:]]
        part = to_come[0] / sum(to_come)
        return left * (1 - part if later else part)

    def _later(self, position: int) -> float:
        """Return the seconds for the scenarios after this one; 0 if the number of rounds is given."""
        return 0.0 if self._options.rounds is not None else max(0.0, self._share(position, later=True))

    def _take_up(self, entry: model.Scenario) -> None:
        """Save a scenario's finished round."""
        if len(entry.rounds) == 1:
            self.results.scenarios.append(entry)
        self.save()

    def finish(self) -> Analysis:
        """Analyse the finished rounds, and save them with the waterfalls; raises ResultsError."""
        analysis = analyse(self.results)
        self.results.waterfalls = analysis.waterfalls
        self.save()
        return analysis

    def warn_of_options(self) -> None:
        """Warn of scenarios that an option has no effect on."""
        for given, name, use, used in (
            (self._options.data, "--data", "images", lambda s: s.takes_data),
            (self._options.batch_size, "--batch-size", "what loads batches", lambda s: s.batched),
        ):
            others = [s.name for s in self._scenarios if not used(s)]
            if given and others:
                self._display.warn(f"{name} is for {use}, and changes nothing in {', '.join(others)}")

    def save(self) -> None:
        """Write the document; raises ResultsError."""
        self.results.seconds = round(time.monotonic() - self._begin, 1)
        self._directory.save(self.results)

    def _step(self, title: str) -> images.Progress:
        return self._interruption.checked(self._display.step(title))

    def _stress(self, twins: Twins) -> None:
        """Run the thread-safety suite in every configuration. Its outcome does not change the measurement."""
        part = self.results.stress = stress.begin(self._options.stress_minutes)
        self.save()
        problems = []
        for config in self._options.configs:
            progress = self._step(f"thread-safety suite, {config}")
            try:
                suite = twins.endpoints[TWIN[config]].start(stress.request(part, config))
                with contextlib.closing(suite):
                    for number, result in enumerate(stress.take(part, config, iter(suite.go_on, None)), 1):
                        if result.outcome != "passed":
                            self._display.note(f"thread-safety suite, {config}: {result.scenario} {result.outcome}")
                        progress(number, len(part.scenarios))
            except Interrupted as error:
                part.reason = f"interrupted ({error}) in {config}"
                raise
            except (TrialFailed, TwinError) as error:
                problems.append(f"{config}: {error}")
                self._display.note(f"thread-safety suite, {problems[-1]}")
            self.save()
        part.reason = "; ".join(problems) or None
        part.status = "incomplete" if problems else "complete"
