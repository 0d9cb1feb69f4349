"""``python -m bench.trust``: does the suite find differences that are there, and none that are not?

Real trials on this machine, with the rounds, the statistics and the verdicts of every run: some runs of A
against A, which must report no difference, and some with a difference planted, which must be found. What
came of it is in docs/method.md; tests/unit/bench/test_trust.py is the same on simulated figures.
"""

from __future__ import annotations

import argparse
import json
import sys
import sysconfig
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench import contestants as who
from bench import environment, statistics
from bench.controller import CaseWork, Controller, Work, WorkDiffers, measured
from bench.disturbance import between, counters, marks
from bench.endpoints import EndpointError, LocalEndpoint
from bench.interruption import Interrupted, Interruption
from bench.progress import PlainDisplay, TerminalDisplay, display
from bench.results import write_atomically
from bench.scenarios import trust
from bench.statistics import NO_DIFFERENCE, TOO_FEW
from bench.trials import TrialFailed

DESCRIPTION = """\
Find out on this machine whether the benchmark's verdicts can be trusted: measure the same work in two
places (no difference may be reported in at least 95% of the comparisons) and work with a difference
planted in it (it must be found in at least 90%). Both take a while: about three seconds a trial, ten
trials a round.
"""

NO_DIFFERENCE_WANTED, FOUND_WANTED = 0.95, 0.90


@dataclass
class Tally:
    """What some runs have said. Owned by the main thread."""

    title: str
    wanted: float
    right: int = 0
    total: int = 0
    ratios: list[float] = field(default_factory=list)
    floors: list[float] = field(default_factory=list)
    other_cpus: list[float] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Of the comparisons, those with the right verdict."""
        return self.right / self.total if self.total else 0.0

    def line(self) -> str:
        """The outcome in a sentence."""
        if not self.total:
            return f"{self.title}: no run was finished"
        state = "as wanted" if self.share >= self.wanted else "too few"
        return (f"{self.title}: {self.right} of {self.total} comparisons ({self.share:.1%}; wanted at least "
                f"{self.wanted:.0%}: {state}); ratios {min(self.ratios):.3f} to {max(self.ratios):.3f}")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(
        prog="python -m bench.trust", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit status: 0 both as wanted, 1 not, 2 wrong usage, 130 or 143 interrupted.")
    add = result.add_argument
    add("--runs", type=_number(1, 1000), default=20, metavar="N", help="runs of each kind (default: %(default)s)")
    add("--rounds", type=_number(statistics.FEWEST_ROUNDS, 100), default=5, metavar="N",
        help="rounds a run (default: %(default)s)")
    add("--percent", type=_number(1, 1000), default=10, metavar="P",
        help="the planted difference (default: %(default)s)")
    add("--quick", action="store_true", help="shorter trials")
    add("--out", type=Path, metavar="FILE", help="write the figures there, as JSON")
    return result


def _number(least: int, most: int):
    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return int(text)

    return parse


def run(percent: float, options: argparse.Namespace, interruption: Interruption,
        shown: TerminalDisplay | PlainDisplay, seed: int) -> tuple[dict, dict]:
    """(analysis, disturbance) of one run; raises what its trials raise."""
    config = "ft" if sysconfig.get_config_var("Py_GIL_DISABLED") else "gil"
    workers = tuple(who.worker_counts(environment.cpu()["usable"])[:2])
    scenario = trust.scenario(config, percent, workers)
    amount = scenario.amount(options.quick)
    work = Work(scenario, {case.name: CaseWork([], amount.batch_size, amount.batches_per_worker)
                           for case in scenario.cases})
    endpoint = LocalEndpoint(Path(sys.executable), interruption)
    ranked = scenario.contest.candidates((config,), workers, quick=False)
    contestants = [c for _, c in ranked]
    controller = Controller(work, {config: endpoint}, shown, interruption, seed)
    before = counters()
    rounds = list(controller.rounds(ranked, time.monotonic(), 3.0, options.rounds))
    analysis = statistics.analyse(measured(rounds, contestants, scenario.metrics), scenario.contest.pairs(contestants),
                                  who.duplicates(contestants))
    return analysis, between(before, counters())


def measure(options: argparse.Namespace, interruption: Interruption,
            shown: TerminalDisplay | PlainDisplay) -> list[Tally]:
    """All runs; the tallies are complete as far as they go, whatever stops them: it is raised with them."""
    same = Tally("A against A, no difference reported", NO_DIFFERENCE_WANTED)
    planted = Tally(f"{options.percent:g}% more work, found", FOUND_WANTED)
    tallies = [same, planted]
    for number in range(options.runs):
        for tally, percent in ((same, 0.0), (planted, options.percent)):
            try:
                analysis, disturbed = run(percent, options, interruption, shown, 2 * number + bool(percent))
            except (Interrupted, TrialFailed, WorkDiffers, EndpointError) as error:
                error.tallies = tallies
                raise
            for c in analysis["comparisons"]:
                tally.total += 1
                tally.ratios.append(c["mean"])
                wanted = (NO_DIFFERENCE, TOO_FEW) if not percent else ("slower",)
                tally.right += c["verdict"] in wanted
            tally.floors.append(analysis["noise_floor"]["throughput"])
            if disturbed["other_cpus"] is not None:
                tally.other_cpus.append(disturbed["other_cpus"])
            said = "; ".join(marks(disturbed, environment.cpu()["usable"]))
            shown.note(f"run {number + 1} of {options.runs}: {tally.line()}"
                       + (f" (disturbed: {said})" if said else ""))
    return tallies


def setup() -> str:
    """What it ran on, in a line."""
    python, cpu = environment.interpreter(), environment.cpu()
    return (f"{cpu['model']}, {cpu['usable']} of {cpu['count']} CPUs; Python {python['version']} ({python['twin']}, "
            f"{python['build']}); revision {environment.revision()['commit'][:12]}")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    options = parser().parse_args(arguments)
    status = 0
    with Interruption() as interruption:
        try:
            with display() as shown:
                tallies = measure(options, interruption, shown)
        except (Interrupted, TrialFailed, WorkDiffers, EndpointError) as error:
            tallies = error.tallies
            status = error.exit_status if isinstance(error, Interrupted) else 1
            print(f"bench.trust: stopped: {error}", file=sys.stderr)
    print(setup())
    print(f"{options.rounds} rounds a run, {'short' if options.quick else 'full'} trials")
    for tally in tallies:
        print(tally.line())
        if tally.floors:
            print(f"  noise floors {min(tally.floors):.3f} to {max(tally.floors):.3f}"
                  + (f", other processes used {max(tally.other_cpus):.2f} CPUs at most" if tally.other_cpus else ""))
    if options.out:
        content = {"setup": setup(), "rounds": options.rounds, "percent": options.percent,
                   "tallies": [{**vars(t), "share": t.share} for t in tallies]}
        try:
            write_atomically(options.out, (json.dumps(content, indent=1) + "\n").encode())
        except OSError as error:
            print(f"bench.trust: cannot write {options.out}: {error.strerror or error}", file=sys.stderr)
            return status or 1
    return status or int(any(t.share < t.wanted for t in tallies))


if __name__ == "__main__":
    sys.exit(main())
