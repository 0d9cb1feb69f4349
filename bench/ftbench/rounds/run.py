"""A run of the benchmark: from the options to results on disk, whatever happens on the way.

The states of a run are those of its document's `status`: "incomplete" from the first finished
round on, "complete" once all rounds of all scenarios are done. Every finished round is written
before the next one begins.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ftbench.data import images
from ftbench.data.sources import Sources
from ftbench.document.results import SCHEMA_VERSION, Results
from ftbench.machine import disturbance
from ftbench.plan import sizing
from ftbench.plan.contestants import Contestant
from ftbench.plan.scenario import Scenario
from ftbench.plan.variants import VARIANTS
from ftbench.rounds import prepare, stress
from ftbench.rounds.controller import Controller, Round, Unavailable, WorkDiffers, choose, measured
from ftbench.rounds.look import Look, look
from ftbench.rounds.notes import Notes
from ftbench.rounds.options import Options
from ftbench.rounds.progress import Display
from ftbench.rounds.trials import TrialFailed
from ftbench.rounds.twins import Twins
from ftbench.rounds.work import PREFETCH_FACTOR
from ftbench.scenarios import own
from ftbench.stats import allocation, statistics, waterfall
from ftrun import environment
from ftrun.configurations import TWIN
from ftrun.interruption import Interrupted, Interruption
from ftrun.twin import TwinError

# Writing the report, and the last round's being longer than those before it.
REPORT_SECONDS = 6.0
# A warm-up trial has the page cache against it, later ones the luck of the draw.
CAUTION = 1.1
# What contestants are chosen by, before it is planned how many turns those who take part have.
USUAL_TURNS = 8


class ScenariosFailed(Exception):
    """Some of several scenarios could not be measured to their end; the message names them."""


class StressFailed(Exception):
    """Everything was measured, but the thread-safety suite found something, or did not run to its end."""


class Run:
    """One run. Owned by the main thread."""

    def __init__(self, options: Options, results: Results, interruption: Interruption, display: Display):
        self._options = options
        self._results = results
        self._interruption = interruption
        self._display = display
        self._begin = time.monotonic()
        self._ended: set[str] = set()
        self._lacking: dict[str, str] = {}
        """Why twins cannot have what the user's own dataset needs."""
        self.finished_rounds = 0
        self.document: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "status": "incomplete",
            "reason": "the run has not ended, or was killed",
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": 0.0,
            "options": options.document(),
            "environment": {},
            "warnings": [],
            "skipped": [],
            "scenarios": [],
            "waterfalls": [],
        }
        self.notes = Notes(self.document, display)

    def measure(self) -> None:
        """Run all scenarios. Raises what stops it; finished rounds are on disk by then."""
        with Twins() as twins, tempfile.TemporaryDirectory(prefix="ft-bench-") as work:
            for name, where in self._options.twins.items():
                twins.add(name, where, self._interruption)
            twins.check_source(environment.source_hash())
            self.document["environment"] = {
                "revision": environment.revision(),
                "source": environment.source_hash(),
                "twins": twins.environments,
            }
            for warning in (*twins.differences(), *disturbance.about_machine(disturbance.state().document())):
                self.notes.warn(warning)
            if self._options.requirements:
                self._display.note("installing what the dataset needs")
                self._lacking = twins.add_packages(
                    list(self._options.requirements), self._options.cache, Path(work), self._interruption
                )
            sources = Sources(self._options.data, self._step, self.notes.warn)
            # All of them before anything is measured: what cannot be read is told at once.
            for scenario in self._options.scenarios:
                for case in scenario.every_case:
                    sources.get(prepare.source(scenario, case))
            prepare.warn_of_options(self._options, self.notes)
            failed = []
            for position, scenario in enumerate(self._options.scenarios):
                self._display.scenario(scenario.name, position + 1, len(self._options.scenarios), self._later(position))
                try:
                    self._scenario(scenario, twins, sources, position)
                except Unavailable as error:
                    self.notes.skip(scenario.name, str(error))
                except (sizing.DoesNotFit, TrialFailed, WorkDiffers) as error:
                    # The other scenarios are worth having all the same.
                    if len(self._options.scenarios) == 1:
                        raise
                    failed.append(f"{scenario.name}: {error}")
                    self.notes.warn(f"stopped: {failed[-1]}")
                self._ended.add(scenario.name)
            if not failed:
                self.document["status"], self.document["reason"] = "complete", None
            if self._options.stress and self.finished_rounds:
                self._stress(twins)
            if failed:
                raise ScenariosFailed("; ".join(failed))
        problem = stress.problem(self.document.get("stress"))
        if problem:
            raise StressFailed(problem)

    def stop(self, reason: str) -> None:
        """Note why the measurement ended early, and what it did not come to; one that is complete stays so."""
        if self.document["status"] == "complete":
            return
        self.document["reason"] = reason
        reached = self._ended | {entry["name"] for entry in self.document["scenarios"]}
        self.document["skipped"] += [
            {"what": s.name, "why": f"the run ended before its first round had: {reason}"}
            for s in self._options.scenarios
            if s.name not in reached
        ]

    def _later(self, position: int) -> float:
        """Seconds that the scenarios after this one are given; 0 where rounds are counted and not time."""
        if self._options.rounds is not None:
            return 0.0
        left = max(0.0, self._begin + self._options.budget - REPORT_SECONDS - time.monotonic())
        to_come = [s.share(self._options.quick) for s in self._options.scenarios[position:]]
        return left * (1 - to_come[0] / sum(to_come))

    def save(self) -> None:
        """Write the document; raises ResultsError."""
        self.document["seconds"] = round(time.monotonic() - self._begin, 1)
        self._results.save(self.document)

    def _step(self, title: str) -> images.Progress:
        return self._interruption.checked(self._display.step(title))

    def _stress(self, twins: Twins) -> None:
        """Run the thread-safety suite in every configuration. What was measured is not touched by its outcome."""
        part = self.document["stress"] = stress.begin(self._options.stress_minutes)
        self.save()
        request = {"minutes": part["minutes"], "seed": part["seed"]}
        problems = []
        for config in self._options.configs:
            collector = stress.Collector(part, config, self._step(f"thread-safety suite, {config}"), self._display.note)
            try:
                twins.endpoints[TWIN[config]].stress(config, request, collector.take)
            except Interrupted as error:
                part["reason"] = f"interrupted ({error}) in {config}"
                raise
            except (TrialFailed, TwinError) as error:
                problems.append(f"{config}: {error}")
                self._display.note(f"thread-safety suite, {problems[-1]}")
            else:
                if collector.missing():
                    problems.append(f"{config}: {collector.missing()} scenarios did not run")
            self.save()
        part["reason"] = "; ".join(problems) or None
        part["status"] = "incomplete" if problems else "complete"

    def _own(self, scenario: Scenario, twins: Twins) -> tuple[Look, tuple[str, ...]]:
        """What a look at the user's own dataset found, and the configurations that can load it."""
        able = {twin: endpoint for twin, endpoint in twins.endpoints.items() if twin not in self._lacking}
        if not able:
            raise TrialFailed("; ".join(self._lacking.values()))
        workers = self._options.workers or scenario.workers(twins.usable_cpus())
        found = look(scenario, able, self._options.batch_size, max(workers))
        failed = found.failed | self._lacking
        for warning in found.warnings:
            self.notes.warn(warning)
        for twin, why in failed.items():
            self.notes.skip(f"{scenario.name}: the {twin} twin", why)
        if found.without_processes:
            self.notes.skip(f"{scenario.name}: worker processes", found.without_processes)
        return found, tuple(config for config in self._options.configs if TWIN[config] not in failed)

    def _scenario(self, scenario: Scenario, twins: Twins, sources: Sources, position: int) -> None:
        options, notes = self._options, self.notes
        configs, repeats, processes = options.configs, True, True
        if scenario.name == own.NAME:
            found, configs = self._own(scenario, twins)
            scenario, repeats, processes = found.scenario, not found.warnings, not found.without_processes
        ranked = prepare.candidates(options, scenario, configs, twins, notes)
        ranked = [(rank, c) for rank, c in ranked if processes or not VARIANTS[c.variant].processes]
        if not ranked:
            notes.skip(scenario.name, "none of its contestants can be measured here")
            return
        work, fitting = prepare.work(options, scenario, [c for _, c in ranked], twins.memory(), sources, notes)
        ranked = [(rank, c) for rank, c in ranked if c in fitting]
        seed = secrets.randbits(32)
        # A quick run has its three rounds, whatever a full one repeats.
        fewest = max(statistics.FEWEST_ROUNDS, 0 if options.quick else scenario.repeats)
        controller = Controller(work, twins.endpoints, self._display, self._interruption, seed, fewest)
        costs = controller.warm_up([c for _, c in ranked])
        at_once = min(twins.usable_cpus(), len(ranked)) if work.takes_turns else 1
        trial_seconds = costs.trial(USUAL_TURNS if work.takes_turns else 1, at_once) * CAUTION
        # Scenarios still to come share what is left of the budget, each as it needs.
        now = time.monotonic()
        left = self._begin + options.budget - REPORT_SECONDS - now
        to_come = [s.share(options.quick) for s in options.scenarios[position:]]
        share = left * to_come[0] / sum(to_come)
        if options.rounds is None:
            kept, dropped = choose(ranked, share, trial_seconds, fewest)
            ranked = [(rank, c) for rank, c in ranked if c in kept]
            if dropped:
                notes.skip(
                    f"{scenario.name}: {', '.join(c.title for c in dropped)}",
                    f"enough rounds with them would not fit into {options.budget:.0f} s (--budget gives more)",
                )
        if work.takes_turns:
            turns = allocation.turns(share / CAUTION, len(ranked), costs, at_once)
            controller.work = work = work.with_turns(turns)
            trial_seconds = costs.trial(turns, at_once) * CAUTION
        entry = {
            "name": scenario.name,
            "group": scenario.group,
            "question": scenario.question,
            "description": scenario.description,
            "note": "",
            "sample": scenario.sample,
            **work.document({c.case for _, c in ranked}),
            "prefetch_factor": PREFETCH_FACTOR,
            "seed": seed,
            "metrics": list(scenario.metrics),
            "case_axis": scenario.case_axis,
            "case_unit": scenario.case_unit,
            "picture": controller.picture,
            "contestants": [{"key": c.key, "title": c.title, **asdict(c)} for _, c in ranked],
            "rounds": [],
            "analysis": None,
        }
        measure = controller.rounds(ranked, now + share, trial_seconds, options.rounds, lambda: self._enough(entry))
        self._rounds(scenario, controller, measure, entry, [c for _, c in ranked], repeats)
        if controller.failed:
            # What the others have measured stands.
            for why in controller.failed.values():
                notes.skip(scenario.name, why)
            raise TrialFailed("; ".join(controller.failed.values()))

    def _enough(self, entry: dict) -> bool:
        return waterfall.precise(entry["analysis"], self._options.precision)

    def _rounds(
        self,
        scenario: Scenario,
        controller: Controller,
        measure: Iterator[Round],
        entry: dict,
        contestants: list[Contestant],
        repeats: bool,
    ) -> None:
        """Take up the rounds of a scenario, each on disk before the next begins."""
        rounds: list[Round] = []
        notes: dict[str, None] = {}  # in the order in which trials had them
        for finished in measure:
            rounds.append(finished)
            if controller.differences and repeats:
                repeats = False  # told once
                self.notes.warn(
                    f"not all contestants gave the same samples: {controller.differences[0].split('. ')[0]}. Either "
                    "the dataset draws random numbers, or it is not safe under threads: "
                    f"./twins audit {scenario.case('').parameters['target']} tells"
                )
            if len(rounds) == 1:
                self.document["scenarios"].append(entry)
            notes.update(dict.fromkeys(result.pop("note") for result in finished.results.values()))
            entry["note"] = joined(notes)
            entry["rounds"].append(
                {
                    "number": finished.number,
                    "seconds": round(finished.seconds, 2),
                    "disturbance": disturbance.of_round(
                        finished.before,
                        finished.after,
                        {key: result["disturbance"] for key, result in finished.results.items()},
                    ),
                    "trials": [{"contestant": key, **result} for key, result in finished.results.items()],
                }
            )
            self.notes.mark(scenario.name, entry["rounds"])
            # Comparisons are among those who took part in every round.
            given_up = [c for c in contestants if c.key not in finished.results]
            if given_up:
                contestants = [c for c in contestants if c not in given_up]
                late = [c.title for c in given_up if c.key not in controller.failed]
                if late:
                    self.notes.skip(
                        f"{scenario.name}: {', '.join(late)}",
                        f"given up in round {finished.number}: not all would fit into {self._options.budget:.0f} s",
                    )
            entry["analysis"] = statistics.analyse(
                measured(rounds, contestants, scenario.metrics),
                scenario.contest.pairs(contestants),
                {c.key: [r.results[c.key]["distributions"] for r in rounds] for c in contestants},
            )
            statistics.adjust(each["analysis"] for each in self.document["scenarios"])
            self.document["waterfalls"] = waterfall.waterfalls(self.document["scenarios"])
            self.finished_rounds += 1
            self.save()


def joined(notes: Iterable[str]) -> str:
    """Trials' notes as one, without those that others hold: some contestants have more to say than others."""
    notes = [note for note in notes if note]
    return "; ".join(note for note in notes if not any(note != other and note in other for other in notes))
