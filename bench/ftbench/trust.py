"""``python -m ftbench.trust``: does the suite find differences that are there, and none that are not?

Real runs on this machine, planned and stopped as every run is: A, A again, and A with more work planted, which must
be found. What came of it is in docs/method.md; tests/unit/bench/test_trust.py is the same on simulated figures.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ftbench.data.images import ImageError
from ftbench.data.sources import Sources
from ftbench.document.results import write_atomically
from ftbench.machine.disturbance import between, counters, marks
from ftbench.plan import contestants as who
from ftbench.plan import sizing
from ftbench.plan.contestants import Pair
from ftbench.plan.metrics import METRICS
from ftbench.rounds.controller import Controller, WorkDiffers
from ftbench.rounds.endpoints import LocalEndpoint
from ftbench.rounds.progress import Display
from ftbench.rounds.run import CAUTION
from ftbench.rounds.trials import TrialFailed
from ftbench.rounds.work import CaseWork, Work
from ftbench.scenarios import trust as planted
from ftbench.stats import allocation, statistics, waterfall
from ftbench.stats.statistics import NO_DIFFERENCE, Ratio
from ftrun import environment
from ftrun.interruption import Interrupted, Interruption
from ftrun.twin import TwinError

DESCRIPTION = """\
Find out on this machine whether the benchmark's verdicts can be trusted: measure decoding with Pillow (threads and
processes) in two places, of which no difference may be reported in at least 95% of the comparisons, and with more work
planted in a third, which must be found in at least 90%. A run is planned as one of `./twins bench` is, has as much
time for each of its six contestants as --quick has, and stops as early. From the processes of all runs together it
tells what longer runs find. Interrupt it whenever you like: all finished rounds count.
"""

NO_DIFFERENCE_WANTED, FOUND_WANTED = 0.95, 0.90
# A quick run has 150 s for each workload and its five contestants; here are six.
SECONDS = 180
# Numbers of rounds to draw from all that were measured, and how often. Of more than half of them one draw would be
# much like the next.
DRAWN = (3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
DRAWS = 400
# What A again is made slower by where rounds are drawn, in percent: differences that nobody had to plant.
SUPPOSED = (6, 10, 15)
# Busy for such times, a random one each (s); the pauses between them make the share that was asked for.
BURSTS = (0.05, 1.0)
LOAD = """
import os, random, sys, time
share, parent, least, most = float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
while os.getppid() == parent:
    burst = random.uniform(least, most)
    end = time.monotonic() + burst
    while time.monotonic() < end:
        pass
    time.sleep(burst * (1 - share) / share)
