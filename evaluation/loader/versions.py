"""Compare the loader of this checkout with that of another: a figure for what a change costs.

    git worktree add /tmp/before COMMIT
    ./twins exec ft python evaluation/loader/versions.py /tmp/before [SAMPLE ...]

A pair is two processes, one for each checkout, which take turns of one epoch, in random order. Each
has two worker threads. Two processes of one version differ by up to a tenth, so a line has the
geometric mean of many pairs' ratios of speed, with its 95% interval. With `.` in place of
/tmp/before, the line has what chance does.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
from measure import SAMPLES, epoch
from scipy import stats

CHECKOUT = Path(__file__).resolve().parents[2]
MEASURE = Path(__file__).with_name("measure.py")


def pair(name: str, checkouts: tuple[Path, Path], turns: int) -> float:
    """Return how many times as fast as the second the first checkout's loader is,
    in one pair of processes.
    """
    processes = [
        subprocess.Popen(
            [sys.executable, MEASURE, "--child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(each / "loader"), *sys.path[1:]]),
            },
        )
        for each in checkouts
    ]
    seconds: list[list[float]] = [[], []]
    try:
        for turn in range(turns + 1):  # the first is not counted
            for one in random.sample((0, 1), 2):
                took, _ = epoch(processes[one], name, "ours")
                if turn:
                    seconds[one].append(took)
    finally:
        for each in processes:
            each.stdin.close()
            each.wait()
    first, second = map(statistics.median, seconds)
    return second / first


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("samples", nargs="*", default=["1 x 1 kB", "pillow-128"])
    parser.add_argument("--pairs", type=int, default=60, help="(default: 60)")
    parser.add_argument("--turns", type=int, default=3, help="of each process (default: 3)")
    options = parser.parse_args()
    if unknown := set(options.samples) - set(SAMPLES):
        parser.error(f"no samples {sorted(unknown)}; there are: {', '.join(SAMPLES)}")
    checkouts = (CHECKOUT, options.before.resolve())
    for name in options.samples:
        logs = [np.log(pair(name, checkouts, options.turns)) for _ in range(options.pairs)]
        half = stats.sem(logs) * stats.t.ppf(0.975, len(logs) - 1)
        low, middle, high = np.exp(np.mean(logs) + np.array([-half, 0, half]))
        print(
            f"{name}: {middle:.3f} times as fast ({low:.3f} to {high:.3f}), {options.pairs} pairs"
        )


if __name__ == "__main__":
    main()
