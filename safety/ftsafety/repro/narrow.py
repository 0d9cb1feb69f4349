"""Narrowing a failure down: the smallest number of threads with which the script fails."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping

from ftsafety.repro.campaign import AllRuns, Campaign, Runs

FEWEST_RUNS, MOST_RUNS = 5, 60


def runs_needed(failures: int, runs: int) -> int:
    """Return the number of runs that show a failure with 95% probability; at least 5, at most 60.

    The failure rate is that of earlier runs: *failures* of *runs*.
    """
    share = failures / runs
    if share >= 1:
        return FEWEST_RUNS
    number = math.log(0.05) / math.log(1 - share)
    return min(MOST_RUNS, max(FEWEST_RUNS, math.ceil(number)))


def shrink_threads(campaign: Campaign, failing: Runs, threads: int, repeat: int) -> str:
    """Find the smallest number of threads with which the script still fails;
    return the result as Markdown.

    Args:
        failing: the runs of a configuration in which the script failed with `threads` threads.
        repeat: minimum number of runs, all without a failure, after which a number of threads
            counts as not failing.
    """
    # With fewer threads a race is rarer, so make at least as many runs as in the campaign.
    repeat = max(repeat, runs_needed(failing.failures, failing.counted))
    tried: dict[int, Runs] = {}

    config = failing.config

    def enough(runs: AllRuns, _rounds: int) -> bool:
        return runs[config].failures > 0

    def fails(number: int) -> bool:
        if campaign.stopped:
            return True  # nothing is tried any more
        title = f"{number} threads:"
        attempts = campaign.run([config], repeat, number, title, enough)
        tried[number] = attempts[config]
        return attempts[config].failures > 0

    bisect.bisect_left(range(1, threads), True, key=fails)
    lines = [_least(config, tried, threads)]
    for number, runs in sorted({**tried, threads: failing}.items()):
        share = f"{runs.failures} of {runs.counted}"
        lines.append(f"- {_threads(number)}: {share} runs failed")
    lines.append(
        f"\nA number of threads counts as not failing after {repeat} runs without a failure."
    )
    if campaign.stopped:
        lines.append(f"\nNot finished: {campaign.stopped}.")
    return "\n".join(lines)


def _least(config: str, tried: Mapping[int, Runs], threads: int) -> str:
    """Return the result in a sentence. *threads*: a number with which the script fails."""
    failing = [number for number, runs in tried.items() if runs.failures]
    high = min(failing, default=threads)
    low = max([number for number in tried if number < high], default=0)
    words = f"In `{config}` it still fails with {_threads(high, '**')}"
    if low:
        words += f", and was not seen to fail with {low}"
    return f"{words}."


def _threads(number: int, mark: str = "") -> str:
    noun = "thread" if number == 1 else "threads"
    return f"{mark}{number}{mark} {noun}"
