"""``python -m ftbench.trust``: does the suite find differences that are there, and none that are not?

Real trials on this machine, with the rounds, the statistics and the verdicts of every run: some runs of A
against A, which must report no difference, and some with a difference planted, which must be found. What
came of it is in docs/method.md; tests/unit/bench/test_trust.py is the same on simulated figures.
"""

from __future__ import annotations

import argparse
import json
import random
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
from ftbench.rounds.controller import CaseWork, Controller, Work, WorkDiffers
from ftbench.rounds.endpoints import LocalEndpoint
from ftbench.rounds.progress import PlainDisplay, TerminalDisplay, display
from ftbench.rounds.trials import TrialFailed
from ftbench.scenarios import trust as planted
from ftbench.stats import statistics
from ftbench.stats.statistics import NO_DIFFERENCE
from ftrun import environment
from ftrun.interruption import Interrupted, Interruption
from ftrun.twin import TwinError

DESCRIPTION = """\
Find out on this machine whether the benchmark's verdicts can be trusted: measure the main job (JPEGs decoded with
Pillow, threads and processes) in two places (no difference may be reported in at least 95% of the comparisons) and
with 10% more to load in one of them (which must be found in at least 90%), in the same rounds of six trials. A trial
takes about as long as one of `./twins bench`, so the 20 runs take hours; interrupt them whenever you like: all
finished rounds count. From them it also tells how many rounds find such a difference on this machine.
"""

NO_DIFFERENCE_WANTED, FOUND_WANTED = 0.95, 0.90
# Numbers of rounds to draw from all that were measured, and how often. Of more than half of them one draw would be
# much like the next.
DRAWN = (3, 4, 5, 8, 12, 16, 24, 32, 48, 64)
DRAWS = 200
# Until a round has shown how long they take.
TRIAL_SECONDS = 12.0


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

    def count(self, analysis: dict, right: str, truth: float) -> None:
        """Take up the comparisons of a run, whose verdict should be `right` and whose ratio is `truth`."""
        for c in analysis["comparisons"]:
            self.total += 1
            self.ratios.append(c["mean"])
            self.right += c["verdict"] == right
            self.covered += c["low"] <= truth <= c["high"]

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
    add("--runs", type=_number(1, 1000), default=20, metavar="N", help="runs of each kind (default: %(default)s)")
    add(
        "--rounds",
        type=_number(statistics.FEWEST_ROUNDS, 100),
        default=8,
        metavar="N",
        help="rounds a run (default: %(default)s)",
    )
    add(
        "--percent",
        type=_number(planted.STEP, 1000, planted.STEP),
        default=10,
        metavar="P",
        help=f"the planted difference, a multiple of {planted.STEP} (default: %(default)s)",
    )
    add("--quick", action="store_true", help="shorter trials")
    add("--out", type=Path, metavar="FILE", help="write the figures there, as JSON")
    return result


def _number(least: int, most: int, step: int = 1):
    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most or int(text) % step:
            what = "whole number" if step == 1 else f"multiple of {step}"
            raise argparse.ArgumentTypeError(f"{text!r} is not a {what} from {least} to {most}")
        return int(text)

    return parse


class Trust:
    """The trials and their judgement. Owned by the main thread."""

    def __init__(self, percent: int, config: str, usable_cpus: int):
        self._percent = percent
        self._config = config
        self._scenario = planted.scenario(config, percent)
        self._ranked = self._scenario.contest.candidates((config,), who.worker_counts(usable_cpus), quick=False)
        self.contestants = [c for _, c in self._ranked]
        self._trial_seconds = TRIAL_SECONDS

    def rounds(
        self,
        number: int,
        quick: bool,
        paths: list[str],
        interruption: Interruption,
        shown: TerminalDisplay | PlainDisplay,
        seed: int,
    ) -> Iterator[dict[str, float]]:
        """Measure `number` rounds; yields throughput (samples/s) by contestant. Raises what trials raise."""
        amount = self._scenario.amount(quick)
        each = CaseWork(paths, amount.batch_size, amount.batches_per_worker, amount.turns, self._scenario.sample_bytes)
        work = Work(
            self._scenario,
            {case.name: each for case in self._scenario.cases},
            sizing.room({self._config: environment.memory()}),
        )
        endpoint = LocalEndpoint(Path(sys.executable), interruption)
        controller = Controller(work, {self._config: endpoint}, shown, interruption, seed)
        for finished in controller.rounds(self._ranked, time.monotonic(), self._trial_seconds, number):
            self._trial_seconds = finished.seconds / len(self.contestants)
            yield {key: result["metrics"]["throughput"] for key, result in finished.results.items()}

    def tallies(self) -> tuple[Tally, Tally]:
        """New tallies, for `judge`."""
        return (
            Tally("A against A, no difference reported", NO_DIFFERENCE_WANTED),
            Tally(f"{self._percent}% more work, found", FOUND_WANTED),
        )

    def judge(self, rounds: Sequence[Mapping[str, float]], tallies: tuple[Tally, Tally]) -> None:
        """Count what a run of these rounds says.

        A against A and what was planted are analysed apart, as if each had been a run of its own: beside real
        differences the adjustment of p-values is less strict.
        """
        values = {"throughput": {c.key: [each[c.key] for each in rounds] for c in self.contestants}}
        of = {c.key: c.case for c in self.contestants}
        pairs = self._scenario.contest.pairs(self.contestants)
        expected = (("b", NO_DIFFERENCE, 1.0), ("more", "slower", 100 / (100 + self._percent)))
        for tally, (case, right, truth) in zip(tallies, expected, strict=True):
            compared = [pair for pair in pairs if of[pair.numerator] == case]
            tally.count(statistics.analyse(values, compared), right, truth)

    def drawn(self, rounds: Sequence[Mapping[str, float]]) -> list[tuple[int, Tally, Tally]]:
        """(number, tallies): what runs of so many rounds would have said, drawn from these (seeded)."""
        found = []
        for number in DRAWN:
            if 2 * number <= len(rounds):
                rng, tallies = random.Random(number), self.tallies()
                for _ in range(DRAWS):
                    self.judge(rng.sample(rounds, number), tallies)
                found.append((number, *tallies))
        return found