"""


@dataclass
class Tally:
    """What some runs have said. Owned by the main thread."""

    title: str
    wanted: float
    right: int = 0
    total: int = 0
    covered: int = 0
    """Of the comparisons, those whose interval holds the true ratio."""
    ratios: list[float] = field(default_factory=list)

    def count(self, r: Ratio, right: str, truth: float) -> None:
        """Take up a comparison, whose verdict should be `right` and whose ratio is `truth`."""
        self.total += 1
        self.ratios.append(r.mean)
        self.right += statistics.verdict(r, METRICS["throughput"]) == right
        self.covered += r.low is not None and r.high is not None and r.low <= truth <= r.high

    @property
    def share(self) -> float:
        """Of the comparisons, those with the right verdict."""
        return self.right / self.total if self.total else 0.0

    def line(self) -> str:
        """The outcome in a sentence."""
        if not self.total:
            return f"{self.title}: no run was finished"
        state = "as wanted" if self.share >= self.wanted else "too few"
        return (
            f"{self.title}: {self.right} of {self.total} comparisons ({self.share:.1%}; wanted at least "
            f"{self.wanted:.0%}: {state}); intervals hold the truth in {self.covered / self.total:.1%}; ratios "
            f"{min(self.ratios):.3f} to {max(self.ratios):.3f}"
        )


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(
        prog="python -m ftbench.trust",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit status: 0 both as wanted, 1 not, 2 wrong usage, 130 or 143 interrupted.",
    )
    add = result.add_argument
    add("--runs", type=_number(1, 1000), default=20, metavar="N", help="how many (default: %(default)s)")
    add("--seconds", type=_number(10, 86400), default=SECONDS, metavar="S", help="of a run (default: %(default)s)")
    add(
        "--percent",
        type=_number(planted.STEP, 1000, planted.STEP),
        default=15,
        metavar="P",
        help=f"the planted difference, a multiple of {planted.STEP} (default: %(default)s)",
    )
    add("--load", type=_share, metavar="CPUS", help="keep so much of a CPU busy meanwhile, in bursts (0.3, say)")
    add("--out", type=Path, metavar="FILE", help="write the figures there, as JSON")
    return result


def _number(least: int, most: int, step: int = 1):
    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most or int(text) % step:
            what = "whole number" if step == 1 else f"multiple of {step}"
            raise argparse.ArgumentTypeError(f"{text!r} is not a {what} from {least} to {most}")
        return int(text)

    return parse


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.01 <= value <= 0.99:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0.01 to 0.99")
    return value


@contextlib.contextmanager
def load(share: float | None) -> Iterator[None]:
    """Keep this share of a CPU busy meanwhile, in bursts; None for nothing. The process ends with this one."""
    if share is None:
        yield
        return
    bursts = subprocess.Popen([sys.executable, "-c", LOAD, str(share), str(os.getpid()), *map(str, BURSTS)])
    try:
        yield
    finally:
        bursts.kill()
        bursts.wait()


class Trust:
    """The trials and their judgement. Owned by the main thread."""

    def __init__(self, percent: int, config: str, usable_cpus: int):
        self._percent = percent
        self._config = config
        self._usable_cpus = usable_cpus
        self._scenario = planted.scenario(config, percent)
        of_config = self._scenario.contest.candidates((config,), who.worker_counts(usable_cpus), quick=False)
        self.contestants = [c for _, c in of_config]
        of = {c.key: c.case for c in self.contestants}
        pairs = self._scenario.contest.pairs(self.contestants)
        self._same, self._more = ([p for p in pairs if of[p.numerator] == case] for case in ("b", "more"))

    def run(
        self, seconds: float, paths: list[str], interruption: Interruption, shown: Display, seed: int
    ) -> Iterator[dict[str, dict]]:
        """Measure for so long, as ftbench.rounds.run does; yields rounds, each with results by contestant.

        Raises what trials raise.
        """
        begin = time.monotonic()
        amount = self._scenario.amount(quick=True)
        each = CaseWork(paths, amount.batch_size, amount.batches_per_worker, amount.turns, self._scenario.sample_bytes)
        work = Work(
            self._scenario,
            {case.name: each for case in self._scenario.cases},
            sizing.room({self._config: environment.memory()}),
        )
        endpoint = LocalEndpoint(Path(sys.executable), interruption)
        controller = Controller(work, {self._config: endpoint}, shown, interruption, seed)
        costs = controller.warm_up(self.contestants)
        at_once = min(self._usable_cpus, len(self.contestants))
        left = begin + seconds - time.monotonic()
        turns = allocation.turns(left / CAUTION, len(self.contestants), costs, at_once)
        controller.work = work.with_turns(turns)
        done: list[Mapping[str, float]] = []

        def enough() -> bool:
            if len(done) < waterfall.FEWEST_TO_STOP:
                return False
            found = [self._ratio(done, pair) for pair in (*self._same, *self._more)]
            widths = [math.log(r.high / r.low) / 2 for r in found if r.high and r.low]
            return max(widths) <= math.log1p(waterfall.PRECISION)

        trial_seconds = costs.trial(turns, at_once) * CAUTION
        # All of them are of the first rank: none is given up where time is short.
        ranked = [(0, contestant) for contestant in self.contestants]
        for finished in controller.rounds(ranked, begin + seconds, trial_seconds, None, enough):
            done.append(throughput(finished.results))
            yield finished.results

    @staticmethod
    def _ratio(rounds: Sequence[Mapping[str, float]], pair: Pair) -> Ratio:
        return statistics.ratio([each[pair.numerator] for each in rounds], [each[pair.denominator] for each in rounds])

    def tallies(self) -> tuple[Tally, Tally]:
        """New tallies, for `judge`."""
        return (
            Tally("A against A, no difference reported", NO_DIFFERENCE_WANTED),
            Tally(f"{self._percent}% more work, found", FOUND_WANTED),
        )

    def judge(self, rounds: Sequence[Mapping[str, float]], tallies: tuple[Tally, Tally]) -> None:
        """Count what a run of these rounds (throughput by contestant) says. Each comparison is a question asked."""
        same, more = tallies
        for pair in self._same:
            same.count(self._ratio(rounds, pair), NO_DIFFERENCE, 1.0)
        for pair in self._more:
            more.count(self._ratio(rounds, pair), "slower", 100 / (100 + self._percent))

    def suppose(self, rounds: Sequence[Mapping[str, float]], tallies: Mapping[int, Tally]) -> None:
        """Count what they would say if A again were slower by the keys of `tallies` (percent more work)."""
        for percent, tally in tallies.items():
            truth = 100 / (100 + percent)
            for pair in self._same:
                slower = [{**each, pair.numerator: each[pair.numerator] * truth} for each in rounds]
                tally.count(self._ratio(slower, pair), "slower", truth)

    def drawn(self, rounds: Sequence[Mapping[str, float]]) -> list[tuple[int, list[Tally]]]:
        """(number, tallies): what runs of so many rounds would have said, drawn from these (seeded).

        The tallies are those of `judge`, and one for each of SUPPOSED.
        """
        found = []
        for number in DRAWN:
            if 2 * number <= len(rounds):
                rng, tallies = random.Random(number), self.tallies()
                supposed = {percent: Tally(f"{percent}% found", FOUND_WANTED) for percent in SUPPOSED}
                for _ in range(DRAWS):
                    of_run = rng.sample(rounds, number)
                    self.judge(of_run, tallies)
                    self.suppose(of_run, supposed)
                found.append((number, [*tallies, *supposed.values()]))
        return found


def throughput(results: Mapping[str, Mapping]) -> dict[str, float]:
    """samples/s by contestant of a round."""
    return {key: result["metrics"]["throughput"] for key, result in results.items()}


@dataclass
class Kept:
    """The rounds of a run. Owned by the main thread."""

    rounds: list[dict[str, float]] = field(default_factory=list)
    """samples/s by contestant: what a process contributes."""
    turns: list[dict[str, list[float]]] = field(default_factory=list)
    """Seconds of its turns, with what was planted in them."""
    disturbed: list[str] = field(default_factory=list)


def measure(
    trust: Trust,
    options: argparse.Namespace,
    interruption: Interruption,
    shown: Display,
    tallies: tuple[Tally, Tally],
    kept: list[Kept],
) -> None:
    """All runs; `kept` and `tallies` are complete as far as they go, whatever stops them.

    Raises ftbench.data.images.ImageError besides what trials raise.
    """
    sources = Sources(None, lambda title: interruption.checked(shown.step(title)), shown.note)
    paths, _ = sources.get(planted.SCENARIO.source)
    usable = environment.cpu()["usable"]
    for number in range(options.runs):
        before = counters()
        run = Kept()
        kept.append(run)
        for results in trust.run(options.seconds, paths, interruption, shown, number):
            run.rounds.append(throughput(results))
            run.turns.append({key: [round(s, 5) for s in each["turn_seconds"]] for key, each in results.items()})
        run.disturbed = list(marks(between(before, counters()), usable))
        trust.judge(run.rounds, tallies)
        said = f" (disturbed: {'; '.join(run.disturbed)})" if run.disturbed else ""
        shown.note(f"run {number + 1} of {options.runs}: {'; '.join(tally.line() for tally in tallies)}{said}")


def setup() -> str:
    """What it ran on, in a line."""
    python, cpu = environment.interpreter(), environment.cpu()
    return (
        f"{cpu['model']}, {cpu['usable']} of {cpu['count']} CPUs; Python {python['version']} ({python['twin']}, "
        f"{python['build']}); revision {environment.revision()['commit'][:12]}"
    )


def report(trust: Trust, options: argparse.Namespace, tallies: tuple[Tally, Tally], kept: Sequence[Kept]) -> dict:
    """Print the outcome; returns it for --out."""
    where = setup()
    rounds = list(itertools.chain.from_iterable(run.rounds for run in kept))
    print(where)
    numbers = [len(run.rounds) for run in kept] or [0]
    print(f"{options.seconds} s a run: {min(numbers)} to {max(numbers)} rounds")
    for tally in tallies:
        print(tally.line())
    drawn = trust.drawn(rounds)
    if drawn:
        table = Table(
            "rounds a run",
            *(tally.title for tally in drawn[0][1]),
            title=f"Of {len(rounds)} rounds measured, so many drawn {DRAWS} times",
            title_justify="left",
        )
        for number, said in drawn:
            table.add_row(
                str(number), *(f"{tally.share:.1%}, interval right {tally.covered / tally.total:.1%}" for tally in said)
            )
        Console().print(table)
    return {
        "setup": where,
        "seconds_a_run": options.seconds,
        "percent": options.percent,
        "load": options.load,
        "tallies": [{**asdict(tally), "share": tally.share} for tally in tallies],
        "drawn": [
            {"rounds": number, "tallies": {t.title: {"share": t.share, "covered": t.covered / t.total} for t in said}}
            for number, said in drawn
        ],
        "runs": [asdict(run) for run in kept],
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    options = parser().parse_args(arguments)
    trust = Trust(options.percent, environment.interpreter()["twin"], environment.cpu()["usable"])
    kept: list[Kept] = []
    tallies, status = trust.tallies(), 0
    with Interruption() as interruption:
        try:
            with Display() as shown, load(options.load):
                measure(trust, options, interruption, shown, tallies, kept)
        except (ImageError, Interrupted, TrialFailed, WorkDiffers, TwinError) as error:
            status = error.exit_status if isinstance(error, Interrupted) else 1
            print(f"ftbench.trust: stopped: {error}", file=sys.stderr)
    content = report(trust, options, tallies, kept)
    if options.out:
        try:
            write_atomically(options.out, (json.dumps(content) + "\n").encode())
        except OSError as error:
            print(f"ftbench.trust: cannot write {options.out}: {error.strerror or error}", file=sys.stderr)
            return status or 1
    return status or int(any(t.share < t.wanted for t in tallies))


if __name__ == "__main__":
    sys.exit(main())
