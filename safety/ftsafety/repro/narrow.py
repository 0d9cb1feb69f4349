"""Narrowing a failure down: the smallest number of threads with which the script fails."""

from __future__ import annotations

import bisect
import math

from ftsafety.repro.campaign import Campaign, Runs

FEWEST_RUNS, MOST_RUNS = 5, 60


def runs_needed(failures: int, runs: int) -> int:
    """Return the number of runs that show a failure with 95% probability; at least 5, at most 60.

    The failure rate is that of earlier runs: *failures* of *runs*.
    """
    share = failures / runs
    if share >= 1:
        return FEWEST_RUNS
    return min(MOST_RUNS, max(FEWEST_RUNS, math.ceil(math.log(0.05) / math.log(1 - share))))


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

    def fails(number: int) -> bool:
        attempts = campaign.run(
            [failing.config],
            repeat,
            number,
            f"{number} threads:",
            enough=lambda runs, _: runs[failing.config].failures > 0,
        )
        tried[number] = attempts[failing.config]
        return tried[number].failures > 0

    # Once the campaign has stopped, nothing is tried any more.
    bisect.bisect_left(
        range(1, threads), True, key=lambda number: bool(campaign.stopped) or fails(number)
    )
    high = min([number for number, runs in tried.items() if runs.failures], default=threads)
    low = max([number for number in tried if number < high], default=0)
    lines = [
        f"In `{failing.config}` it still fails with **{high}** thread{'' if high == 1 else 's'}"
        + (f", and was not seen to fail with {low}." if low else ".")
    ]
    for number, runs in sorted({**tried, threads: failing}.items()):
        lines.append(
            f"- {number} thread{'' if number == 1 else 's'}: {runs.failures} of {runs.counted} "
            f"runs failed"
        )
    lines.append(
        f"\nA number of threads counts as not failing after {repeat} runs without a failure."
    )
    if campaign.stopped:
        lines.append(f"\nNot finished: {campaign.stopped}.")
    return "\n".join(lines)
