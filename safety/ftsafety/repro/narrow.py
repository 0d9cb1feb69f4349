"""Narrowing a failure down: the smallest number of threads, and the C stack of a crash."""

from __future__ import annotations

import bisect
import math
import shutil

from ftsafety.repro.campaign import Campaign, Runs, twin_of
from ftsafety.repro.outcome import Kind
from ftsafety.repro.runner import DUMP_SIGNAL

FEWEST_RUNS, MOST_RUNS = 5, 60
GDB_TRIES = 5


def runs_needed(failures: int, runs: int) -> int:
    """Return the number of runs after which at least one has failed with 95% probability, at this failure rate."""
    share = failures / runs
    if share >= 1:
        return FEWEST_RUNS
    return min(MOST_RUNS, max(FEWEST_RUNS, math.ceil(math.log(0.05) / math.log(1 - share))))


def shrink_threads(campaign: Campaign, seen: Runs, threads: int, repeat: int) -> str:
    """Find the smallest number of threads with which the script still fails; return the result as Markdown.

    Args:
        seen: the failing runs, made with `threads` threads.
        repeat: least number of runs for each number of threads.
    """
    # With fewer threads a race is rarer, so make at least as many runs as in the campaign.
    repeat = max(repeat, runs_needed(seen.failures, seen.counted))
    tried: dict[int, Runs] = {}

    def fails(number: int) -> bool:
        found = campaign.run(
            [seen.config], repeat, number, f"{number} threads:", enough=lambda runs: runs[seen.config].failures > 0
        )
        tried[number] = found[seen.config]
        return tried[number].failures > 0

    # Once the campaign has stopped, nothing is tried any more.
    bisect.bisect_left(range(1, threads), True, key=lambda number: bool(campaign.stopped) or fails(number))
    high = min([number for number, runs in tried.items() if runs.failures], default=threads)
    low = max([number for number in tried if number < high], default=0)
    lines = [
        f"In `{seen.config}` it still fails with **{high}** thread{'' if high == 1 else 's'}"
        + (f", and was not seen to fail with {low}." if low else ".")
    ]
    lines += [
        f"- {n} thread{'' if n == 1 else 's'}: {runs.failures} of {runs.counted} runs failed"
        for n, runs in sorted(tried.items())
    ]
    lines.append(f"- {threads} threads: {seen.failures} of {seen.counted} runs failed")
    lines.append(f"\nA number of threads counts as not failing after {repeat} runs without a failure.")
    if campaign.stopped:
        lines.append(f"\nNot finished: {campaign.stopped}.")
    return "\n".join(lines)


def native_stack(campaign: Campaign, seen: Runs, threads: int) -> str | None:
    """Run the script under gdb and return the C stack of its crash.

    Returns None without gdb, if no run of `seen` crashed, or if no run under gdb crashes.
    """
    gdb = shutil.which("gdb")
    twin = campaign.twins[twin_of(seen.config)]
    if gdb is None or twin.python is None or not any(outcome.kind == Kind.SIGNAL for outcome in seen.outcomes):
        return None
    signal = f"handle SIG{int(DUMP_SIGNAL)} nostop noprint pass"
    quiet = (gdb, "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "set pagination off")
    wrapper = (*quiet, "-ex", signal, "-ex", "run", "-ex", "bt 40", "--args")
    for _ in range(GDB_TRIES):
        outcome = campaign.once(seen.config, threads, wrapper)
        _, found, stack = outcome.stdout.partition("received signal SIG")
        if found and "\n#0" in stack:
            return "SIG" + stack.strip()
    return None
