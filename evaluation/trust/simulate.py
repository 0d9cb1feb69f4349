"""``python -m evaluation.trust.simulate``: how often are verdicts and intervals right where a
candidate's turns vary?

Simulated runs, whose truth is known, go through the benchmark's own functions: cycles that other
load disturbs leave, figures are made from the rest, and runs end when their intervals are narrow. A
is steady. B's turns vary by a pattern (evaluation.trust.variation). In the long run B is as fast as
A, or 10% slower. docs/method.md has the table.
"""

import argparse
import bisect
import itertools
import math
import random
import sys
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from evaluation.trust.measure import BURSTS
from evaluation.trust.variation import PATTERNS
from ftbench.document.model import Trial, Verdict
from ftbench.machine.disturbance import Disturbance
from ftbench.plan.waterfall import PRECISION
from ftbench.rounds import cycles
from ftbench.stats import statistics, turns, waterfall
from ftbench.stats.statistics import Ratio

CPUS = 2
TURN_SECONDS = 0.35
"""A turn of A on a quiet machine. The candidates of a round, of which A and B are two, have one
each in a cycle.
"""
NAMES = "ABCDE"
CANDIDATES = len(NAMES)
# Standard deviations of the logarithms of a turn and of a process,
# as steady candidates have them (docs/method.md).
TURNS_VARY, PROCESSES_VARY = 0.04, 0.014
RATE_BESIDE = 0.7
"""Speed of two workers on two CPUs while another program uses a CPU."""
SLOWER = 1.1
SIZES = ((3, 3, 4), (3, 3, 10), (5, 7, 10), (5, 12, 10))
"""(fewest rounds, most rounds, turns)"""


class Load:
    """Bursts of other load: one CPU is busy from each start to the next end.
    The time begins at 0 s.
    """

    def __init__(self, rng: random.Random, share: float, seconds: float):
        self._ends = [0.0]  # of pauses and bursts, in turn
        while self._ends[-1] < seconds:
            burst = rng.uniform(*BURSTS)
            pause = rng.uniform(*BURSTS) * (1 - share) / share if share else math.inf
            self._ends += [self._ends[-1] + pause, self._ends[-1] + pause + burst]

    def run(self, begin: float, work: float) -> tuple[float, float]:
        """Return (seconds that *work* seconds of quiet work take from *begin* on,
        seconds of them beside load).
        """
        now, beside = begin, 0.0
        place = bisect.bisect_right(self._ends, now)
        while True:
            loaded = place % 2 == 0
            rate = RATE_BESIDE if loaded else 1.0
            end = self._ends[place] if place < len(self._ends) else math.inf
            done = min(work, (end - now) * rate)
            work -= done
            beside += done / rate * loaded
            now += done / rate
            if work <= 0:
                return now - begin, beside
            place += 1


def trial(name: str, seconds: Sequence[float], beside: Sequence[float]) -> Trial:
    """Return a trial with these turns (s); *beside*: the seconds of each turn that another program
    used a CPU.
    """
    loads = [
        Disturbance(whole, CPUS, busy / whole * 0.6, 0.0, None)
        for whole, busy in zip(seconds, beside, strict=True)
    ]
    return Trial(
        name,
        {"throughput": len(seconds) / math.fsum(seconds)},
        len(seconds),
        1,
        None,
        [],
        list(seconds),
        [],
        {},
        "2",
        True,
        False,
        loads[0],
        turn_loads=loads,
    )


def round_of(
    rng: random.Random, pattern: str, difference: float, number: int, share: float
) -> list[Trial]:
    """Return the trials of A and B in a round of *number* turns;
    B has *difference* times A's work.
    """
    load = Load(rng, share, 3 * CANDIDATES * number * TURN_SECONDS)
    works = [PATTERNS["steady"](rng, number) for _ in range(CANDIDATES)]
    works[1] = [difference * work for work in PATTERNS[pattern](rng, number)]
    levels = [math.exp(rng.gauss(0, PROCESSES_VARY)) for _ in works]
    seconds: list[list[float]] = [[] for _ in works]
    beside: list[list[float]] = [[] for _ in works]
    now = 0.0
    for turn in range(number):
        order = list(range(CANDIDATES))
        rng.shuffle(order)
        for candidate in order:
            own = works[candidate][turn] * levels[candidate]
            took, busy = load.run(now, TURN_SECONDS * own * math.exp(rng.gauss(0, TURNS_VARY)))
            now += took
            seconds[candidate].append(took)
            beside[candidate].append(busy)
    trials = [trial(name, *of_one) for name, *of_one in zip(NAMES, seconds, beside, strict=True)]
    left_out = cycles.disturbed(trials, CPUS)
    return [cycles.without(each, left_out) for each in trials[:2]] if left_out else trials[:2]


def run(
    rng: random.Random, pattern: str, difference: float, size: tuple[int, int, int], share: float
) -> Ratio:
    """Return B's ratio to A in one run, which ends when the interval is narrow,
    as other runs do.
    """
    fewest, most, number = size
    rounds: list[list[Trial]] = []
    while True:
        rounds.append(round_of(rng, pattern, difference, number, share))
        if len(rounds) < fewest:
            continue
        a, b = ([one[place] for one in rounds] for place in (0, 1))
        predicted = turns.predict(
            *([turns.of_trial(each, "throughput") for each in side] for side in (b, a))
        )
        values = ([each.metrics["throughput"] for each in side] for side in (b, a))
        ratio = statistics.ratio(*values, predicted)
        assert ratio.low and ratio.high
        narrow = math.log(ratio.high / ratio.low) / 2 <= math.log1p(PRECISION)
        if len(rounds) == most or narrow and len(rounds) >= waterfall.FEWEST_TO_STOP:
            return ratio


class Outcome(NamedTuple):
    """Counts of the runs with one pattern, as parts of 1."""

    false: float
    """Runs that report a difference where there is none."""
    held: float
    """Intervals that hold the truth, of the runs with and without a difference."""
    found: float
    """Runs that find the difference."""


def outcome(pattern: str, size: tuple[int, int, int], share: float, runs: int) -> Outcome:
    """Return the outcome of *runs* runs with and as many without a difference."""
    rng = random.Random(f"{pattern} {size} {share}")
    same = [run(rng, pattern, 1.0, size, share) for _ in range(runs)]
    slower = [run(rng, pattern, SLOWER, size, share) for _ in range(runs)]
    held = sum(
        r.low <= truth <= r.high for rs, truth in ((same, 1), (slower, 1 / SLOWER)) for r in rs
    )  # type: ignore[operator]
    return Outcome(
        sum(r.shown for r in same) / runs,
        held / (2 * runs),
        sum(r.verdict == Verdict.BELOW for r in slower) / runs,
    )


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m evaluation.trust.simulate", description=__doc__
    )
    parser.add_argument(
        "--runs", type=int, default=1000, help="simulated runs of each kind (default: %(default)s)"
    )
    options = parser.parse_args()
    title = "A difference where there is none; intervals that hold the truth; 10% found"
    table = Table(
        "turns vary", *(f"{few} to {most} rounds, {n} turns" for few, most, n in SIZES), title=title
    )
    for share, pattern in itertools.product((0.0, 0.3), PATTERNS):
        shown = [outcome(pattern, size, share, options.runs) for size in SIZES]
        beside = " beside load" if share else ""
        table.add_row(
            pattern + beside, *(f"{o.false:.1%}; {o.held:.1%}; {o.found:.0%}" for o in shown)
        )
    Console(width=120).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
