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
from bench.contestants import Contestant
from bench.controller import CaseWork, Controller, Work, WorkDiffers, measured
from bench.disturbance import between, counters, marks
from bench.endpoints import EndpointError, LocalEndpoint
from bench.images import ImageError
from bench.interruption import Interrupted, Interruption
from bench.progress import PlainDisplay, TerminalDisplay, display
from bench.results import write_atomically
from bench.scenario import Scenario
from bench.scenarios import trust
from bench.sources import Sources
from bench.statistics import NO_DIFFERENCE, TOO_FEW
from bench.trials import TrialFailed

DESCRIPTION = """\
Find out on this machine whether the benchmark's verdicts can be trusted: measure the main job (JPEGs decoded with
Pillow, threads and processes) in two places (no difference may be reported in at least 95% of the comparisons) and
with a difference planted in it (it must be found in at least 90%), in the same rounds of eight trials. A trial takes
about as long as one of `./twins bench`, so the 20 runs take an hour or more; what was measured is kept if they are
interrupted.
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

    def count(self, analysis: dict, right: tuple[str, ...]) -> None:
        """Take up the comparisons of a run, whose verdict should be one of `right`."""
        for c in analysis["comparisons"]:
            self.total += 1
            self.ratios.append(c["mean"])
            self.right += c["verdict"] in right
        self.floors.append(analysis["noise_floor"]["throughput"])

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


def run(options: argparse.Namespace, interruption: Interruption, shown: TerminalDisplay | PlainDisplay,
        paths: list[str], seed: int) -> tuple[dict, dict, dict, dict]:
    """One run: (analysis of A against A, of the planted difference, what was measured, disturbance).

    Both were measured in the same rounds and are analysed apart, as if each were a run of its own: beside real
    differences, a p-value's adjustment is less strict. Raises what its trials raise.
    """
    config = "ft" if sysconfig.get_config_var("Py_GIL_DISABLED") else "gil"
    scenario = trust.scenario(config, options.percent)
    amount = scenario.amount(options.quick)
    work = Work(scenario, {case.name: CaseWork(paths, amount.batch_size, amount.batches_per_worker)
                           for case in scenario.cases})
    endpoint = LocalEndpoint(Path(sys.executable), interruption)
    ranked = scenario.contest.candidates((config,), who.worker_counts(environment.cpu()["usable"]), quick=False)
    contestants = [c for _, c in ranked]
    controller = Controller(work, {config: endpoint}, shown, interruption, seed)
    before = counters()
    rounds = list(controller.rounds(ranked, time.monotonic(), 3.0, options.rounds))
    values = measured(rounds, contestants, scenario.metrics)
    return *(analyse(values, scenario, contestants, of) for of in ("b", "more")), values, between(before, counters())


def analyse(values: dict[str, dict[str, list[float]]], scenario: Scenario, contestants: list[Contestant],
            case: str) -> dict:
    """The analysis of what compares this case with A; the noise floor is that of all equal ones."""
    of = {c.key: c.case for c in contestants}
    pairs = [pair for pair in scenario.contest.pairs(contestants) if of[pair.numerator] == case]
    return statistics.analyse(values, pairs, who.duplicates(contestants))


def images(interruption: Interruption, shown: TerminalDisplay | PlainDisplay) -> list[str]:
    """The images of the main job; raises bench.images.ImageError."""
    def step(title: str):
        update = shown.step(title)

        def progress(done: int, total: int) -> None:
            interruption.check()
            update(done, total)

        return progress

    return Sources(None, step, shown.note).get(trust.SCENARIO.source)[0]


def measure(options: argparse.Namespace, interruption: Interruption, shown: TerminalDisplay | PlainDisplay,
            kept: list[dict]) -> list[Tally]:
    """All runs; the tallies are complete as far as they go, whatever stops them: it is raised with them.

    What each run has measured is appended to `kept`.
    """
    tallies = [Tally("A against A, no difference reported", NO_DIFFERENCE_WANTED),
               Tally(f"{options.percent}% more work, found", FOUND_WANTED)]
    try:
        paths = images(interruption, shown)
        for number in range(options.runs):
            *analyses, values, disturbed = run(options, interruption, shown, paths, number)
            kept.append({**values, "disturbance": disturbed})
            for tally, right, analysis in zip(
                    tallies, ((NO_DIFFERENCE, TOO_FEW), ("slower",)), analyses, strict=True):
                tally.count(analysis, right)
                if disturbed["other_cpus"] is not None:
                    tally.other_cpus.append(disturbed["other_cpus"])
            said = "; ".join(marks(disturbed, environment.cpu()["usable"]))
            shown.note(f"run {number + 1} of {options.runs}: {'; '.join(tally.line() for tally in tallies)}"
                       + (f" (disturbed: {said})" if said else ""))
    except (ImageError, Interrupted, TrialFailed, WorkDiffers, EndpointError) as error:
        error.tallies = tallies
        raise
    return tallies


def setup() -> str:
    """What it ran on, in a line."""
    python, cpu = environment.interpreter(), environment.cpu()
    return (f"{cpu['model']}, {cpu['usable']} of {cpu['count']} CPUs; Python {python['version']} ({python['twin']}, "
            f"{python['build']}); revision {environment.revision()['commit'][:12]}")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    options = parser().parse_args(arguments)
    status, kept = 0, []
    with Interruption() as interruption:
        try:
            with display() as shown:
                tallies = measure(options, interruption, shown, kept)
        except (ImageError, Interrupted, TrialFailed, WorkDiffers, EndpointError) as error:
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
                   "tallies": [{**vars(t), "share": t.share} for t in tallies], "runs": kept}
        try:
            write_atomically(options.out, (json.dumps(content, indent=1) + "\n").encode())
        except OSError as error:
            print(f"bench.trust: cannot write {options.out}: {error.strerror or error}", file=sys.stderr)
            return status or 1
    return status or int(any(t.share < t.wanted for t in tallies))


if __name__ == "__main__":
    sys.exit(main())
