"""A run of the benchmark: from the options to results on disk, whatever happens on the way.

The states of a run are those of its document's `status`: "incomplete" from the first finished
round on, "complete" once all rounds of all scenarios are done. Every finished round is written
before the next one begins.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ftbench.data import images
from ftbench.data.sources import Sources
from ftbench.document.results import SCHEMA_VERSION, Results
from ftbench.machine import disturbance
from ftbench.plan import sizing
from ftbench.plan.contestants import Contestant
from ftbench.plan.scenario import Case, Scenario
from ftbench.plan.variants import VARIANTS
from ftbench.rounds import stress
from ftbench.rounds.controller import (
    PREFETCH_FACTOR,
    CaseWork,
    Controller,
    Round,
    Unavailable,
    Work,
    WorkDiffers,
    choose,
    measured,
)
from ftbench.rounds.look import look
from ftbench.rounds.progress import PlainDisplay, TerminalDisplay
from ftbench.rounds.trials import TrialFailed
from ftbench.rounds.twins import Twins
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
# More workers than this for each CPU make sense only where a scenario is about waiting.
WORKERS_PER_CPU = 4


class ScenariosFailed(Exception):
    """Some of several scenarios could not be measured to their end; the message names them."""


class StressFailed(Exception):
    """Everything was measured, but the thread-safety suite found something, or did not run to its end."""


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    scenarios: tuple[Scenario, ...]
    quick: bool
    out: Path
    data: Path | None
    rounds: int | None
    budget: float
    workers: tuple[int, ...] | None
    batch_size: int | None
    configs: tuple[str, ...]
    twins: dict[str, str]
    dataset: str | None = None
    """The user's own dataset as it was named, and its collate_fn."""
    collate_fn: str | None = None
    precision: float = waterfall.PRECISION
    requirements: tuple[str, ...] = ()
    """Packages that the user's own dataset needs, and a folder to keep downloads of them in."""
    cache: Path | None = None
    stress: bool = False
    stress_minutes: float | None = None

    def document(self) -> dict:
        """The options as results.json records them."""
        return {
            **asdict(self),
            "scenarios": [s.name for s in self.scenarios],
            "out": str(self.out),
            "data": str(self.data) if self.data else None,
            "cache": str(self.cache) if self.cache else None,
            "requirements": list(self.requirements),
            "configs": list(self.configs),
            "workers": list(self.workers) if self.workers else None,
        }


