"""``python -m evaluation.trust.measure``: does the benchmark find planted differences,
and no others?

Real runs on this machine, planned and stopped as every run is, measure A, A again, and A with more
work planted, which must be found. docs/method.md has the results; tests/unit/bench/test_verdicts.py
does the same on simulated figures.
"""

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
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from evaluation.trust import planted
from evaluation.trust.variation import PATTERNS
from ftbench.data.images import ImageError
from ftbench.data.sources import Sources
from ftbench.document.convert import from_json
from ftbench.document.model import Options, Results, Verdict
from ftbench.document.store import write_atomically
from ftbench.machine.disturbance import Disturbance, between, counters, marks
from ftbench.plan.candidates import Pair
from ftbench.plan.metrics import METRICS
from ftbench.plan.sizing import DoesNotFit
from ftbench.plan.waterfall import PRECISION
from ftbench.rounds.controller import WorkDiffers
from ftbench.rounds.measurement import Measurement
from ftbench.rounds.progress import Display
from ftbench.rounds.twins import Twins
from ftbench.stats import statistics, turns, waterfall
from ftbench.stats.statistics import Ratio
from ftbench.trial.process import TrialFailed
from ftrun import environment
from ftrun.errors import Interrupted, TwinError
from ftrun.interruption import Interruption
from ftrun.options import number

DESCRIPTION = """\
Find out on this machine whether the benchmark's verdicts can be trusted. It measures a case of a scenario (threads and
processes) twice, and a third time with more work planted; inside a process, where the scenario does so. Between the
first two, at least 95% of the comparisons must report no difference; the planted one must be found in at least 90%. A
run is planned like one of `./twins bench`, with the time that --quick has for each candidate, and stops as early. The
rounds of all runs together show what longer runs find. Interrupt it whenever you like: all finished rounds count.
"""

