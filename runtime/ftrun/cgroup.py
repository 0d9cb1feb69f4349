"""CPUs and memory that the kernel's control groups allow this process.

In a container, ``/proc`` shows every CPU and all the memory of the host; the container's limits are
in its control group. Files of cgroup versions 1 and 2 are read, for this process's group and its
ancestors, since an ancestor's limit applies too. The kernel's
Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst describe the files.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


def read(path: Path) -> str | None:
    """Return a small file's text without white space around it; None if it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


class _Mount(NamedTuple):
    """Mounted hierarchy of control groups."""

    root: str
    """The group that is mounted."""
    directory: Path
    is_v2: bool


def _groups(controller: str, proc: Path) -> Iterator[tuple[Path, bool]]:
    """Yield (directory, True if cgroup version 2) of this process's group for *controller*,
    then of its ancestors.
    """
    paths = _group_paths(controller, proc)
    for mount in _mounts(controller, proc):
        # Without a cgroup namespace the path is the host's. It then begins with `root`,
        # which is mounted here, and the rest of it is the path below the mount.
        path = paths.get(mount.is_v2, "/")
        if mount.root != "/" and path.startswith(mount.root):
            path = path[len(mount.root) :]
        group = mount.directory / path.strip("/")
        if not group.is_dir():
            group = mount.directory
        yield group, mount.is_v2
        while group != mount.directory and mount.directory in group.parents:
            group = group.parent
            yield group, mount.is_v2


def _mounts(controller: str, proc: Path) -> Iterator[_Mount]:
    for line in (read(proc / "self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        kind = right.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if _has_controller(kind, controller):
            yield _Mount(fields[3], Path(fields[4]), kind[0] == "cgroup2")


def _has_controller(kind: list[str], controller: str) -> bool:
    """True for a mount of cgroup version 2, which has all controllers,
    or of this controller in version 1.

    `kind`: type, device and options of the mount.
    """
    if kind[0] == "cgroup2":
        return True
    return kind[0] == "cgroup" and controller in kind[2].split(",")


def _group_paths(controller: str, proc: Path) -> dict[bool, str]:
    """Return {True for cgroup version 2, else False: path of this process's group}."""
    paths: dict[bool, str] = {}
    for line in (read(proc / "self/cgroup") or "").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            paths[True] = path
        elif controller in controllers.split(","):
            paths[False] = path
    return paths


def _statistic(path: Path, name: str) -> int | None:
    """Return the number after *name* in a file of lines "name number", such as memory.stat; None if
    it has none.
    """
    for line in (read(path) or "").splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdecimal():
            return int(value)
    return None


def cpu_quota(proc: Path = Path("/proc")) -> float | None:
    """Return the number of CPUs that the tightest quota allows this process, such as 1.5; None
    without a quota.
    """
    quotas = []
    for group, is_v2 in _groups("cpu", proc):
        quota, period = _quota(group, is_v2)
        # "max" or -1 means no quota.
        if quota.isdecimal() and int(quota) and period.isdecimal():
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def _quota(group: Path, is_v2: bool) -> tuple[str, str]:
    """Return a group's quota and the period that it is for, as their files have them."""
    if is_v2:
        quota, _, period = (read(group / "cpu.max") or "max").partition(" ")
    else:
        quota = read(group / "cpu.cfs_quota_us") or "-1"
        period = read(group / "cpu.cfs_period_us") or ""
    return quota, period or "100000"


def throttled_seconds(proc: Path = Path("/proc")) -> float | None:
    """Return the seconds for which a CPU quota has stopped this process's group so far;
    None if unknown.
    """
    durations = []
    for group, is_v2 in _groups("cpu", proc):
        if is_v2:
            unit, name = 1e6, "throttled_usec"
        else:
            unit, name = 1e9, "throttled_time"
        duration = _statistic(group / "cpu.stat", name)
        if duration is not None:
            durations.append(duration / unit)
    return max(durations, default=None)


def memory_left(proc: Path = Path("/proc")) -> tuple[int | None, int | None]:
    """Return the tightest memory limit and the memory still free below it, in bytes; (None, None)
    without a limit.

    The tightest limit is the one that leaves the least memory free. Memory of the page cache counts
    as free if the kernel would drop it first (``inactive_file``).
    """
    tightest: tuple[int, int] | None = None
    for group, is_v2 in _groups("memory", proc):
        limit, usage = _memory(group, is_v2)
        if limit is None or usage is None:
            continue
        left = max(0, limit - usage)
        if tightest is None or left < tightest[1]:
            tightest = (limit, left)
    return tightest or (None, None)


def _memory(group: Path, is_v2: bool) -> tuple[int | None, int | None]:
    """Return a group's memory limit and its use without page cache,
    in bytes; None without a limit.
    """
    if is_v2:
        limit_name, usage_name, cache_name = "memory.max", "memory.current", "inactive_file"
    else:
        limit_name, usage_name, cache_name = (
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        )
    limit = read(group / limit_name)
    usage = read(group / usage_name)
    if not limit or not usage or limit == "max":
        return None, None
    if int(limit) >= 1 << 60:  # v1 writes "no limit" as the largest page-aligned number
        return None, None
    cache = _statistic(group / "memory.stat", cache_name)
    return int(limit), int(usage) - (cache or 0)


def kills(proc: Path = Path("/proc")) -> int:
    """Return a count that rises with each out-of-memory kill on this machine, whichever group the
    process was in.

    The count itself means nothing, since one kill may count several times. A rise between two calls
    shows a kill.
    """
    files = [proc / "vmstat"]
    for group, is_v2 in _groups("memory", proc):
        if is_v2:
            files.append(group / "memory.events")
        else:
            files.append(group / "memory.oom_control")
    total = 0
    for file in files:
        for number in re.findall(r"^oom_kill (\d+)$", read(file) or "", re.MULTILINE):
            total += int(number)
    return total


def usable_cpus(proc: Path = Path("/proc")) -> int:
    """Return the number of CPUs that the affinity mask or, if lower, the CPU quota (rounded up)
    allows; at least 1.

    ftloader.diagnosis.limits.usable_cpus returns the same, which a test of both checks.
    """
    allowed = os.process_cpu_count() or 1
    quota = cpu_quota(proc)
    if quota is None:
        return allowed
    whole = math.ceil(quota - 1e-6)
    return max(1, min(allowed, whole))
