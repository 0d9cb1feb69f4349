"""Disturbances of a trial: other processes, other virtual machines, and the control group's quota.

The figures come from the kernel's counters where the trial runs: /proc/stat (proc_stat(5)),
cpu.stat of the control groups (Documentation/admin-guide/cgroup-v2.rst) and getrusage(2). A counter
that cannot be read is None, never zero.
"""

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import Annotated as A

from ftbench.machine.usage import own_seconds
from ftrun import cgroup

# Thresholds above which a round is marked, as parts of the CPU time that the benchmark could have
# used. Kernel threads and an idle desktop stay below 2%. Two equal trials differed by the part that
# other processes took.
OTHERS, STOLEN = 0.05, 0.02
# As a part of the trial's time: with any throttling, all threads stand still at once.
THROTTLED = 0.01
# The kernel counts in ticks of 1/100 s, so less cannot be seen.
TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Counters:
    """Readings of the kernel's counters at one time, in seconds."""

    at: float
    """time.monotonic()"""
    busy: float | None
    """CPU time of all processes on the CPUs that this process may use."""
    stolen: float | None
    """Time of those CPUs that the hypervisor gave to other machines."""
    throttled: float | None
    """Time that the tightest control group was stopped by its quota."""
    used: float
    """CPU time of this process and of its descendants that have been waited for."""


def cpu_times(cpus: set[int], proc: Path = Path("/proc")) -> tuple[float | None, float | None]:
    """Return (busy, stolen) seconds of these CPUs since boot; (None,
    None) if /proc/stat lacks these counters.
    """
    busy = stolen = 0.0
    names = {f"cpu{number}" for number in cpus}
    for line in (cgroup.read(proc / "stat") or "").splitlines():
        name, *ticks = line.split()
        if name in names and len(ticks) >= 8:
            seconds = [int(number) * TICK for number in ticks[:8]]
            user, nice, system, _idle, _iowait, irq, softirq, steal = seconds
            busy += user + nice + system + irq + softirq
            stolen += steal
    if not busy:
        # Some sandboxes report only zeros.
        return None, None
    return busy, stolen


def counters() -> Counters:
    return Counters(
        time.monotonic(),
        *cpu_times(os.sched_getaffinity(0)),
        cgroup.throttled_seconds(),
        own_seconds(),
    )


def between(before: Counters, after: Counters, living: float = 0.0) -> dict:
    """Return the load between two readings, as a dict with the fields of Disturbance.

    Counters.used gets a child's CPU time only when the child has ended and been waited for, and
    then all of it. `living` is a correction for this, in seconds. If the child still runs, `living`
    is the CPU time that the child used since `before`. If the child has been waited for since
    `before`, `living` is negative: minus the CPU time that the child had used until `before`.
    """
    seconds = max(after.at - before.at, TICK)
    own_seconds = max(0.0, after.used - before.used + living)

    def difference(name: str, without: float = 0.0, over: float = 1.0) -> float | None:
        start = getattr(before, name)
        end = getattr(after, name)
        if start is None or end is None:
            return None
        # Counted in ticks, the difference may come out slightly below zero.
        return round(max(0.0, end - start - without) / over, 3)

    return {
        "seconds": round(seconds, 3),
        "own_cpus": round(own_seconds / seconds, 3),
        "other_cpus": difference("busy", own_seconds, seconds),
        "stolen_cpus": difference("stolen", over=seconds),
        "throttled_seconds": difference("throttled"),
    }


def together(parts: Sequence[Mapping]) -> dict:
    """Combine results of `between` into one. Seconds are added up; numbers of CPUs are averaged,
    weighted by time.
    """
    return {field.name: _combined(field.name, parts) for field in fields(Disturbance)}