def measure(
    trust: Trust,
    options: argparse.Namespace,
    interruption: Interruption,
    shown: TerminalDisplay | PlainDisplay,
    tallies: tuple[Tally, Tally],
    kept: list[dict[str, float]],
) -> None:
    """All runs; `kept` rounds and `tallies` are complete as far as they go, whatever stops them.

    Raises ftbench.data.images.ImageError besides what trials raise.
    """
    sources = Sources(None, lambda title: interruption.checked(shown.step(title)), shown.note)
    paths, _ = sources.get(planted.SCENARIO.source)
    usable = environment.cpu()["usable"]
    for number in range(options.runs):
        before, first = counters(), len(kept)
        for finished in trust.rounds(options.rounds, options.quick, paths, interruption, shown, number):
            kept.append(finished)
        disturbed = between(before, counters())
        trust.judge(kept[first:], tallies)
        said = "; ".join(marks(disturbed, usable))
        shown.note(
            f"run {number + 1} of {options.runs}: {'; '.join(tally.line() for tally in tallies)}"
            + (f" (disturbed: {said})" if said else "")
        )


def setup() -> str:
    """What it ran on, in a line."""
    python, cpu = environment.interpreter(), environment.cpu()
    return (
        f"{cpu['model']}, {cpu['usable']} of {cpu['count']} CPUs; Python {python['version']} ({python['twin']}, "
        f"{python['build']}); revision {environment.revision()['commit'][:12]}"
    )


def report(
    trust: Trust, options: argparse.Namespace, tallies: tuple[Tally, Tally], rounds: Sequence[Mapping[str, float]]
) -> dict:
    """Print the outcome; returns it for --out."""
    where = setup()
    print(where)
    print(f"{options.rounds} rounds a run, {'short' if options.quick else 'full'} trials")
    for tally in tallies:
        print(tally.line())
    drawn = trust.drawn(rounds)
    if drawn:
        table = Table(
            "rounds a run",
            *(tally.title for tally in tallies),
            title=f"Of {len(rounds)} rounds measured, so many drawn {DRAWS} times",
            title_justify="left",
        )
        for number, *said in drawn:
            table.add_row(
                str(number), *(f"{tally.share:.1%}, interval right {tally.covered / tally.total:.1%}" for tally in said)
            )
        Console().print(table)
    return {
        "setup": where,
        "rounds_a_run": options.rounds,
        "percent": options.percent,
        "quick": options.quick,
        "tallies": [{**asdict(tally), "share": tally.share} for tally in tallies],
        "drawn": [
            {
                "rounds": number,
                "shares": [tally.share for tally in said],
                "covered": [tally.covered / tally.total for tally in said],
            }
            for number, *said in drawn
        ],
        "throughput": rounds,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    options = parser().parse_args(arguments)
    trust = Trust(options.percent, environment.interpreter()["twin"], environment.cpu()["usable"])
    kept: list[dict[str, float]] = []
    tallies, status = trust.tallies(), 0
    with Interruption() as interruption:
        try:
            with display() as shown:
                measure(trust, options, interruption, shown, tallies, kept)
        except (ImageError, Interrupted, TrialFailed, WorkDiffers, TwinError) as error:
            status = error.exit_status if isinstance(error, Interrupted) else 1
            print(f"ftbench.trust: stopped: {error}", file=sys.stderr)
    content = report(trust, options, tallies, kept)
    if options.out:
        try:
            write_atomically(options.out, (json.dumps(content, indent=1) + "\n").encode())
        except OSError as error:
            print(f"ftbench.trust: cannot write {options.out}: {error.strerror or error}", file=sys.stderr)
            return status or 1
    return status or int(any(t.share < t.wanted for t in tallies))


if __name__ == "__main__":
    sys.exit(main())
