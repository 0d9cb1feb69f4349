"""A run of the benchmark: from the options to results on disk, whatever happens on the way.

The states of a run are those of its document's `status`: "incomplete" from the first finished
round on, "complete" once all rounds of all scenarios are done. Every finished round is written
before the next one begins.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench import contestants as who
from bench import environment, images, sizing, statistics
from bench.contestants import Contestant
from bench.controller import (
    PREFETCH_FACTOR,
    Controller,
    Round,
    Work,
    choose,
    measured,
)
from bench.interruption import Interruption
from bench.progress import PlainDisplay, TerminalDisplay
from bench.results import SCHEMA_VERSION, Results
from bench.scenario import Scenario
from bench.sources import Sources
from bench.trials import TWIN
from bench.twins import Twins
from bench.variants import VARIANTS

# Writing the report, and the last round's being longer than those before it.
REPORT_SECONDS = 6.0
# A warm-up trial has the page cache against it, later ones the luck of the draw.
CAUTION = 1.1


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

    def document(self) -> dict:
        """The options as results.json records them."""
        return {**asdict(self), "scenarios": [s.name for s in self.scenarios], "out": str(self.out),
                "data": str(self.data) if self.data else None, "configs": list(self.configs),
                "workers": list(self.workers) if self.workers else None}


class Run:
    """One run. Owned by the main thread."""

    def __init__(self, options: Options, results: Results, interruption: Interruption,
                 display: TerminalDisplay | PlainDisplay):
        self._options = options
        self._results = results
        self._interruption = interruption
        self._display = display
        self._begin = time.monotonic()
        self.finished_rounds = 0
        self.document = {
            "schema_version": SCHEMA_VERSION, "status": "incomplete",
            "reason": "the run has not ended, or was killed",
            "started": datetime.now(UTC).isoformat(timespec="seconds"), "seconds": 0.0,
            "options": options.document(), "environment": {}, "warnings": [], "skipped": [],
            "scenarios": [],
        }

    def measure(self) -> None:
        """Run all scenarios. Raises what stops it; finished rounds are on disk by then."""
        with Twins() as twins:
            for name, where in self._options.twins.items():
                twins.add(name, where, self._interruption)
            twins.check_source(environment.source_hash())
            self.document["environment"] = {
                "revision": environment.revision(), "source": environment.source_hash(),
                "twins": twins.environments}
            for warning in twins.differences():
                self._warn(warning)
            sources = Sources(self._options.data, self._step, self._warn)
            # All of them before anything is measured: what cannot be read is told at once.
            for scenario in self._options.scenarios:
                sources.get(scenario.source)
            for position, scenario in enumerate(self._options.scenarios):
                self._scenario(scenario, twins, sources, position)
        self.document["status"], self.document["reason"] = "complete", None

    def stop(self, reason: str) -> None:
        """Note why the run ended early."""
        self.document["reason"] = reason

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

    def _step(self, title: str) -> images.Progress:
        update = self._display.step(title)

        def progress(done: int, total: int) -> None:
            self._interruption.check()
            update(done, total)

        return progress

    def _candidates(self, scenario: Scenario, twins: Twins, workers: list[int]) -> list[tuple[int, Contestant]]:
        """The scenario's contestants that the twins can measure; notes those that they cannot."""
        ranked, lacking = [], {}
        for rank, c in scenario.contest.candidates(self._options.configs, workers, self._options.quick):
            why = twins.lacks(TWIN[c.config], c.variant)
            if why is None:
                ranked.append((rank, c))
            elif not c.duplicate:
                lacking.setdefault(why, []).append(c.title)
        for why, titles in lacking.items():
            self.skip(f"{scenario.name}: {', '.join(titles)}", why)
        return ranked

    def _scenario(self, scenario: Scenario, twins: Twins, sources: Sources, position: int) -> None:
        options = self._options
        workers = list(options.workers or who.worker_counts(twins.usable_cpus()))
        amount = scenario.amount(options.quick)
        requested = options.batch_size or amount.batch_size
        ranked = self._candidates(scenario, twins, workers)
        if not ranked:
            self.skip(scenario.name, "none of its contestants can be measured here")
            return
        variants = [VARIANTS[c.variant] for _, c in ranked]
        batch_size, warnings = sizing.fit(
            requested, scenario.sample_bytes, max(c.workers for _, c in ranked), PREFETCH_FACTOR,
            any(v.processes for v in variants), twins.memory(), max(v.queued_per_worker for v in variants))
        for warning in warnings:
            self._warn(warning if len(options.scenarios) == 1 else f"{scenario.name}: {warning}")
        paths, dataset = sources.get(scenario.source)
        work = Work(scenario, paths, batch_size, amount.batches_per_worker)
        seed = secrets.randbits(32)
        controller = Controller(work, twins.endpoints, self._display, self._interruption, seed)
        trial_seconds = controller.warm_up([c for _, c in ranked]) * CAUTION
        # Scenarios still to come share what is left of the budget, each as it needs.
        now = time.monotonic()
        left = self._begin + options.budget - REPORT_SECONDS - now
        to_come = [s.share(options.quick) for s in options.scenarios[position:]]
        share = left * to_come[0] / sum(to_come)
        dropped: list[Contestant] = []
        if options.rounds is None:
            kept, dropped = choose(ranked, share, trial_seconds)
            ranked = [(rank, c) for rank, c in ranked if c in kept]
        if dropped:
            self.skip(f"{scenario.name}: {', '.join(c.title for c in dropped)}",
                      f"enough rounds with them would not fit into {options.budget:.0f} s (--budget gives more)")
        entry = {
            "name": scenario.name, "group": scenario.group, "description": scenario.description,
            "sample": scenario.sample, "sample_bytes": scenario.sample_bytes, "dataset": dataset,
            "batch_size": batch_size, "requested_batch_size": requested,
            "batches_per_worker": work.batches_per_worker, "prefetch_factor": PREFETCH_FACTOR, "seed": seed,
            "metrics": list(scenario.metrics),
            "contestants": [{"key": c.key, "title": c.title, **asdict(c)} for _, c in ranked],
            "rounds": [], "analysis": None,
        }
        rounds: list[Round] = []
        contestants = [c for _, c in ranked]
        for finished in controller.rounds(ranked, now + share, trial_seconds, options.rounds):
            rounds.append(finished)
            if len(rounds) == 1:
                self.document["scenarios"].append(entry)
            entry["rounds"].append({
                "number": finished.number, "seconds": round(finished.seconds, 2),
                "trials": [{"contestant": key, **result} for key, result in finished.results.items()]})
            # Comparisons are among those who took part in every round.
            given_up = [c for c in contestants if c.key not in finished.results]
            if given_up:
                contestants = [c for c in contestants if c not in given_up]
                self.skip(f"{scenario.name}: {', '.join(c.title for c in given_up)}",
                          f"given up in round {finished.number}, to fit three rounds into {options.budget:.0f} s")
            entry["analysis"] = statistics.analyse(
                measured(rounds, contestants, scenario.metrics),
                scenario.contest.pairs(contestants), who.duplicates(contestants))
            self.finished_rounds += 1
            self.save()