class Run:
    """One run. Owned by the main thread."""

    def __init__(
        self, options: Options, results: Results, interruption: Interruption, display: TerminalDisplay | PlainDisplay
    ):
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
                self._warn(warning)
            if self._options.requirements:
                self._display.note("installing what the dataset needs")
                self._lacking = twins.add_packages(
                    list(self._options.requirements), self._options.cache, Path(work), self._interruption
                )
            sources = Sources(self._options.data, self._step, self._warn)
            # All of them before anything is measured: what cannot be read is told at once.
            for scenario in self._options.scenarios:
                for case in scenario.cases or (None,):
                    sources.get(_source(scenario, case))
            self._warn_of_options()
            failed = []
            for position, scenario in enumerate(self._options.scenarios):
                self._display.scenario(scenario.name, position + 1, len(self._options.scenarios), self._later(position))
                try:
                    self._scenario(scenario, twins, sources, position)
                except Unavailable as error:
                    self.skip(scenario.name, str(error))
                except (sizing.DoesNotFit, TrialFailed, WorkDiffers) as error:
                    # The other scenarios are worth having all the same.
                    if len(self._options.scenarios) == 1:
                        raise
                    failed.append(f"{scenario.name}: {error}")
                    self._warn(f"stopped: {failed[-1]}")
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

    def _warn_of_options(self) -> None:
        """Say which scenarios cannot do anything with an option that others of the run can."""
        for given, name, use, used in (
            (self._options.data, "--data", "images", lambda s: s.takes_data),
            (self._options.batch_size, "--batch-size", "what loads batches", lambda s: s.batched),
        ):
            others = [s.name for s in self._options.scenarios if not used(s)]
            if given and others:
                self._warn(f"{name} is for {use}, and changes nothing in {', '.join(others)}")

    def save(self) -> None:
        """Write the document; raises ResultsError."""
        self.document["seconds"] = round(time.monotonic() - self._begin, 1)
        self._results.save(self.document)

    def skip(self, what: str, why: str) -> None:
        """Note what is not measured."""
        self.document["skipped"].append({"what": what, "why": why})
        self._display.note(f"left out: {what}: {why}")

    def _warn(self, text: str) -> None:
        self.document["warnings"].append(text)
        self._display.note(f"warning: {text}")

    def _mark(self, scenario: str, rounds: list[dict]) -> None:
        """Tell of a round that was disturbed; all of a scenario's are one warning of the document."""
        latest = rounds[-1]["disturbance"]["marks"]
        if latest:
            self._display.note(f"disturbed: {scenario}, round {rounds[-1]['number']}: {', '.join(latest)}")
        before, now = disturbance.warning(scenario, rounds[:-1]), disturbance.warning(scenario, rounds)
        if now:
            self.document["warnings"] = [*(text for text in self.document["warnings"] if text != before), now]

    def _step(self, title: str) -> images.Progress:
        return self._interruption.checked(self._display.step(title))

    def _candidates(
        self, scenario: Scenario, configs: Sequence[str], twins: Twins, workers: list[int]
    ) -> list[tuple[int, Contestant]]:
        """The scenario's contestants that the twins can measure; notes those that they cannot."""
        ranked = []
        lacking: dict[str, list[str]] = {}
        for rank, c in scenario.contest.candidates(configs, workers, self._options.quick):
            why = twins.lacks(TWIN[c.config], c.variant)
            if why is None:
                ranked.append((rank, c))
            else:
                lacking.setdefault(why, []).append(c.title)
        for why, titles in lacking.items():
            self.skip(f"{scenario.name}: {', '.join(titles)}", why)
        return ranked

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

    def _workers(self, scenario: Scenario, cpus: int) -> list[int]:
        """The numbers of workers that were asked for, or the scenario's own."""
        own = list(scenario.workers(cpus))
        if self._options.workers is None:
            return own
        most = max(self._options.workers)
        if most > max(WORKERS_PER_CPU * cpus, *own):
            self._warn(
                f"{scenario.name}: {most} workers share {cpus} CPU{'s' if cpus != 1 else ''}: what is "
                "compared is how they get in each other's way (--workers asks for fewer)"
            )
        return list(self._options.workers)

    def _work(
        self, scenario: Scenario, contestants: Sequence[Contestant], twins: Twins, sources: Sources
    ) -> tuple[Work, list[dict]]:
        """What the trials have to do, and the same for results.json; one entry for each case that takes part.

        Warns of batches that are smaller than wanted, and notes cases that do not fit; raises
        sizing.DoesNotFit if the most important one does not.
        """
        options, work, entries = self._options, Work(scenario, {}, sizing.room(twins.memory())), []
        for case in scenario.cases or (None,):
            of_case = [c for c in contestants if c.case == (case.name if case else "")]
            if not of_case:
                continue
            amount = scenario.amount(options.quick, case)
            requested = options.batch_size if options.batch_size and scenario.batched else amount.batch_size
            sample_bytes = case and case.sample_bytes or scenario.sample_bytes
            variants = [VARIANTS[c.variant] for c in of_case]
            try:
                batch_size, warnings = sizing.fit(
                    requested,
                    sample_bytes,
                    max(c.workers for c in of_case),
                    PREFETCH_FACTOR,
                    any(v.processes for v in variants),
                    twins.memory(),
                    max(v.queued_per_worker for v in variants),
                    case.dataset_bytes if case else 0,
                )
            except sizing.DoesNotFit as error:
                # The others may fit.
                if case is None or case is scenario.cases[0]:
                    raise
                self.skip(f"{scenario.name}: {case.title}", str(error))
                continue
            for warning in warnings:
                where = [scenario.name] if len(options.scenarios) > 1 else []
                self._warn(": ".join([*where, *([case.title] if case else []), warning]))
            paths, dataset = sources.get(_source(scenario, case))
            entry = {
                "sample_bytes": sample_bytes,
                "dataset": dataset,
                "batch_size": batch_size,
                "requested_batch_size": requested,
                "batches_per_worker": amount.batches_per_worker,
                "turns": amount.turns,
            }
            work.cases[case.name if case else ""] = CaseWork(
                paths,
                batch_size,
                amount.batches_per_worker,
                amount.turns,
                sample_bytes,
                case.dataset_bytes if case else 0,
            )
            entries.append(
                {
                    **(
                        {
                            "name": case.name,
                            "title": case.title,
                            "parameters": dict(case.parameters),
                            "value": case.value,
                        }
                        if case
                        else {}
                    ),
                    **entry,
                }
            )
        return work, entries

    def _scenario(self, scenario: Scenario, twins: Twins, sources: Sources, position: int) -> None:
        options = self._options
        configs, repeats, no_processes = options.configs, True, ""
        if scenario.name == own.NAME:
            able = {twin: endpoint for twin, endpoint in twins.endpoints.items() if twin not in self._lacking}
            if not able:
                raise TrialFailed("; ".join(self._lacking.values()))
            found = look(scenario, able, options.batch_size)
            scenario, failed, no_processes = found.scenario, found.failed | self._lacking, found.without_processes
            repeats = not found.warnings
            for warning in found.warnings:
                self._warn(warning)
            for twin, why in failed.items():
                self.skip(f"{scenario.name}: the {twin} twin", why)
            configs = tuple(config for config in configs if TWIN[config] not in failed)
        ranked = self._candidates(scenario, configs, twins, self._workers(scenario, twins.usable_cpus()))
        if no_processes:
            self.skip(f"{scenario.name}: worker processes", no_processes)
            ranked = [(rank, c) for rank, c in ranked if not VARIANTS[c.variant].processes]
        if not ranked:
            self.skip(scenario.name, "none of its contestants can be measured here")
            return
        work, cases = self._work(scenario, [c for _, c in ranked], twins, sources)
        ranked = [(rank, c) for rank, c in ranked if c.case in work.cases]
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
        dropped: list[Contestant] = []
        if options.rounds is None:
            kept, dropped = choose(ranked, share, trial_seconds, fewest)
            ranked = [(rank, c) for rank, c in ranked if c in kept]
        if work.takes_turns:
            turns = allocation.turns(share / CAUTION, len(ranked), costs, at_once)
            controller.work = work.with_turns(turns)
            trial_seconds = costs.trial(turns, at_once) * CAUTION
            cases = [{**case, "turns": turns} if case["turns"] > 1 else case for case in cases]
        if dropped:
            self.skip(
                f"{scenario.name}: {', '.join(c.title for c in dropped)}",
                f"enough rounds with them would not fit into {options.budget:.0f} s (--budget gives more)",
            )
        measured_cases = {c.case for _, c in ranked}
        cases = [case for case in cases if case.get("name", "") in measured_cases]
        entry = {
            "name": scenario.name,
            "group": scenario.group,
            "question": scenario.question,
            "description": scenario.description,
            "note": "",
            "sample": scenario.sample,
            # Of a scenario with cases, the first one's.
            **{
                key: cases[0][key]
                for key in (
                    "sample_bytes",
                    "dataset",
                    "batch_size",
                    "requested_batch_size",
                    "batches_per_worker",
                    "turns",
                )
            },
            "prefetch_factor": PREFETCH_FACTOR,
            "seed": seed,
            "metrics": list(scenario.metrics),
            "case_axis": scenario.case_axis,
            "case_unit": scenario.case_unit,
            # The first case alone is as good as none if it has no name.
            "cases": cases if any(case.get("name") for case in cases) else [],
            "picture": controller.picture,
            "contestants": [{"key": c.key, "title": c.title, **asdict(c)} for _, c in ranked],
            "rounds": [],
            "analysis": None,
        }
        rounds: list[Round] = []
        notes: dict[str, None] = {}  # in the order in which trials had them
        contestants = [c for _, c in ranked]

        def enough() -> bool:
            return waterfall.precise(entry["analysis"], options.precision)

        for finished in controller.rounds(ranked, now + share, trial_seconds, options.rounds, enough):
            rounds.append(finished)
            if controller.differences and repeats:
                repeats = False  # told once
                self._warn(
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
                        twins.usable_cpus(),
                    ),
                    "trials": [{"contestant": key, **result} for key, result in finished.results.items()],
                }
            )
            self._mark(scenario.name, entry["rounds"])
            # Comparisons are among those who took part in every round.
            given_up = [c for c in contestants if c.key not in finished.results]
            if given_up:
                contestants = [c for c in contestants if c not in given_up]
                late = [c.title for c in given_up if c.key not in controller.failed]
                if late:
                    self.skip(
                        f"{scenario.name}: {', '.join(late)}",
                        f"given up in round {finished.number}, to fit {fewest} rounds into {options.budget:.0f} s",
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
        if controller.failed:
            # What the others have measured stands.
            for why in controller.failed.values():
                self.skip(scenario.name, why)
            raise TrialFailed("; ".join(controller.failed.values()))


def joined(notes: Iterable[str]) -> str:
    """Trials' notes as one, without those that others hold: some contestants have more to say than others."""
    notes = [note for note in notes if note]
    return "; ".join(note for note in notes if not any(note != other and note in other for other in notes))


def _source(scenario: Scenario, case: Case | None) -> str:
    """The name of what a case's dataset reads."""
    return case and case.source or scenario.source
