"""Narrowing a failure down: the smallest number of threads, other versions of packages."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Callable, Mapping

from ftrun.configurations import CONFIGURATIONS
from ftrun.escape import markdown
from ftrun.overlay import OverlayError, Overlays
from ftrun.project import normalise
from ftsafety.repro import twins
from ftsafety.repro.campaign import Campaign, Runs
from ftsafety.repro.outcome import SIGNAL
from ftsafety.repro.runner import DUMP_SIGNAL
from ftsafety.repro.verdict import SIGNIFICANT, p_value, rate

FEWEST_RUNS, MOST_RUNS = 5, 60
# What cannot be exchanged alone, and is too large to try.
NOT_EXCHANGED = ("torch", "triton")
GDB_TRIES = 5


def runs_needed(failures: int, runs: int) -> int:
    """Runs after which a failure of this rate would have been seen with 95% probability."""
    share = failures / runs
    if share >= 1:
        return FEWEST_RUNS
    return min(MOST_RUNS, max(FEWEST_RUNS, math.ceil(math.log(0.05) / math.log(1 - share))))


def shrink_threads(campaign: Campaign, seen: Runs, threads: int) -> str:
    """The smallest number of threads that still fails in the configuration of `seen`, as Markdown."""
    # Fewer threads meet more rarely, so never less than each configuration had.
    repeat = max(seen.counted, runs_needed(seen.failures, seen.counted))
    tried: dict[int, Runs] = {}

    def fails(number: int) -> bool:
        found = campaign.run(
            [seen.config], repeat, number, f"{number} threads:", enough=lambda runs: runs[seen.config].failures > 0
        )
        tried[number] = found[seen.config]
        return tried[number].failures > 0

    low, high = 0, threads
    number = 1
    while number < threads and not campaign.stopped:
        if fails(number):
            high = number
            break
        low, number = number, number * 2
    while high - low > 1 and not campaign.stopped:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle
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


def bisect_packages(
    campaign: Campaign,
    seen: Runs,
    threads: int,
    asked: list[str],
    overlays: Overlays,
    modules: tuple[str, ...],
    installed: Mapping[str, str],
    added: Mapping[str, str],
    note: Callable[[str], None],
) -> str:
    """Runs with one package at another version each, in the configuration of `seen`, as Markdown.

    Args:
        asked: packages, with or without a version; none means every one that the script imports.
        modules: what runs of any configuration that came to an orderly end had imported.
        installed: the twin's versions by normalised name.
        added: the versions of what the script's inline metadata has added.
    """
    twin = CONFIGURATIONS[seen.config].twin
    python = campaign.twins[twin].python
    if python is None:
        return "Not tried: a container has no network to get other versions from. Run `./twins repro` natively."
    lines = []
    if not asked:
        if not modules:
            return (
                "Not tried: no run ended normally, so it is not known what the script imports. Name "
                "packages with --package."
            )
        asked = [name for name in map(normalise, twins.distributions(modules)) if name in installed]
        asked += [name for name in added if name not in asked]
        left_out = [name for name in asked if name in NOT_EXCHANGED or name.startswith("nvidia-")]
        asked = [name for name in asked if name not in left_out]
        if left_out:
            lines.append(f"- {', '.join(left_out)}: not tried, since other versions need other CUDA libraries")
        if not asked:
            lines.append("- it imports no package of which another version could be tried")
    for each in asked:
        if campaign.stopped:
            lines.append(f"- {markdown(each)}: not tried: {campaign.stopped}")
            continue
        lines.append(_exchanged(campaign, seen, threads, each, overlays, {**installed, **added}, python, note))
    return "\n".join(
        [
            f"With one package at another version, in `{seen.config}` (as installed: {seen.failures} of "
            f"{seen.counted} runs failed):",
            "",
            *lines,
        ]
    )


def _exchanged(campaign, seen, threads, asked, overlays, installed, python, note) -> str:
    bare = re.fullmatch(r"([\w.-]+)(\[.*\])?", asked)
    name = normalise(bare[1]) if bare else None
    wanted = f"{asked}<{installed[name]}" if name in installed else asked
    note(f"installing {wanted}")
    try:
        folder, pins = overlays.make(python, [wanted], installed, dependencies=False)
    except OverlayError as error:
        return f"- {markdown(wanted)}: not tried: {markdown(str(error))}"
    if not pins:
        return f"- {markdown(wanted)}: not tried: this version is installed already"
    repeat = max(FEWEST_RUNS, seen.counted)
    twin = CONFIGURATIONS[seen.config].twin
    # Before what the script's own metadata has added.
    path = os.pathsep.join(filter(None, [folder, campaign.overlays.get(twin)]))
    found = campaign.run([seen.config], repeat, threads, f"{pins[0]}:", overlays={twin: path})
    runs = found[seen.config]
    if not runs.counted:
        why = runs.missing or next((outcome.detail for outcome in runs.outcomes), "nothing was run")
        return f"- {markdown(', '.join(pins))}: no run could be counted: {markdown(why)}"
    p = p_value((seen.failures, seen.counted), (runs.failures, runs.counted))
    more = runs.failures / runs.counted > seen.failures / seen.counted
    said = f"**fails {'more' if more else 'less'} often**" if p < SIGNIFICANT else "no difference shown"
    return (
        f"- {markdown(', '.join(pins))}: {runs.failures} of {runs.counted} runs failed, "
        f"{rate(runs.failures, runs.counted)}: {said} (p = {p:.2g})"
    )


def native_stack(campaign: Campaign, seen: Runs, threads: int) -> str | None:
    """The C stack of a crash as gdb sees it, or None where there is no gdb, no crash, or none under gdb."""
    gdb = shutil.which("gdb")
    twin = campaign.twins[CONFIGURATIONS[seen.config].twin]
    if gdb is None or twin.python is None or not any(outcome.kind == SIGNAL for outcome in seen.outcomes):
        return None
    signal = f"handle SIG{int(DUMP_SIGNAL)} nostop noprint pass"
    quiet = (gdb, "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "set pagination off")
    below = (*quiet, "-ex", signal, "-ex", "run", "-ex", "bt 40", "--args")
    for _ in range(GDB_TRIES):
        outcome = twin.reproduce(
            seen.config,
            campaign.script,
            threads,
            campaign.limits,
            seen.forced_off,
            campaign.overlays.get(CONFIGURATIONS[seen.config].twin),
            below,
        )
        _, found, stack = outcome.stdout.partition("received signal SIG")
        if found and "\n#0" in stack:
            return "SIG" + stack.strip()
    return None