def _combined(name: str, parts: Sequence[Mapping]) -> float | None:
    """Combine one field of several results of `between`."""
    values, seconds = [], []
    for part in parts:
        if part[name] is not None:
            values.append(part[name])
            seconds.append(part["seconds"])
    if not values:
        return None
    total = sum(values) if name.endswith("seconds") else fmean(values, seconds)
    return round(total, 3)


@dataclass
class Disturbance:
    """Load on the CPUs while trials ran: by the trials,
    by other processes and by other virtual machines.
    """

    seconds: A[float, {"exclusiveMinimum": 0}, "that the figures are means over"]
    own_cpus: A[float, {"minimum": 0}, "CPUs that the trial used"]
    other_cpus: A[
        float | None,
        {"minimum": 0},
        "CPUs that others used of those that it may use; null if unknown",
    ]
    stolen_cpus: A[
        float | None,
        {"minimum": 0},
        "CPUs that the hypervisor gave to others (steal time); null if unknown",
    ]
    throttled_seconds: A[
        float | None,
        {"minimum": 0},
        "that its control group's quota stopped it; null without a group",
    ]


@dataclass
class State:
    """State of the machine before a round: load, usable CPUs and frequency settings."""

    load: A[
        list[A[float, {"minimum": 0}]] | None,
        {"minItems": 3, "maxItems": 3},
        "load average over 1, 5 and 15 minutes, of the whole machine (proc_loadavg(5))",
    ]
    affinity: A[int, {"minimum": 1}, "CPUs that the process may use"]
    quota: A[float | None, {"minimum": 0}, "CPUs that the control group leaves it; null for all"]
    governor: A[
        str | None, "frequency governor; null where none is to be seen, as in most virtual machines"
    ]


def state(sys: Path = Path("/sys/devices/system/cpu")) -> State:
    load = None
    with contextlib.suppress(OSError):
        load = [round(value, 2) for value in os.getloadavg()]
    cpus = os.sched_getaffinity(0)
    governors = {cgroup.read(sys / f"cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus}
    governor = ", ".join(sorted(filter(None, governors))) or None
    return State(load, len(cpus), cgroup.cpu_quota(), governor)


def taken(load: Disturbance, usable: float) -> bool:
    """True if other processes or other machines took more
    than their threshold of the *usable* CPUs.

    Throttling does not count: a control group's quota stops the trial
    for what the trial itself has used.
    """
    return _above(load.other_cpus, OTHERS * usable) or _above(load.stolen_cpus, STOLEN * usable)


def _above(value: float | None, threshold: float) -> bool:
    return value is not None and value > threshold


def marks(load: Disturbance, usable: float) -> list[str]:
    """Return a phrase for each disturbance of a round that exceeds its threshold."""
    phrases = []
    cpus = "of 1 CPU" if usable == 1 else f"of {usable:g} CPUs"
    if _above(load.other_cpus, OTHERS * usable):
        phrases.append(f"other processes used {load.other_cpus:.2f} {cpus}")
    if _above(load.stolen_cpus, STOLEN * usable):
        phrases.append(f"other virtual machines took {load.stolen_cpus:.2f} {cpus} (steal time)")
    if _above(load.throttled_seconds, THROTTLED * load.seconds):
        seconds = f"{load.throttled_seconds:.1f} of {load.seconds:.0f} s"
        phrases.append(f"the control group's quota stopped it for {seconds}")
    return phrases


def about_machine(before: State) -> list[str]:
    """Return a warning for each setting of the machine that makes figures vary: frequency scaling,
    a CPU quota.
    """
    warnings = []
    if before.governor not in (None, "performance"):
        warnings.append(
            f"frequency scaling is on (governor {before.governor}): absolute figures depend on how "
            "warm and how busy the CPUs were; cpupower frequency-set -g performance fixes the "
            "frequency"
        )
    if before.quota is not None:
        warnings.append(
            f"the control group leaves {before.quota:g} of {before.affinity} CPUs: more threads "
            "than that are stopped together for the rest of each period"
        )
    return warnings