# Trials import the planted scenario from here.
ROOT = Path(__file__).resolve().parents[2]
NO_DIFFERENCE_WANTED, FOUND_WANTED = 0.95, 0.90
# Numbers of rounds to draw from all measured ones, and how often. Draws of more than half of them
# would be too alike.
DRAWN = (3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
DRAWS = 400
# Percentages by which drawn rounds of A again are slowed: differences that need not be planted.
SUPPOSED = (6, 10, 15)
# Range of the random lengths of bursts of load (s). The pauses in between make the share of a CPU.
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
# Fields of a tally that --out keeps.
WRITTEN = ("title", "wanted", "right", "total", "covered", "ratios", "share")


class Measured(NamedTuple):
    """What a round measured, by candidate."""

    figures: Mapping[str, float]
    """The scenario's main metric: a process's contribution to a round."""
    turns: Mapping[str, Sequence[Sequence[float]]] = {}
    """The turns that count (ftbench.stats.turns.of_trial); empty, or empty lists, if the figure is
    not made of any.
    """


@dataclass
class Tally:
    """Verdicts of the runs on one question. Owned by the main thread."""

    title: str
    wanted: float
    metric: str
    pairs: Sequence[Pair]
    """The comparisons of a run that ask the question."""
    truth: float = 1.0
    """The true ratio."""
    supposed: bool = False
    """True if the measured numerators are multiplied by the ratio, instead of more work planted."""
    right: int = 0
    total: int = 0
    covered: int = 0
    """Comparisons whose interval holds the true ratio."""
    ratios: list[float] = field(default_factory=list)

    def count(self, rounds: Sequence[Measured]) -> None:
        """Count a run."""
        for pair in self.pairs:
            r = _ratio(rounds, self.metric, pair, self.truth if self.supposed else 1.0)
            self.total += 1
            self.ratios.append(r.ratio)
            self.right += statistics.verdict(r) == self.verdict
            self.covered += (
                r.low is not None and r.high is not None and r.low <= self.truth <= r.high
            )

    @property
    def verdict(self) -> Verdict:
        """The right verdict."""
        if self.truth == 1:
            return Verdict.NO_DIFFERENCE
        return Verdict.ABOVE if self.truth > 1 else Verdict.BELOW

    @property
    def share(self) -> float:
        """Share of comparisons with the right verdict."""
        return self.right / self.total if self.total else 0.0

    def line(self) -> str:
        """Return the outcome in a sentence."""
        if not self.total:
            return f"{self.title}: no run was finished"
        state = "as wanted" if self.share >= self.wanted else "too few"
        return (
            f"{self.title}: {self.right} of {self.total} comparisons ({self.share:.1%}; wanted at "
            f"least {self.wanted:.0%}: {state}); intervals hold the truth in "
            f"{self.covered / self.total:.1%}; ratios {min(self.ratios):.3f} to "
            f"{max(self.ratios):.3f}"
        )


def _ratio(rounds: Sequence[Measured], metric: str, pair: Pair, factor: float = 1.0) -> Ratio:
    both = pair.numerator, pair.denominator
    numerators, denominators = ([each.figures[key] for each in rounds] for key in both)
    predicted = turns.predict(*([each.turns.get(key, ()) for each in rounds] for key in both))
    return statistics.ratio([value * factor for value in numerators], denominators, predicted)


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    result = argparse.ArgumentParser(
        prog="python -m evaluation.trust.measure",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit status: 0 both as wanted, 1 not, 2 wrong usage, 130 or 143 interrupted.",
    )
    runs = number("a whole number from 1 to 1000", 1, 1000, int)
    seconds = number("a whole number from 10 to 86400", 10, 86400, int)
    percent = number(f"a whole number from {planted.STEP} to 1000", planted.STEP, 1000, int)
    share = number("a number from 0.01 to 0.99", 0.01, 0.99)
    difference = f"the planted difference, a multiple of {planted.STEP} (default: %(default)s)"
    add = result.add_argument
    what = f"what to measure: {', '.join(planted.PLACES)} (default: %(default)s)"
    add(
        "scenario",
        nargs="?",
        choices=planted.PLACES,
        default="pillow",
        metavar="SCENARIO",
        help=what,
    )
    add("--runs", type=runs, default=20, metavar="N", help="number of runs (default: %(default)s)")
    add(
        "--seconds",
        type=seconds,
        metavar="S",
        help="length of a run (default: that of the scenario's --quick)",
    )
    add("--percent", type=percent, default=10, metavar="P", help=difference)
    vary = (
        f"let turns of A again, and of more work, vary by this pattern: "
        f"{', '.join(PATTERNS)}; pillow only"
    )
    add("--vary", choices=PATTERNS, metavar="PATTERN", help=vary)
    add(
        "--load",
        type=share,
        metavar="CPUS",
        help="keep this part of a CPU busy, in bursts (0.3, say)",
    )
    add(
        "--again",
        type=Path,
        metavar="FILE",
        help="measure nothing: judge the rounds again that --out has written",
    )
    add("--out", type=Path, metavar="FILE", help="write the figures there, as JSON")
    return result


@contextlib.contextmanager
def load(share: float | None) -> Iterator[None]:
    """Keep this share of a CPU busy during the context, in bursts, by a process that ends with this
    one; None: idle.
    """
    if share is None:
        yield
        return
    bursts = subprocess.Popen(
        [sys.executable, "-c", LOAD, str(share), str(os.getpid()), *map(str, BURSTS)]
    )
    try:
        yield
    finally:
        bursts.kill()
        bursts.wait()


@dataclass
class Kept:
    """The rounds of a run. Owned by the main thread."""

    rounds: list[dict[str, float]] = field(default_factory=list)
    """Figures by candidate."""
    turns: list[dict[str, list[list[float]]]] = field(default_factory=list)
    """Each candidate's turns, planted work included."""
    disturbed: list[str] = field(default_factory=list)

    @property
    def measured(self) -> list[Measured]:
        """The rounds, as they are judged."""
        return list(map(Measured, self.rounds, self.turns))


def setup() -> str:
    """Return the machine and the interpreter in a line."""
    python, cpu = environment.interpreter(), environment.cpu()
    return (
        f"{cpu['model']}, {cpu['usable']} of {cpu['count']} CPUs; Python {python['version']} "
        f"({python['twin']}, {python['build']}); revision {environment.revision()['commit'][:12]}"
    )


class Trust:
    """The trials and their judgement. Owned by the main thread."""

    def __init__(
        self, place: str, percent: int, config: str, usable_cpus: int, vary: str | None = None
    ):
        self._percent = percent
        self._config = config
        self._usable_cpus = usable_cpus
        self._scenario = (planted.varied(vary) if vary else planted.PLACES[place]).scenario(
            config, percent
        )
        self._metric = self._scenario.metrics[0]
        # Other scenarios are not stopped by their intervals, or Measurement does it.
        self._stops = place == "pillow"
        of_config = self._scenario.plan.ranked(
            (config,), self._scenario.workers(usable_cpus), quick=False
        )
        self.candidates = [c for _, c in of_config]
        of = {c.key: c.case for c in self.candidates}
        pairs = self._scenario.plan.pairs(self.candidates)
        self._same, self._more = (
            [p for p in pairs if of[p.numerator] == case] for case in ("b", "more")
        )
        self.kept: list[Kept] = []
        self.said = self.tallies()

    def measure(
        self, runs: int, results: Results, interruption: Interruption, shown: Display
    ) -> None:
        """Make all runs. If anything stops them, `kept` and `said` have the finished rounds."""
        sources = Sources(None, lambda title: interruption.checked(shown.step(title)), shown.note)
        sources.get(self._scenario.source)
        seconds = results.options.budget
        with contextlib.closing(Twins()) as connected:
            connected.add(self._config, sys.executable, interruption)
            for endpoint in connected.endpoints.values():
                endpoint.packages = str(ROOT)
            for number in range(runs):
                before, run = counters(), Kept()
                self.kept.append(run)
                kept = len(results.skipped)
                measurement = Measurement(self._scenario, results.options, connected, shown)
                end = time.monotonic() + seconds
                for entry in measurement.rounds(
                    sources, interruption, lambda: end - time.monotonic()
                ):
                    trials = {trial.candidate: trial for trial in entry.rounds[-1].trials}
                    if len(trials) < len(self.candidates):
                        skipped = [f"{each.what}: {each.why}" for each in results.skipped[kept:]]
                        why = "; ".join(skipped + [failure.reason for failure in entry.failures])
                        raise TrialFailed(why or "a candidate could not be measured")
                    run.rounds.append(
                        {key: trial.metrics[self._metric] for key, trial in trials.items()}
                    )
                    values = {
                        key: turns.of_trial(trial, self._metric) for key, trial in trials.items()
                    }
                    run.turns.append(
                        {k: [[round(s, 5) for s in one] for one in of] for k, of in values.items()}
                    )
                    if self._stops and self._enough(run.measured):
                        break
                if not run.rounds:
                    raise TrialFailed(f"no round was finished in {seconds:g} seconds")
                run.disturbed = marks(
                    from_json(Disturbance, between(before, counters())), self._usable_cpus
                )
                self.judge(run)
                loaded = f" (disturbed: {'; '.join(run.disturbed)})" if run.disturbed else ""
                shown.note(
                    f"run {number + 1} of {runs}: "
                    f"{'; '.join(tally.line() for tally in self.said)}{loaded}"
                )

    def judge(self, run: Kept) -> None:
        """Count the verdicts on a run's rounds."""
        for tally in self.said:
            tally.count(run.measured)

    def _enough(self, rounds: Sequence[Measured]) -> bool:
        """True if a run may stop for the width of its intervals,
        as others do (ftbench.stats.waterfall.precise).
        """
        if len(rounds) < waterfall.FEWEST_TO_STOP:
            return False
        found = [_ratio(rounds, self._metric, pair) for pair in (*self._same, *self._more)]
        widths = [math.log(r.high / r.low) / 2 for r in found if r.high and r.low]
        return max(widths) <= math.log1p(PRECISION)

    def _changed(self, percent: int) -> float:
        """Return the ratio of figures with this many percent more work."""
        more = 1 + percent / 100
        return 1 / more if METRICS[self._metric].best == "higher" else more

    def tallies(self) -> tuple[Tally, Tally]:
        """Return new tallies of both questions."""
        found, truth = f"{self._percent}% more work, found", self._changed(self._percent)
        return (
            Tally(
                "A against A, no difference reported",
                NO_DIFFERENCE_WANTED,
                self._metric,
                self._same,
            ),
            Tally(found, FOUND_WANTED, self._metric, self._more, truth),
        )

    def drawn(self, rounds: Sequence[Measured]) -> list[tuple[int, list[Tally]]]:
        """Return (number of rounds, tallies) of runs whose rounds are drawn from these (seeded).

        The tallies are those of `tallies`, and one for each of SUPPOSED.
        """
        found = []
        for size in DRAWN:
            if 2 * size <= len(rounds):
                rng = random.Random(size)
                supposed = (
                    Tally(
                        f"{p}% found",
                        FOUND_WANTED,
                        self._metric,
                        self._same,
                        self._changed(p),
                        True,
                    )
                    for p in SUPPOSED
                )
                tallies = [*self.tallies(), *supposed]
                for _ in range(DRAWS):
                    of_run = rng.sample(rounds, size)
                    for tally in tallies:
                        tally.count(of_run)
                found.append((size, tallies))
        return found

    def report(self, options: argparse.Namespace, where: str) -> dict:
        """Print the outcome on the machine *where* (see setup); return it for --out."""
        rounds = list(itertools.chain.from_iterable(run.measured for run in self.kept))
        numbers = [len(run.rounds) for run in self.kept] or [0]
        print(where)
        print(
            f"{options.scenario}, {options.seconds} s a run: {min(numbers)} to {max(numbers)} "
            f"rounds"
        )
        for tally in self.said:
            print(tally.line())
        drawn = self.drawn(rounds)
        if drawn:
            title = f"Rounds drawn {DRAWS} times from the {len(rounds)} measured"
            table = Table(
                "rounds a run",
                *(tally.title for tally in drawn[0][1]),
                title=title,
                title_justify="left",
            )
            for number, said in drawn:
                shares = (
                    f"{tally.share:.1%}, interval right {tally.covered / tally.total:.1%}"
                    for tally in said
                )
                table.add_row(str(number), *shares)
            Console().print(table)
        return {
            "setup": where,
            "scenario": options.scenario,
            "seconds_a_run": options.seconds,
            "percent": options.percent,
            "vary": options.vary,
            "load": options.load,
            "tallies": [{name: getattr(tally, name) for name in WRITTEN} for tally in self.said],
            "drawn": [
                {
                    "rounds": number,
                    "tallies": {
                        t.title: {"share": t.share, "covered": t.covered / t.total} for t in said
                    },
                }
                for number, said in drawn
            ],
            "runs": [asdict(run) for run in self.kept],
        }


def written(trust: Trust, content: dict, out: Path | None, status: int) -> int:
    """Write the content to *out*, if given; return the exit status,
    which is *status* unless that is 0.
    """
    if out:
        try:
            write_atomically(out, (json.dumps(content) + "\n").encode())
        except OSError as error:
            print(f"trust: cannot write {out}: {error.strerror or error}", file=sys.stderr)
            return status or 1
    return status or int(any(t.share < t.wanted for t in trust.said))


def again(options: argparse.Namespace) -> int:
    """Judge the rounds in the file of --again; return the exit status."""
    try:
        kept = json.loads(options.again.read_text())
        runs = [Kept(**run) for run in kept["runs"]]
        options.scenario, options.seconds = kept.get("scenario", "pillow"), kept["seconds_a_run"]
        options.percent, options.load, where = kept["percent"], kept["load"], kept["setup"]
        options.vary = kept.get("vary")
        config = next(iter(runs[0].rounds[0])).partition("/")[0]  # of a candidate's key
    except (OSError, ValueError, LookupError, TypeError, StopIteration) as error:
        print(
            f"trust: --again {options.again} is no file that --out has written: {error!r}",
            file=sys.stderr,
        )
        return 2
    trust = Trust(
        options.scenario, options.percent, config, environment.cpu()["usable"], options.vary
    )
    for run in runs:
        trust.kept.append(run)
        trust.judge(run)
    return written(trust, trust.report(options, where), options.out, 0)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    command = parser()
    options = command.parse_args(arguments)
    if options.percent % planted.STEP:
        command.error(f"--percent {options.percent} is no multiple of {planted.STEP}")
    if options.vary and options.scenario != "pillow":
        command.error("--vary is for pillow alone")
    if options.again:
        return again(options)
    options.seconds = options.seconds or int(planted.PLACES[options.scenario].amount.seconds)
    config = environment.interpreter()["twin"]
    trust = Trust(
        options.scenario, options.percent, config, environment.cpu()["usable"], options.vary
    )
    status = 0
    with Interruption() as interruption:
        try:
            given = {
                "quick": True,
                "out": "",
                "budget": options.seconds,
                "configs": [config],
                "twins": {},
            }
            results = Results(Options(scenarios=["trust"], **given))
            with Display(results) as shown, load(options.load):
                trust.measure(options.runs, results, interruption, shown)
        except (DoesNotFit, ImageError, Interrupted, TrialFailed, WorkDiffers, TwinError) as error:
            status = error.exit_status if isinstance(error, Interrupted) else 1
            print(f"trust: stopped: {error}", file=sys.stderr)
    return written(trust, trust.report(options, setup()), options.out, status)


if __name__ == "__main__":
    sys.exit(main())
