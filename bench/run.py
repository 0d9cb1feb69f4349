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
from bench.scenarios import Scenario
from bench.twins import Twins

QUICK_SECONDS = 105.0
DEFAULT_SECONDS = 560.0
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
            paths, dataset = self._images()
            for position, scenario in enumerate(self._options.scenarios):
                self._scenario(scenario, twins, paths, dataset, position)
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

    def _images(self) -> tuple[list[Path], dict]:
        data = self._options.data
        if data is None:
            paths = images.default_images(self._step("generating the images (once)"))
        else:
            paths, found = images.own_images(data.absolute())
            if found > len(paths):
                self._warn(f"only the first {len(paths)} of {found} images of {data} are used")
        resized = images.validate(paths, self._step("checking the images"))
        dataset = {
            "source": "generated" if data is None else "own",
            "directory": str(paths[0].parent if data is None else data.absolute()),
            "images": len(paths), "resized": resized,
            "mean_bytes": round(sum(p.stat().st_size for p in paths) / len(paths)),
            "version": images.VERSION if data is None else None,
        }
        if resized:
            self._warn(f"{resized} of {len(paths)} images have another size: they are resized to 640x408 "
                       "after decoding, in every contestant alike")
        return paths, dataset

    def _scenario(self, scenario: Scenario, twins: Twins, paths: list[Path], dataset: dict,
                  position: int) -> None:
        options = self._options
        workers = list(options.workers or who.worker_counts(twins.usable_cpus()))
        requested = options.batch_size or (scenario.quick_batch_size if options.quick else scenario.batch_size)
        batch_size, warnings = sizing.fit(
            requested, scenario.sample_bytes, max(workers), PREFETCH_FACTOR, True, twins.memory())
        for warning in warnings:
            self._warn(warning)
        work = Work(scenario, [str(p) for p in paths], batch_size,
                    scenario.quick_batches_per_worker if options.quick else scenario.batches_per_worker)
        seed = secrets.randbits(32)
        controller = Controller(work, twins.endpoints, self._display, self._interruption, seed)
        ranked = who.candidates(options.configs, workers, options.quick)
        trial_seconds = controller.warm_up([c for _, c in ranked]) * CAUTION
        # Scenarios still to come share what is left of the budget.
        now = time.monotonic()
        left = self._begin + options.budget - REPORT_SECONDS - now
        share = left / (len(options.scenarios) - position)
        dropped: list[Contestant] = []
        if options.rounds is None:
            kept, dropped = choose(ranked, share, trial_seconds)
            ranked = [(rank, c) for rank, c in ranked if c in kept]
        if dropped:
            self.skip(f"{scenario.name}: {', '.join(c.title for c in dropped)}",
                      f"enough rounds with them would not fit into {options.budget:.0f} s (--budget gives more)")
        entry = {
            "name": scenario.name, "description": scenario.description, "sample": scenario.sample,
            "sample_bytes": scenario.sample_bytes, "dataset": dataset, "batch_size": batch_size,
            "requested_batch_size": requested, "batches_per_worker": work.batches_per_worker,
            "prefetch_factor": PREFETCH_FACTOR, "seed": seed,
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
                measured(rounds, contestants, list(statistics.METRICS)),
                who.pairs(contestants), who.duplicates(contestants))
            self.finished_rounds += 1
            self.save()
